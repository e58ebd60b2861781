"""Full-text search of session logs."""
