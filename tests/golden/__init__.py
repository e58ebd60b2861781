"""Golden files: the bytes on disk as an earlier version wrote them."""
