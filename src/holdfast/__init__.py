"""Keeps the sessions of LLM agents alive."""
