"""The engine: session runner, model requests, recovery steps and compaction."""
