"""Notebooks of strangers and of the course, read with care and never run."""
