"""Test support: contract suites of the ports, fakes and builders. Only tests import it."""
