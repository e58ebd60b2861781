"""Comparison of Holdfast with the stores of agent frameworks: `make compare`."""
