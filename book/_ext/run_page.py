"""The page of run times and versions: what this build ran, how long it took, and with what.

``{run-times}`` lists the chapters, ``{versions}`` the packages that the project names,
``{stored-results}`` the results that a build reads and does not make. Durations are those of each
chapter's last execution, which a cached build keeps; no clock and no name of a machine is shown.
"""

from __future__ import annotations

import json
import os
import platform
import re
import tomllib
from collections.abc import Iterable, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat
from docutils import nodes
from myst_nb.sphinx_ import NbMetadataCollector
from packaging.requirements import Requirement
from sphinx import addnodes
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

if TYPE_CHECKING:
    from docutils.nodes import Node
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

ROOT = Path(__file__).resolve().parent.parent.parent
LOGGER = logging.getLogger(__name__)
NONE = "–"


class RunTimesNode(nodes.General, nodes.Element):
    """Where the table of run times goes once every chapter was executed."""


class RunTimes(SphinxDirective):
    """``{run-times}``: each chapter, its code cells, and the seconds that they took."""

    has_content = False

    def run(self) -> list[Node]:
        """Leave the placeholder: chapters read later are not executed yet."""
        if not hasattr(self.env, "causalrag_run_pages"):
            self.env.causalrag_run_pages = set()
        self.env.causalrag_run_pages.add(self.env.docname)
        node = RunTimesNode()
        self.set_source_info(node)
        return [node]


