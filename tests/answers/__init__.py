"""Right and wrong answers to graded functions, to test the judge with."""
