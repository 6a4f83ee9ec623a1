"""The command ``causalrag``: rank and explain text files, check the ledger of claims.

Exit codes: 0 ok, 1 a claim failed or was not run, 2 usage or unusable input, 130 interrupted.
Results go to standard output; warnings, errors and (on a terminal) progress to standard error.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from causalrag import __version__
from causalrag.terminal import clean, fold, shorten

if TYPE_CHECKING:
    import pandas as pd

    from causalrag.ranking import Ranking

__all__ = ["main"]

SUFFIXES = (".txt", ".md")
METHODS = {
    "similarity": "the first stage: cosine of query and document",
    "causal": "cosine of the query and the document's residual words (B), what is left once the "
    "words it shares with the query (A) are taken out",
    "causal_fallback": "causal; documents without residual words follow, by similarity",
    "hybrid": "half similarity, half causal, each scaled to [0, 1] over the candidates",
}
DEFAULT_CANDIDATES = 20


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments; None takes the process's own.

    Returns
    -------
    int
        The exit code, see the module's first lines.
    """
    for stream in (sys.stdout, sys.stderr):
        # A file name or a text that the terminal cannot show must not end the command.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        arguments = _parser().parse_args(argv)
        run: Callable[[argparse.Namespace], int] = arguments.run
        return run(arguments)
    except KeyboardInterrupt:
        _say("interrupted")
        return 130
    except (ValueError, OSError, ImportError, RuntimeError) as error:
        _say(f"error: {error}")
        return 2


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        # One line, without the usage block that argparse puts before it.
        _say(f"error: {message} (try '{self.prog} --help')")
        raise SystemExit(2)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="causalrag", description="Causal re-ranking of text files.")
    parser.add_argument("--version", action="version", version=f"causalrag {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    rank = _ranking_command(
        commands,
        "rank",
        "rank text files for a query",
        "Rank text files for a query: similarity over all files picks the candidates, and these "
        "are re-ranked.",
    )
    rank.add_argument(
        "--json", action="store_true", help="print a list of {rank, id, path, score, base, causal}"
    )
    rank.set_defaults(run=_rank)
    explain = _ranking_command(
        commands,
        "explain",
        "rank text files and say why",
        "As rank, but print for each file which words the query absorbed, at what cosine, and "
        "which residual words carry the causal score.",
    )
    explain.set_defaults(run=_explain)

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
    return parser


def _methods_help() -> str:
    width = max(map(len, METHODS))
    columns = max(40, shutil.get_terminal_size().columns - 2)
    lines = ["methods:"]
    for name, text in METHODS.items():
        folded = fold(text, columns - width - 4)
        lines.append(f"  {name:<{width}}  {folded[0]}")
        lines += [" " * (width + 4) + line for line in folded[1:]]
    return "\n".join(lines)


