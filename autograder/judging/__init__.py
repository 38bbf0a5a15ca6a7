"""Turns answers into marks: draws the cases, compares each result with the expected one and scores it."""
