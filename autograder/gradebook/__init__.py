"""Reads and writes nbgrader's gradebook, and adds our steps to nbgrader's own commands."""
