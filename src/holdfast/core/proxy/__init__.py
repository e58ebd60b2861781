"""Decisions of the proxy as pure functions: client profiles, session matching, plans and compaction answers."""
