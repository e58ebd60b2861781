"""Classifier of provider errors."""
