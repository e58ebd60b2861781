"""Import of other agents' sessions: transcript reader and record builder."""
