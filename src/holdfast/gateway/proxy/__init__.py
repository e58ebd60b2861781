"""The drop-in endpoints: an existing client gains a memory that fits by changing its base URL."""
