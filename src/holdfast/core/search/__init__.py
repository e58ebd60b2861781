"""Search: tokenizer, ranking and snippets."""
