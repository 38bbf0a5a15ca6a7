"""Which version of the course this is."""

__version__ = "0.1.0"
