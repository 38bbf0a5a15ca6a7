"""Our mark in a release, whether `autograder release` or a plain `nbgrader generate_assignment` makes it."""

from __future__ import annotations

from pathlib import Path

from nbformat import NotebookNode
from nbgrader.converters.base import NbGraderException
from nbgrader.preprocessors import NbGraderPreprocessor

from ..data import Expected
from ..reading.contract import KEY, must_be_the_code_of, stamp_for


class StampRelease(NbGraderPreprocessor):
    """Writes into the metadata which version of the exercises the notebook is made for."""

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        try:
            must_be_the_code_of(Path(self.parent.parent.coursedir.root))  # of the exporter's converter
            stamp = stamp_for(resources["nbgrader"]["assignment"], nb)
        except Expected as error:
            self.log.error("%s", error)
            raise NbGraderException(str(error)) from error
        nb.metadata.pop(KEY, None)
        if stamp.contracts:
            nb.metadata[KEY] = stamp.as_metadata()
        return nb, resources


__all__ = ["StampRelease"]
