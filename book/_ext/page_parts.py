"""Interactive parts of pages: each brings its own HTML, data, script and style, and no more.

`embed` puts a part on the page that is read. Its data travels inside the page as JSON, because a
page on file:// may not fetch another file. Its script and style are
``_static/interactive/NAME.js`` and ``.css``; `add_scripts` loads them on the pages that use the
part and on no other. A part shows its answers from the data; it computes none.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docutils import nodes

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

FOLDER = "interactive"
STATIC = Path(__file__).resolve().parent.parent / "_static"


def embed(env: BuildEnvironment, name: str, html: str, data: object) -> nodes.raw:
    """Return the node that shows a part, and note that its page needs the part's script.

    Parameters
    ----------
    env
        Sphinx's environment, while it reads the page.
    name
        Of the part: its script is ``interactive/NAME.js``, its style ``interactive/NAME.css``.
    html
        What a reader without scripts sees; all text in it is escaped by the caller.
    data
        What the script reads: anything that JSON holds.

    Returns
    -------
    docutils.nodes.raw
        One ``<div class="part part-NAME">`` that holds `html` and the data.
    """
    use(env, name)
    body = (
        f'<div class="part part-{name}" data-part="{name}">\n{html}\n'
        f'<script type="application/json" class="part-data">{as_json(data)}</script>\n</div>\n'
    )
    return nodes.raw(body, body, format="html")


def use(env: BuildEnvironment, name: str) -> None:
    """Note that the page which is read needs a part's script and style."""
    used = getattr(env, "causalrag_parts", None)
    if used is None:
        used = env.causalrag_parts = {}
    used.setdefault(env.docname, set()).add(name)


def as_json(data: object) -> str:
    """Write JSON that can stand inside ``<script>``: no text in it ends the element."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")


def add_scripts(
    app: Sphinx, pagename: str, template: str, context: dict[str, Any], doctree: object
) -> None:
    """Load the scripts and styles of the parts that a page uses."""
    for name in sorted(getattr(app.env, "causalrag_parts", {}).get(pagename, ())):
        if (STATIC / FOLDER / f"{name}.css").is_file():
            app.add_css_file(f"{FOLDER}/{name}.css")
        app.add_js_file(f"{FOLDER}/{name}.js", defer="defer")


def forget(app: Sphinx, env: BuildEnvironment, docname: str) -> None:
    """Drop what is known about a page that is read again or gone."""
    getattr(env, "causalrag_parts", {}).pop(docname, None)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.connect("env-purge-doc", forget)
    app.connect("html-page-context", add_scripts)
    return {"version": "1", "parallel_read_safe": False, "parallel_write_safe": True}
