"""Makes the small changes of a program, each in one place, and the words for them."""
