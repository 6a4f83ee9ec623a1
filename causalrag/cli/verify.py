"""The command ``verify``: the ledger of claims in short."""

from __future__ import annotations

import argparse
import difflib
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from causalrag.cli.output import as_json, say, write
from causalrag.terminal import clean, fold

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["add"]


def add(commands: Any) -> None:
    """Add the command."""
    verify = commands.add_parser(
        "verify",
        help="summarise the ledger of claims",
        description="Summarise the verdicts on the claims. Exits 1 if a structural or arithmetic "
        "claim fails, or if a claim named here was not run.",
    )
    verify.add_argument("ids", metavar="ID", nargs="*", help="claims to look at; default: all")
    verify.add_argument(
        "--records",
        metavar="DIR",
        type=Path,
        help="folder of records; default: $CAUSALRAG_RECORDS, else book/_build/records",
    )
    verify.add_argument("--json", action="store_true", help="print the summary and rows as JSON")
    verify.set_defaults(run=_verify)


def _verify(arguments: argparse.Namespace) -> int:
    from causalrag import claims

    if arguments.records is not None and not arguments.records.is_dir():
        raise FileNotFoundError(f"no such folder of records: {arguments.records}")
    frame = claims.ledger(arguments.records)
    known = list(dict.fromkeys(frame["id"]))
    for identifier in arguments.ids:
        if identifier not in known:
            close = difflib.get_close_matches(identifier, known, n=3, cutoff=0.4)
            hint = f"close matches: {', '.join(close)}" if close else "none is close to it"
            raise ValueError(f"unknown claim {identifier!r}; {hint}")
    if (frame["verdict"] == "not run").all():
        say("no records here: build the book (make book), or name their folder with --records")
    if arguments.ids:
        frame = frame[frame["id"].isin(arguments.ids)]
    failing = claims.failed(frame)
    ran = set(frame.loc[frame["verdict"] != "not run", "id"])
    missing = [name for name in dict.fromkeys(arguments.ids) if name not in ran]
    if arguments.json:
        write(_verify_json(frame, failing, missing))
    else:
        write(_verify_text(frame, failing, missing, bool(arguments.ids)))
    return 1 if len(failing) or missing else 0


def _verify_json(frame: pd.DataFrame, failing: pd.DataFrame, missing: list[str]) -> str:
    rows = frame.astype(object).where(frame.notna(), None)
    return as_json(
        {
            "verdicts": frame["verdict"].value_counts().to_dict(),
            "failed": list(dict.fromkeys(failing["id"])),
            "not_run": missing,
            "rows": rows.to_dict(orient="records"),
        }
    )


def _verify_text(
    frame: pd.DataFrame, failing: pd.DataFrame, missing: list[str], named: bool
) -> str:
    columns = shutil.get_terminal_size().columns
    counts = frame["verdict"].value_counts()
    width = max(map(len, counts.index), default=0)
    lines = [f"{verdict:<{width}}  {number:>4}" for verdict, number in counts.items()]
    shown = frame if named else failing
    if len(shown):
        lines += ["", "claims named:" if named else "structural or arithmetic claims that fail:"]
    for row in shown.to_dict(orient="records"):
        setting = ", ".join(filter(None, (row["kind"], row["setting"], row["encoder"])))
        lines += fold(f"{row['id']} ({setting}): {row['verdict']}", columns)
        details = [row["claim"]]
        if row["measured"] is not None:
            details.append(f"paper {row['paper']}; measured {row['measured']}")
        if row["cell"]:
            details.append(f"see {row['cell']}")
        lines += ["    " + line for text in details for line in fold(clean(text), columns - 4)]
    lines += [f"{name}: not run (make verify CLAIM={name})" for name in missing]
    return "\n".join(lines)
