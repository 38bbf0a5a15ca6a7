"""Grades one submission or many in parallel, and stores the results."""
