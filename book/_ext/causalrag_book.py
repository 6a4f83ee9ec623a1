"""Sphinx extension of the book: the execution cache's key, the records of claims, the ledger page.

It (1) keys the execution cache on the library, so that edited code re-executes the chapters and an
unchanged rebuild executes none; (2) collects the records of claims from the executed chapters and
turns failed or missing ones into warnings, which `-W` makes errors; (3) fills the ledger page and
the counts in the prose from those records; (4) offers each executed chapter for download.
It executes nothing itself: that is myst-nb's part.
"""

from __future__ import annotations

import contextlib
import importlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat
from book_chapters import inputs_key, plain_ipython, settles
from docutils import nodes
from jupyter_cache import get_cache
from myst_nb.sphinx_ import NbMetadataCollector
from page_parts import use
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective, SphinxRole

if TYPE_CHECKING:
    from docutils.nodes import Node, document, system_message
    from pandas import DataFrame
    from sphinx.application import Sphinx
    from sphinx.config import Config
    from sphinx.environment import BuildEnvironment

LOGGER = logging.getLogger(__name__)
_COUNTED_COLUMNS = ("verdict", "kind", "source", "setting")
# On file:// a page may not fetch another, which Sphinx's result snippets need: show titles alone.
_SEARCH_ON_FILE = (
    'if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;'
)


class LedgerNode(nodes.General, nodes.Element):
    """Where the table of claims goes once every chapter was read."""


class LedgerCountNode(nodes.Inline, nodes.TextElement):
    """Where a count out of the ledger goes; ``query`` says which."""


class ClaimsLedger(SphinxDirective):
    """``{claims-ledger}``: every claim with its verdict, linked to the cell that decided it."""

    has_content = False

    def run(self) -> list[Node]:
        """Leave the placeholder."""
        _remember(self.env)
        use(self.env, "ledger")
        node = LedgerNode()
        self.set_source_info(node)
        return [node]


class LedgerCount(SphinxRole):
    """``{ledger-count}`replicated```: a number of rows in the ledger, so that none is typed.

    The text is ``total`` (rows), ``claims`` (distinct ids), or terms joined by ``;`` that must all
    hold: a verdict (``not run``), or ``column=value`` for verdict, kind, source or setting.
    """

    def run(self) -> tuple[list[Node], list[system_message]]:
        """Leave the placeholder."""
        _remember(self.env)
        node = LedgerCountNode(self.rawtext, query=self.text)
        self.set_source_info(node)
        return [node], []


# -- (1) the execution cache ---------------------------------------------------------------------


def prepare_execution(app: Sphinx, config: Config) -> None:
    """Give the execution cache a folder named after its inputs; drop the folders of old keys."""
    plain_ipython(_build_folder(app))
    package = Path(importlib.import_module("causalrag").__file__).parent
    folder = _build_folder(app) / ".jupyter_cache"
    current = folder / inputs_key(Path(app.srcdir), package)
    if folder.is_dir():
        for other in folder.iterdir():
            if other != current:
                shutil.rmtree(other) if other.is_dir() else other.unlink()
    config.nb_execution_cache_path = str(current)


def restore_outputs(app: Sphinx, env: BuildEnvironment) -> None:
    """Put the outputs back into the notebooks of chapters that came out of the execution cache.

    myst-nb shows the cached outputs in the pages but writes those notebooks without them.
    """
    cache = get_cache(app.config.nb_execution_cache_path)
    for docname in _notebooks(env):
        path = _executed(app, docname)
        notebook = nbformat.read(path, nbformat.NO_CONVERT)
        if any(cell.get("outputs") for cell in notebook.cells):
            continue
        with contextlib.suppress(KeyError):  # not in the cache: its execution failed, and said so
            _, notebook = cache.merge_match_into_notebook(notebook)
            nbformat.write(notebook, path)


# -- (2) records ---------------------------------------------------------------------------------


