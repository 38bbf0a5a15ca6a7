"""What a person must mend."""


class Expected(Exception):
    """Arguments, input or a machine that a person must mend: one line with the remedy, and no fault of ours."""
