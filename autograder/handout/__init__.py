"""Makes what students get: the release of a unit, the start page, the map of the course, the bundle."""
