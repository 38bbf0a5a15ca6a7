"""Old place of `exercises.kit`; goes when nothing imports it any more."""

from .exercises.kit import *  # noqa: F403
