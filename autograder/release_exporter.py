"""Our part in `nbgrader generate_assignment`: the release says which version of the exercises it was made for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nbconvert.exporters import NotebookExporter
from nbformat import NotebookNode
from nbgrader.converters.base import NbGraderException

from .contract import KEY, must_be_the_code_of, stamp_for
from .expected import Expected


class ReleaseExporter(NotebookExporter):
    """Writes the release as nbgrader does, with our mark in its metadata."""

    def from_notebook_node(
        self, nb: NotebookNode, resources: dict | None = None, **kwargs: Any
    ) -> tuple[str, dict[str, Any]]:
        unit = (resources or {})["nbgrader"]["assignment"]
        try:
            must_be_the_code_of(Path(self.parent.coursedir.root))
            stamp = stamp_for(unit, nb)
        except Expected as error:
            self.log.error("%s", error)
            raise NbGraderException(str(error)) from error
        nb.metadata.pop(KEY, None)
        if stamp.contracts:
            nb.metadata[KEY] = stamp.as_metadata()
        return super().from_notebook_node(nb, resources=resources, **kwargs)


__all__ = ["ReleaseExporter"]
