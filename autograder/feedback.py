"""Feedback pages: nbgrader's template, rendered once per text rather than once per student.

Most of a page is our own prose and the same for the whole class. What a student contributes is code and plain text,
and both are escaped by the template.
"""

from __future__ import annotations

import functools
import re
from typing import Any

from jinja2 import pass_context
from nbconvert.exporters import HTMLExporter
from nbconvert.exporters.templateexporter import TemplateExporter
from nbconvert.filters.widgetsdatatypefilter import WidgetsDataTypeFilter
from nbformat import NotebookNode

from .colour import coloured

TEXTS_CACHED = 4_096
CODE_CELL = re.compile(r'<div class="(jp-Cell-inputWrapper|jp-OutputArea-output[^"]*)"')


class FeedbackExporter(HTMLExporter):
    """nbconvert's HTML exporter without its last pass, which parses the whole page in order to touch a few tags.

    That pass adds alternative text where none is (ours has it, and a test sees to that) and lets the keyboard reach the
    cells, which is done here by their opening tags.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        plain = HTMLExporter.markdown2html

        @functools.lru_cache(TEXTS_CACHED)
        def rendered(source: str) -> str:
            return plain(self, {}, source)

        self._rendered, self._coloured = rendered, functools.lru_cache(TEXTS_CACHED)(coloured)

    @pass_context
    def markdown2html(self, context: Any, source: str) -> str:
        cell = context.get("cell", {})
        return super().markdown2html(context, source) if cell.get("attachments") else self._rendered(source)

    def _highlight(self, source: str, language: str | None = None, metadata: Any = None) -> str:
        return f'<div class="highlight"><pre>{self._coloured(source)}</pre></div>'

    def from_notebook_node(
        self, nb: NotebookNode, resources: dict[str, Any] | None = None, **kwargs: Any
    ) -> tuple[str, dict[str, Any]]:
        resources = self._init_resources(resources)
        self.register_filter("highlight_code", self._highlight)
        widgets = WidgetsDataTypeFilter(notebook_metadata=self._nb_metadata, parent=self, resources=resources)
        self.register_filter("filter_data_type", widgets)
        html, resources = TemplateExporter.from_notebook_node(self, nb, resources, **kwargs)
        return CODE_CELL.sub(r'<div tabindex="0" class="\1"', html), resources


__all__ = ["FeedbackExporter"]
