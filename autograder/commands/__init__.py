"""Implements each command."""
