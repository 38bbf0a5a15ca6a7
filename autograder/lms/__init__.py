"""Reads what learning-management systems export, and writes marks and feedback for them."""
