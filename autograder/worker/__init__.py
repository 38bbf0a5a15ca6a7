"""The only code that enters the sandbox: runs cells, calls functions, ships raw arrays.

It imports nothing else of this project, so that it can be mounted alone, as the top-level package `worker`.
"""
