"""Demo, benchmarks and crash tests. Only the command line imports them, on use."""
