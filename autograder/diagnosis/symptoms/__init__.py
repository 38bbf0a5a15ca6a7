"""General relations between a wrong answer and the right one, for mistakes that no exercise lists."""
