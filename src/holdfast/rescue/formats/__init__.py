"""Readers and repairers of the session formats of other agents, one module per format."""
