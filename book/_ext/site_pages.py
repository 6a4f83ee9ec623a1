"""What every page of the site carries: a description, names for previews, and its small scripts.

A page's description is its first paragraph. Previews that other sites show need full addresses:
``$CAUSALRAG_SITE_URL`` names where the site will stand, and without it the pages name none. The
preview picture is the first chart of the home page.
"""

from __future__ import annotations

import os
import re
import shutil
from html import escape, unescape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docutils import nodes

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.config import Config

SITE_URL = "CAUSALRAG_SITE_URL"
PREVIEW = "_static/preview.png"
LONGEST = 200
"""Characters of a description, about what search engines show."""

DEFAULT = (
    "causalrag: a book that teaches and tests causal re-ranking for retrieval-augmented "
    "generation, with a verdict from a run for every claim."
)


def description(doctree: nodes.document | None) -> str:
    """Return a page's first paragraph as plain text, cut at the end of a sentence or of a word."""
    if doctree is None:
        return DEFAULT
    for paragraph in doctree.findall(nodes.paragraph):
        if isinstance(paragraph.parent, nodes.section):
            text = " ".join(_plain(paragraph).split())
            if len(text) >= 40:
                return _cut(text)
    return DEFAULT


def _plain(node: nodes.Node) -> str:
    """Return the text of a node; of a formula its TeX without the marks."""
    return node.astext().replace("\\", "").replace("$", "")


def _cut(text: str) -> str:
    if len(text) <= LONGEST:
        return text
    head = text[: LONGEST + 1]
    for stop in (". ", "? ", ": "):
        end = head.rfind(stop)
        if end >= LONGEST // 3:
            return head[: end + 1]
    return head[: head.rfind(" ", 0, LONGEST - 1)] + " …"


def meta_tags(title: str, text: str, address: str) -> str:
    """Write the tags that search engines and previews read.

    Parameters
    ----------
    title, text
        Plain text.
    address
        Where the site will stand, with ``/`` at its end; empty when not known, and then no tag
        names a picture, which needs a full address.
    """
    tags = [
        ("name", "description", text),
        ("property", "og:title", title),
        ("property", "og:description", text),
        ("property", "og:type", "article"),
        ("property", "og:site_name", "causalrag"),
        ("name", "twitter:card", "summary_large_image" if address else "summary"),
    ]
    if address:
        tags.append(("property", "og:image", address + PREVIEW))
    return "".join(
        f'<meta {kind}="{name}" content="{escape(content)}" />\n' for kind, name, content in tags
    )


def site_url() -> str:
    """Return the address from the environment, with one ``/`` at its end, or nothing."""
    found = os.environ.get(SITE_URL, "").strip()
    if found and not found.startswith(("http://", "https://")):
        raise ValueError(
            f"{SITE_URL} is {found!r}; give a full address, such as https://host/book/"
        )
    return found.rstrip("/") + "/" if found else ""


def set_address(app: Sphinx, config: Config) -> None:
    """Tell Sphinx where the site will stand, for its canonical links."""
    config.html_baseurl = site_url()


def complete_page(
    app: Sphinx, pagename: str, template: str, context: dict[str, Any], doctree: Any
) -> None:
    """Give a page its tags; a chapter also what hides results behind its predictions."""
    title = unescape(re.sub(r"<[^>]*>", "", context.get("title", "causalrag")))
    context["metatags"] = context.get("metatags", "") + meta_tags(
        title, description(doctree), app.config.html_baseurl
    )
    if pagename == app.config.master_doc and doctree is not None:
        # The writer has put each picture's place in the site where its source stood.
        charts = (Path(image["uri"]).name for image in doctree.findall(nodes.image))
        app.env.causalrag_preview = next((name for name in charts if name.endswith(".png")), None)
    if pagename.startswith("notebooks/"):
        app.add_js_file("predict.js", defer="defer")
    # sphinxcontrib-bibtex marks its list as role="list", which asks for items it does not hold.
    if "body" in context:
        context["body"] = context["body"].replace(
            '<div role="list" class="citation-list">', '<div class="citation-list">'
        )


def keep_preview(app: Sphinx, exception: Exception | None) -> None:
    """Copy the home page's first chart to where previews look for it."""
    if exception is not None or app.builder.format != "html":
        return
    chart = getattr(app.env, "causalrag_preview", None)
    if chart:
        shutil.copyfile(Path(app.outdir) / "_images" / chart, Path(app.outdir) / PREVIEW)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.connect("config-inited", set_address)
    app.connect("html-page-context", complete_page)
    app.connect("build-finished", keep_preview)
    app.add_js_file("scrollers.js", defer="defer")
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
