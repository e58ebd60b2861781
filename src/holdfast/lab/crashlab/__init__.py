"""Whether what was acknowledged survives: kills and power losses, with an oracle outside that keeps count."""
