"""The demo: one session through every disaster."""
