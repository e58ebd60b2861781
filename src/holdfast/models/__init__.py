"""Models: the wire dialects in both directions, the client over HTTP, the catalogue, and the simulated model."""
