"""Turns units into the site's pages: cells, prose, predictions, live figures, unit and home pages."""


class SiteFailed(Exception):
    """The site cannot be built; the message is one line with the remedy."""
