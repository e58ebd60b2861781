"""Makes happen what the core decides: once, in order, over asyncio."""
