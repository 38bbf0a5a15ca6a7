"""The rooms of the site: cells to HTML (`prose`, `cells`, `predictions`, `live`), units and home page, packages."""


class SiteFailed(Exception):
    """The site cannot be made: one line with the remedy."""
