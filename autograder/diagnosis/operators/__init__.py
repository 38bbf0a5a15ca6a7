"""Small changes of a program, made at one place: which there are, how each is made, and the words for it."""
