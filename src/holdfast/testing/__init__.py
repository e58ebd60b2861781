"""What tests of Holdfast and of stores written by others build on. Nothing outside of tests imports it."""
