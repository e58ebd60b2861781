"""The public API: client, sessions, admission and transfer."""
