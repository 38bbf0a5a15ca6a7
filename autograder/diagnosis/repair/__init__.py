"""What a student's own program says of its mistake: a change that makes it right, a step that leaves the way."""
