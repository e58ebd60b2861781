"""Benchmarks of `holdfast bench`."""
