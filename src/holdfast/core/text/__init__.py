"""Text: truncation, escaping, patterns and media types."""
