"""The lab: demo, benches and crash lab. Only the command line imports it, lazily."""
