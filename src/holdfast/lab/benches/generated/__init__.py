"""Material that benches generate: conversations, and models that follow a script."""
