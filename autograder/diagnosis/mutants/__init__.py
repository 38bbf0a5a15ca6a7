"""Makes mutants, which are the model solution with one small change each, and compares wrong answers with them."""
