"""Text and bytes: truncation, escaping, lazy patterns and media types."""
