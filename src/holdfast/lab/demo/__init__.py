"""The demo: one session through a series of faults, with real processes."""
