"""Integrity of the log: gaps, segments and repairs."""
