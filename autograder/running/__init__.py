"""Runs student code in a sandbox: sends it requests, reads its answers, and sets its limits."""
