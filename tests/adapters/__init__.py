"""Adapters for agent frameworks, in-process transport and the client without asyncio."""
