"""The fault classifier."""
