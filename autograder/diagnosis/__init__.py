"""Names the mistake in a wrong answer. No mark depends on it."""
