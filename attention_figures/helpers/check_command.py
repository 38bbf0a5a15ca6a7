"""Names the command that finds the cause of a mistake."""

import importlib.util
import sys


def ask_judge_about(unit):
    """Say which command finds the cause of a mistake, where it is installed."""
    if importlib.util.find_spec("autograder") is None:  # not everybody has the grader
        return ""
    command = f'"{sys.executable}" -m autograder check {unit}'
    return f"\nFor the probable cause, save, and run this in a cell below:\n!{command}"
