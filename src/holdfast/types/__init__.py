"""Types that are on disk: messages, records, faults, limits and usage. They import nothing of ours."""
