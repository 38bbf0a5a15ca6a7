"""Relates wrong results to the expected ones in general, for mistakes that no exercise lists."""
