"""Runs cells, calls functions and sends raw arrays, inside the sandbox.

This package is the only code of the project inside the sandbox: it imports nothing else from the project, and is
mounted as the top-level package `worker`.
"""
