"""Attacks on a gateway that anybody can run against their own."""
