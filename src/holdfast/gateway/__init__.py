"""The gateway: sessions over HTTP, for whoever is not a Python program on this machine."""
