"""Crash tests: kill the engine, lose power and flip bits, then check the store from outside."""
