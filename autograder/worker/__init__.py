"""Runs cells, calls functions and sends raw arrays, inside the sandbox.

It is the only code of this project there: it imports nothing else of it, and is mounted as the top-level package
`worker`.
"""
