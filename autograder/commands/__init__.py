"""What stands behind each command: one file a command."""
