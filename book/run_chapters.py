"""Run the chapters that settle given claims and store what they record.

``python book/run_chapters.py [CLAIM ...]`` executes afresh, past any cache: the chapters that
settle the claims, or all chapters. Records of chapters that did not run stay as they were. Judging
is the part of ``causalrag verify``; `make verify` calls both.
"""

from __future__ import annotations

import argparse
import difflib
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "book" / "_ext"))

import jupytext  # noqa: E402
import nbformat  # noqa: E402
from book_chapters import chapters, plain_ipython, settles  # noqa: E402
from nbclient import NotebookClient  # noqa: E402
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError  # noqa: E402

from causalrag import claims  # noqa: E402

CELL_TIMEOUT = 180  # seconds, as in _config.yml


def chapters_for(wanted: list[str]) -> list[Path]:
    """Return the chapters that settle the wanted claims; all chapters when none is named.

    Raises
    ------
    ValueError
        If an id is no claim, or no chapter settles it.
    """
    if not wanted:
        return chapters(ROOT)
    known = claims.load_claims()
    owners = {path: settles(path) for path in chapters(ROOT)}
    settled = set().union(*owners.values())
    for claim in wanted:
        if claim not in known:
            near = difflib.get_close_matches(claim, known, n=3, cutoff=0.5)
            hint = f"; near: {', '.join(near)}" if near else ""
            raise ValueError(
                f"{claim!r} is no claim{hint}. causalrag/data/claims.yaml lists them all"
            )
        if claim not in settled:
            raise ValueError(f"no chapter settles {claim} yet: {known[claim].claim}")
    return [path for path, ids in owners.items() if ids & set(wanted)]


def execute(chapter: Path, target: Path) -> None:
    """Run a chapter in its own folder and write it, with outputs, to `target`; also when it fails.

    Raises
    ------
    CellExecutionError, CellTimeoutError, DeadKernelError
        If a cell raises, takes longer than `CELL_TIMEOUT`, or kills the kernel.
    """
    notebook = jupytext.read(chapter)
    client = NotebookClient(
        notebook, timeout=CELL_TIMEOUT, resources={"metadata": {"path": str(chapter.parent)}}
    )
    try:
        client.execute()
    finally:
        target.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, target)


def main(arguments: list[str] | None = None) -> int:
    """Run what the command line names; 0 when every chapter ran to its end."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("claims", nargs="*", metavar="CLAIM", help="claim ids; all when none")
    parser.add_argument("--build", type=Path, default=ROOT / "book" / "_build")
    options = parser.parse_args(arguments)
    try:
        selected = chapters_for(options.claims)
    except ValueError as error:
        parser.exit(2, f"{error}\n")
    plain_ipython(options.build)
    records = []
    for chapter in selected:
        started = time.perf_counter()
        target = options.build / "verify" / f"{chapter.stem}.ipynb"
        try:
            execute(chapter, target)
            records += claims.collect(target, chapter.stem)
        except (CellExecutionError, CellTimeoutError, DeadKernelError, ValueError) as error:
            parser.exit(1, f"{error}\n{chapter.stem} failed. As far as it got: {target}\n")
        sys.stdout.write(f"ran {chapter.stem} in {time.perf_counter() - started:.1f} s\n")
    claims.write_records(records, options.build / "records", {path.stem for path in selected})
    return 0


if __name__ == "__main__":
    sys.exit(main())