class Versions(SphinxDirective):
    """``{versions}``: the packages that pyproject.toml names, with the versions installed here."""

    has_content = False

    def run(self) -> list[Node]:
        """Write the table."""
        rows = versions(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8")))
        return [table(("package", "version", "for"), rows)]


class StoredResults(SphinxDirective):
    """``{stored-results}``: the parts of book/results, when and with what they were made."""

    has_content = False

    def run(self) -> list[Node]:
        """Write the table."""
        folder = ROOT / "book" / "results"
        self.env.note_dependency(str(folder))
        return [table(("part", "files", "made", "models", "Python", "cores"), stored(folder))]


# -- what the tables hold -------------------------------------------------------------------------


def machine() -> str:
    """Say what kind of machine runs this; without its name."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return (
        f"{platform.system()} on {platform.machine()}, {usable} core{'s' if usable != 1 else ''}, "
        f"{platform.python_implementation()} {platform.python_version()}"
    )


def versions(project: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return (package, installed version, what asks for it) of all that `project` names.

    Parameters
    ----------
    project
        As pyproject.toml is read. A package that is not installed has a dash for its version.
    """
    about = project["project"]
    groups = {"the library": about["dependencies"]}
    groups |= {f"extra {name}": lines for name, lines in about["optional-dependencies"].items()}
    wanted: dict[str, list[str]] = {}
    for group, lines in groups.items():
        for line in lines:
            wanted.setdefault(Requirement(line).name, []).append(group)
    rows = []
    for package in sorted(wanted, key=str.casefold):
        try:
            version = metadata.version(package)
        except metadata.PackageNotFoundError:
            version = NONE
        rows.append((package, version, ", ".join(wanted[package])))
    return rows


def provenance(path: Path) -> dict[str, Any] | None:
    """Return what a stored result says about itself; None for a file that is no result."""
    if path.suffix == ".json":
        about = json.loads(path.read_text(encoding="utf-8"))
    elif path.suffix == ".parquet":
        import pyarrow.parquet

        kept = pyarrow.parquet.read_schema(path).metadata or {}
        about = json.loads(kept.get(b"causalrag", b"{}"))
    else:
        return None
    found = about.get("provenance")
    return found if isinstance(found, dict) else None


def stored(folder: Path) -> list[tuple[str, ...]]:
    """Return a row for each part of the stored results: (part, files, made, models, Python, cores).

    Parameters
    ----------
    folder
        book/results. A part is a folder in it, or a file.
    """
    parts: dict[str, list[dict[str, Any]]] = {}
    for path in sorted(folder.rglob("*")):
        about = provenance(path) if path.is_file() else None
        if about is not None:
            parts.setdefault(path.relative_to(folder).parts[0].split(".")[0], []).append(about)
    return [
        (
            part,
            str(len(found)),
            _span(about.get("made") for about in found),
            _listed(about.get("model", {}).get("name") for about in found),
            _listed(about.get("versions", {}).get("python") for about in found),
            _listed(about.get("platform", {}).get("cpus") for about in found),
        )
        for part, found in parts.items()
    ]


def run_times(env: BuildEnvironment, executed: Path) -> list[tuple[str, str, float | None]]:
    """Return (chapter, code cells, seconds) of each executed chapter, in the order of the names.

    Parameters
    ----------
    env
        Sphinx's environment, after every page was read.
    executed
        Folder of the executed notebooks.
    """
    rows = []
    for docname in sorted(doc for doc in env.found_docs if env.metadata[doc].get("kernelspec")):
        seconds = (NbMetadataCollector.get_exec_data(env, docname) or {}).get("runtime")
        path = executed / f"{docname}.ipynb"
        cells = NONE
        if path.is_file():
            notebook = nbformat.read(path, nbformat.NO_CONVERT)
            cells = str(sum(cell.cell_type == "code" for cell in notebook.cells))
        rows.append((docname, cells, seconds))
    return rows


def _span(dates: Iterable[str | None]) -> str:
    days = sorted({day for day in dates if day})
    return " to ".join(dict.fromkeys((days[0], days[-1]))) if days else NONE


def _listed(values: Iterable[object]) -> str:
    found = {str(value) for value in values if value not in (None, "")}
    # Several encoders in one file are named together, "a + b": each is listed once.
    names = {name for value in found for name in re.split(r"\s*[,+]\s*", value)}
    return ", ".join(sorted(names)) or NONE


# -- tables ---------------------------------------------------------------------------------------


def table(
    heads: Sequence[str], rows: Iterable[Sequence[str | Node]], foot: Sequence[str] = ()
) -> nodes.table:
    """Return a table of texts and nodes."""
    built = nodes.table(classes=["run-table"])
    group = nodes.tgroup(cols=len(heads))
    built += group
    group += [nodes.colspec(colwidth=1) for _ in heads]
    group += nodes.thead("", _row(heads))
    body = [_row(row) for row in rows]
    group += nodes.tbody("", *body, *([_row([nodes.strong(t, t) for t in foot])] if foot else []))
    return built


def _row(cells: Sequence[str | Node]) -> nodes.row:
    row = nodes.row()
    for cell in cells:
        inner = nodes.Text(cell) if isinstance(cell, str) else cell
        row += nodes.entry("", nodes.paragraph("", "", inner))
    return row


class ShowRunTimes(SphinxPostTransform):
    """Put the table of run times where its placeholder stands."""

    default_priority = 8  # before references are resolved (10)

    def run(self, **kwargs: Any) -> None:
        """Replace each placeholder in the page."""
        for placeholder in list(self.document.findall(RunTimesNode)):
            times = run_times(self.env, Path(self.app.outdir).parent / "jupyter_execute")
            rows = [
                (_link(self.env, docname), cells, NONE if seconds is None else f"{seconds:.1f}")
                for docname, cells, seconds in times
            ]
            total = sum(seconds or 0 for *_, seconds in times)
            foot = ("all, one after another", "", f"{total:.0f}")
            placeholder.replace_self(
                [
                    nodes.paragraph("", f"Machine: {machine()}."),
                    table(("chapter", "code cells", "seconds"), rows, foot),
                ]
            )


def _link(env: BuildEnvironment, docname: str) -> addnodes.pending_xref:
    title = env.titles[docname].astext() if docname in env.titles else docname
    return addnodes.pending_xref(
        "", nodes.inline(title, title), refdomain="std", reftype="doc", reftarget=f"/{docname}",
        refexplicit=True, refdoc=env.docname, refwarn=True,
    )  # fmt: skip


def read_again(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Name the pages to write again when a chapter was executed."""
    return sorted(getattr(env, "causalrag_run_pages", set()))


def forget(app: Sphinx, env: BuildEnvironment, docname: str) -> None:
    """Drop what is known about a page that is read again or gone."""
    getattr(env, "causalrag_run_pages", set()).discard(docname)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_node(RunTimesNode)
    app.add_directive("run-times", RunTimes)
    app.add_directive("versions", Versions)
    app.add_directive("stored-results", StoredResults)
    app.add_post_transform(ShowRunTimes)
    app.connect("env-purge-doc", forget)
    app.connect("env-updated", read_again)
    return {"version": "1", "parallel_read_safe": False, "parallel_write_safe": True}
