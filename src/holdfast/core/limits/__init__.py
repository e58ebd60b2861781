"""Limits: bounds, sizes of requests, fit, prices, and learned limits."""
