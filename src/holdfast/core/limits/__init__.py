"""Limits of models and of the engine: sizes of requests, preflight checks, prices and learned limits."""
