"""Learning-management systems: what they hand over, and the marks that go back to them."""
