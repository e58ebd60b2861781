"""The runtime: performs the decisions of the core over asyncio, once and in order."""
