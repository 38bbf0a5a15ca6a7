"""What stands behind each command."""
