"""Maintenance: supervision, sealing, healing and the doctor."""
