"""Compaction: planning, digests, facts, the ledger and summaries."""
