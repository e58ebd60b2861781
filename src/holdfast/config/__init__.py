"""Configuration: one schema for the file, the environment and flags, and where each value came from."""
