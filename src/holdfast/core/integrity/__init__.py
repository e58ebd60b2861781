"""Integrity of the log: gaps, archive segments and repairs."""
