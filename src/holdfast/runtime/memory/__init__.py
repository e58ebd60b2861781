"""Long-term memory: notes that sessions of one scope share, and the tool that models use for them."""
