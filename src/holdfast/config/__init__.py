"""Configuration: one schema for file, environment and flags, and a loader that tracks the source of each value."""
