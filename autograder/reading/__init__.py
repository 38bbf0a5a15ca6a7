"""Reads the course's notebooks and untrusted submissions without running them."""
