"""Small changes of a plain program, each with words for what it does: what a wrong answer is compared with."""
