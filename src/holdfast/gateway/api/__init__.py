"""The native HTTP API, one module per resource."""
