"""Real agents, where they are installed: their sessions are broken, shown dead, rescued and resumed."""
