"""Models: wire dialects, HTTP client, catalogue and the simulated provider."""
