"""Measurements that anyone can repeat: `holdfast bench`."""
