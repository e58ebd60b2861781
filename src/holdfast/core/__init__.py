"""What the engine decides, as data and pure functions: no loop, clock, disk, network, randomness or log."""
