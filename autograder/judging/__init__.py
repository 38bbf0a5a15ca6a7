"""From answers to verdicts: cases and what is right, comparison, which mistake it is."""
