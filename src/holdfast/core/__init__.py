"""The engine's policy as data and pure functions: no loop, clock, disk, network, randomness or log."""
