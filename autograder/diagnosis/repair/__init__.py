"""Runs a student's own function to find a change that repairs it, or the first step that goes wrong."""
