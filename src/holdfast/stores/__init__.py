"""Where logs, leases and blobs are kept: in memory, in SQLite, in a folder."""
