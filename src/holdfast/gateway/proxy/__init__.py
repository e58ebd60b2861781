"""HTTP proxy for LLM clients: recording, recovery and compaction behind a changed base URL."""
