"""Types that are stored on disk: messages, records, faults, limits and usage. They import nothing else of Holdfast."""
