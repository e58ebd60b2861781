"""Compaction of the view: plans, summaries by a model, and digests without one."""
