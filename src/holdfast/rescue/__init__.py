"""Sessions of other agents: reading their transcripts, and making sessions of ours of them."""
