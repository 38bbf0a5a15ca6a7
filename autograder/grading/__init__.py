"""Grading: one submission, many side by side, and what is kept of them."""
