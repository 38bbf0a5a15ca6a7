"""nbgrader's gradebook: what is written into it, what it says, and our parts in nbgrader's own commands."""