def collect_records(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Write the records of all executed chapters, and warn about each that fails or is missing."""
    from causalrag import claims

    records = []
    for docname in _notebooks(env):
        if (NbMetadataCollector.get_exec_data(env, docname) or {}).get("error"):
            continue  # myst-nb has said so, and its missing records say nothing more
        try:
            found = claims.collect(_executed(app, docname), docname.rpartition("/")[2])
            missing = settles(Path(env.doc2path(docname))) - {record.id for record in found}
        except ValueError as error:
            _warn(f"{docname}: {error}", docname)
            continue
        records += found
        for claim in sorted(missing):
            _warn(
                f"claim {claim}: the chapter settles it, but its executed cells hold no record",
                docname,
            )
    folder = _build_folder(app) / "records"
    try:
        claims.write_records(records, folder)
        for row in claims.failed(claims.ledger(folder)).itertuples():
            _warn(f"claim {row.id} ({row.kind}) fails: measured {row.measured}, {row.cell}")
    except ValueError as error:
        _warn(str(error))
    # Pages that show the ledger are written again although their own source did not change.
    return sorted(getattr(env, "causalrag_ledger_docs", set()))


# -- (3) the ledger in pages ---------------------------------------------------------------------


def fill_ledger(app: Sphinx, doctree: document, docname: str) -> None:
    """Replace the placeholders in a page by the table and by the counts."""
    tables, counts = list(doctree.findall(LedgerNode)), list(doctree.findall(LedgerCountNode))
    if not tables and not counts:
        return
    from causalrag import claims

    folder = _build_folder(app) / "records"
    for node in counts:
        try:
            text = str(count(claims.ledger(folder), node["query"]))
        except ValueError as error:
            LOGGER.warning("%s", error, location=node, type="causalrag", subtype="ledger")
            text = "?"
        node.replace_self(nodes.inline(text, text, classes=["ledger-count"]))
    if tables:
        from ledger_page import render

        html = render(claims.load_claims(), claims.read_records(folder), _page_of(app, docname))
        for node in tables:
            node.replace_self(nodes.raw(html, html, format="html"))


def write_files(app: Sphinx, exception: Exception | None) -> None:
    """Write the ledger as a table for download, and its badge."""
    if exception is not None or app.builder.format != "html":
        return
    from ledger_page import badge, table

    from causalrag import claims

    try:
        frame = claims.ledger(_build_folder(app) / "records")
    except ValueError:
        return  # a record that does not fit, which `collect_records` has told
    static = Path(app.outdir) / "_static"
    (static / "ledger.csv").write_text(table(frame), encoding="utf-8")
    (static / "ledger-badge.svg").write_text(badge(frame), encoding="utf-8")


def count(ledger: DataFrame, query: str) -> int:
    """Return how many rows of the ledger meet `query` (see `LedgerCount` for its form).

    Raises
    ------
    ValueError
        If a term names no column to count by, or a verdict that does not exist.
    """
    from causalrag.claims import VERDICTS

    terms = [term.strip() for term in query.split(";")]
    if terms == ["total"]:
        return len(ledger)
    if terms == ["claims"]:
        return int(ledger["id"].nunique())
    for term in terms:
        column, _, value = term.rpartition("=")
        column = column.strip() or "verdict"
        if column not in _COUNTED_COLUMNS:
            raise ValueError(f"ledger-count: {column!r} is none of {', '.join(_COUNTED_COLUMNS)}")
        if column == "verdict" and value.strip() not in VERDICTS:
            raise ValueError(
                f"ledger-count: {value.strip()!r} is none of the verdicts {', '.join(VERDICTS)}"
            )
        ledger = ledger[ledger[column] == value.strip()]
    return len(ledger)


def _page_of(app: Sphinx, docname: str) -> Callable[[str], str | None]:
    """Return a function from a chapter's name to its address as seen from page `docname`."""
    docs = {doc.rpartition("/")[2]: doc for doc in _notebooks(app.env)}

    def page_of(chapter: str) -> str | None:
        return app.builder.get_relative_uri(docname, docs[chapter]) if chapter in docs else None

    return page_of


def _remember(env: BuildEnvironment) -> None:
    if not hasattr(env, "causalrag_ledger_docs"):
        env.causalrag_ledger_docs = set()
    env.causalrag_ledger_docs.add(env.docname)


def forget(app: Sphinx, env: BuildEnvironment, docname: str) -> None:
    """Drop what is known about a page that is read again or gone."""
    getattr(env, "causalrag_ledger_docs", set()).discard(docname)


# -- (4) pages -----------------------------------------------------------------------------------


def adapt_page(
    app: Sphinx, pagename: str, template: str, context: dict[str, Any], doctree: object
) -> None:
    """Offer the executed notebook for download, and make the search page work on file://."""
    if pagename == "search":
        app.add_js_file(None, body=_SEARCH_ON_FILE)
    if pagename in _notebooks(app.env):
        target = Path(app.outdir) / "_sources" / f"{pagename}.ipynb"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(_executed(app, pagename), target)
        context["ipynb_source"] = f"{pagename}.ipynb"  # the theme's download menu shows it


# -- helpers -------------------------------------------------------------------------------------


def _build_folder(app: Sphinx) -> Path:
    return Path(app.outdir).parent


def _executed(app: Sphinx, docname: str) -> Path:
    return _build_folder(app) / "jupyter_execute" / f"{docname}.ipynb"


def _notebooks(env: BuildEnvironment) -> list[str]:
    return sorted(doc for doc in env.found_docs if env.metadata[doc].get("kernelspec"))


def _warn(message: str, docname: str | None = None) -> None:
    LOGGER.warning("%s", message, location=docname, type="causalrag", subtype="claims")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register everything with Sphinx."""
    app.add_node(LedgerNode)
    app.add_node(LedgerCountNode)
    app.add_directive("claims-ledger", ClaimsLedger)
    app.add_role("ledger-count", LedgerCount())
    app.connect("config-inited", prepare_execution)
    app.connect("env-purge-doc", forget)
    app.connect("env-updated", restore_outputs)
    app.connect("env-updated", collect_records)
    app.connect("doctree-resolved", fill_ledger)
    app.connect("build-finished", write_files)
    # After the theme has made its list of buttons (500), before it fills it (501).
    app.connect("html-page-context", adapt_page, priority=500)
    return {"version": "1", "parallel_read_safe": False, "parallel_write_safe": True}