def _ranking_command(
    commands: Any, name: str, summary: str, description: str
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description="\n".join(fold(description, max(40, shutil.get_terminal_size().columns - 2))),
        epilog=_methods_help(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("query", metavar="QUERY", help="what to look for")
    parser.add_argument(
        "paths",
        metavar="PATH",
        nargs="+",
        type=Path,
        help="a text file, or a folder searched for .txt and .md files (UTF-8, not hidden)",
    )
    parser.add_argument(
        "--method", choices=tuple(METHODS), default="hybrid", help="see below; default: hybrid"
    )
    parser.add_argument(
        "--encoder", default="use", help="name of an encoder or a model folder; default: use"
    )
    parser.add_argument(
        "--tau",
        type=float,
        default=0.6,
        help="cosine from which a word is absorbed by a query word; default: 0.6",
    )
    parser.add_argument(
        "--absorption",
        choices=("semantic", "exact"),
        default="semantic",
        help="absorb words near a query word, or equal words only; default: semantic",
    )
    parser.add_argument("--top-k", type=_count, metavar="N", help="print the first N files only")
    parser.add_argument(
        "--candidates",
        type=_count,
        metavar="K",
        help=f"how many files are re-ranked; default: {DEFAULT_CANDIDATES}, or N if that is more",
    )
    return parser


def _count(text: str) -> int:
    if not text.strip().isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def _rank(arguments: argparse.Namespace) -> int:
    ranking, candidates = _ranking(arguments)
    if arguments.json:
        rows = [
            {
                "rank": ranked.rank,
                "id": ranked.doc_id,
                "path": ranked.doc_id,
                "score": ranked.score,
                "base": ranked.base,
                "causal": ranked.causal,
            }
            for ranked in ranking
        ]
        _write(_json(rows))
    else:
        _write(_table(ranking, candidates, shutil.get_terminal_size().columns))
    return 0


def _explain(arguments: argparse.Namespace) -> int:
    ranking, _ = _ranking(arguments)
    _write(ranking.explain())
    return 0


def _ranking(arguments: argparse.Namespace) -> tuple[Ranking, str]:
    from causalrag.documents import check_query
    from causalrag.keywords import TfidfKeywords
    from causalrag.rerank import CausalReranker
    from causalrag.retrieve import DenseRetriever

    check_query(arguments.query)
    # Made before the files are encoded, so that a wrong option fails at once; the extractor is
    # fitted on all files, of which the candidates are few.
    options = {"tau": arguments.tau, "absorption": arguments.absorption}
    reranker = CausalReranker(arguments.encoder, method=arguments.method, **options)
    documents = [{"id": str(path), "text": text} for path, text in _texts(arguments.paths)]
    if not documents:
        raise ValueError("no readable .txt or .md file in " + ", ".join(map(str, arguments.paths)))
    wanted = arguments.candidates or max(DEFAULT_CANDIDATES, arguments.top_k or 0)
    retriever = DenseRetriever(reranker.encoder).fit(documents, progress=_progress)
    hits = retriever.search(arguments.query, k=wanted)
    keywords = TfidfKeywords.fit([entry["text"] for entry in documents])
    reranker = CausalReranker(reranker.encoder, keywords, method=arguments.method, **options)
    candidates = retriever.candidates(hits)
    ranking = reranker.rank(arguments.query, candidates, scores=hits.scores, top_k=arguments.top_k)
    return ranking, f"{len(candidates)} of {len(documents)} files re-ranked"


def _texts(paths: Sequence[Path]) -> Iterator[tuple[Path, str]]:
    """Yield each readable file once with its text; name on standard error what is skipped."""
    seen: set[Path] = set()
    for path in _files(paths):
        try:
            identity = path.resolve()
            if identity in seen:
                continue
            seen.add(identity)
            if not path.is_file():
                raise ValueError("not a regular file")
            content = path.read_bytes()
            if b"\0" in content:
                raise ValueError("not a text file")
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError:
            _skip(path, "not UTF-8 text; convert it to UTF-8 first")
        except (OSError, ValueError, RuntimeError) as error:
            _skip(path, getattr(error, "strerror", None) or str(error))
        else:
            yield path, text


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if not path.exists():
            raise FileNotFoundError(f"no such file or folder: {path}")
        if path.is_dir():
            yield from sorted(_walk(path))
        else:
            yield path


def _walk(folder: Path) -> Iterator[Path]:
    def unreadable(error: OSError) -> None:
        _skip(error.filename, error.strerror or "unreadable")

    for parent, folders, names in os.walk(folder, onerror=unreadable):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if not name.startswith(".") and name.lower().endswith(SUFFIXES):
                yield Path(parent, name)


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
        _say("no records here: build the book (make book), or name their folder with --records")
    if arguments.ids:
        frame = frame[frame["id"].isin(arguments.ids)]
    failing = claims.failed(frame)
    ran = set(frame.loc[frame["verdict"] != "not run", "id"])
    missing = [name for name in dict.fromkeys(arguments.ids) if name not in ran]
    if arguments.json:
        _write(_verify_json(frame, failing, missing))
    else:
        _write(_verify_text(frame, failing, missing, bool(arguments.ids)))
    return 1 if len(failing) or missing else 0


def _verify_json(frame: pd.DataFrame, failing: pd.DataFrame, missing: list[str]) -> str:
    rows = frame.astype(object).where(frame.notna(), None)
    return _json(
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


def _table(ranking: Ranking, candidates: str, columns: int) -> str:
    """Lay the ranking out in lines of at most `columns` cells, wide characters counted as two."""
    header = ["rank", "score", "base", "causal"]
    rows = [
        [
            str(ranked.rank),
            *(f"{value:.4f}" for value in (ranked.score, ranked.base, ranked.causal)),
        ]
        for ranked in ranking
    ]
    # A narrow terminal loses the first stage's and the causal score before it loses the path.
    while len(header) > 1 and _figures_width(header, rows) + 16 > columns:
        header.pop()
        rows = [row[: len(header)] for row in rows]
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    left = max(4, columns - _figures_width(header, rows))
    paths = ["path", *(shorten(clean(str(ranked.doc_id)), left) for ranked in ranking)]
    lines = [
        "  ".join([*(cell.rjust(width) for cell, width in zip(row, widths, strict=True)), path])
        for row, path in zip([header, *rows], paths, strict=True)
    ]
    notes = [candidates, *ranking.flags]
    notes += [f"{ranked.doc_id}: {flag}" for ranked in ranking for flag in ranked.flags]
    for note in notes:
        lines += fold(f"note: {clean(note)}", columns)
    return "\n".join(lines)


def _figures_width(header: list[str], rows: list[list[str]]) -> int:
    return sum(max(map(len, column)) + 2 for column in zip(header, *rows, strict=True))


def _json(value: Any) -> str:
    encoding = (getattr(sys.stdout, "encoding", None) or "ascii").lower().replace("-", "")
    return json.dumps(value, indent=2, allow_nan=False, ensure_ascii=encoding != "utf8")


def _write(text: str) -> None:
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has seen enough. The interpreter flushes again at exit: give it somewhere to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say(message: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")
    sys.stderr.write(f"causalrag: {' '.join(clean(message).split())}\n")


def _skip(path: object, reason: str) -> None:
    _say(f"warning: skipped {path}: {reason}")


def _progress(done: int, total: int) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[Kencoding {done}/{total}")
        if done == total:
            sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
