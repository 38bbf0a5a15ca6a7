"""Names the command that finds the cause of a mistake."""

import importlib.util
import sys


def ask_judge_about(unit):
    """Return advice to run the grader on a unit, or "" if it is not installed."""
    if importlib.util.find_spec("autograder") is None:  # students may not have the grader
        return ""
    command = f'"{sys.executable}" -m autograder check {unit}'
    return f"\nFor the probable cause, save, and run this in a cell below:\n!{command}"
