"""``{figure-of}``: a figure of a chapter shown on another page, with its caption and words.

The page that shows it holds no copy: picture, caption and alt text come from the executed chapter,
so they cannot part from the cell that made them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

if TYPE_CHECKING:
    from docutils.nodes import Node
    from sphinx.application import Sphinx

LOGGER = logging.getLogger(__name__)


class FigureOfNode(nodes.General, nodes.Element):
    """Where the figure goes once every chapter was read."""


class FigureOf(SphinxDirective):
    """``{figure-of} CHAPTER FIGURE``: a chapter as the toc names it, and its figure's name."""

    required_arguments = 2
    has_content = False

    def run(self) -> list[Node]:
        """Leave the placeholder."""
        chapter, figure = self.arguments
        node = FigureOfNode(chapter=chapter, figure=figure)
        self.set_source_info(node)
        return [node]


class ShowFigures(SphinxPostTransform):
    """Put the figures where the placeholders stand."""

    # Before myst-nb selects among an output's forms (4) and before references are resolved (10).
    default_priority = 3

    def run(self, **kwargs: Any) -> None:
        """Replace each placeholder in the page."""
        for placeholder in list(self.document.findall(FigureOfNode)):
            chapter, name = placeholder["chapter"], placeholder["figure"]
            figure = self._find(chapter, name)
            if figure is None:
                LOGGER.warning(
                    "figure-of: %s has no figure %r; figures are named in their cell's `mystnb:`",
                    chapter,
                    name,
                    location=placeholder,
                )
                placeholder.parent.remove(placeholder)
                continue
            for reference in figure.findall(addnodes.pending_xref):
                reference["refdoc"] = self.env.docname
            # A name of its own, and no number: the chapter's figure has that.
            figure["ids"], figure["names"] = [f"figure-of-{name}"], []
            figure["classes"].append("figure-of")
            placeholder.replace_self(figure)

    def _find(self, chapter: str, name: str) -> nodes.figure | None:
        """Return a copy of a chapter's figure."""
        if chapter not in self.env.found_docs:
            return None
        for figure in self.env.get_doctree(chapter).findall(nodes.figure):
            if name in figure["ids"] or name in figure["names"]:
                return figure.deepcopy()
        return None


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_node(FigureOfNode)
    app.add_directive("figure-of", FigureOf)
    app.add_post_transform(ShowFigures)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
