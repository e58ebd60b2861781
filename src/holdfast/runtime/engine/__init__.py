"""The engine: one runner per session, its requests, rungs and compactions."""
