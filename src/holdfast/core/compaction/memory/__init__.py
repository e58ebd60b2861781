"""Memory of a conversation: a bounded fold over its messages, from which digests and ledgers are rendered."""
