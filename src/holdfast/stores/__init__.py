"""Stores for logs, leases, blobs and archives: in memory, SQLite, PostgreSQL, folders and S3."""
