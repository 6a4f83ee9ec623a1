"""The commands ``rank`` and ``explain``: text files in the order of a method, and why."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from causalrag.cli.files import no_text, texts
from causalrag.cli.options import METHODS, add_rule, command, count, listed
from causalrag.cli.output import as_json, progress, write
from causalrag.terminal import clean, fold, shorten

if TYPE_CHECKING:
    from causalrag.ranking import Ranking

__all__ = ["add", "table"]

DEFAULT_CANDIDATES = 20


def add(commands: Any) -> None:
    """Add both commands."""
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


def _ranking_command(
    commands: Any, name: str, summary: str, description: str
) -> argparse.ArgumentParser:
    parser = command(commands, name, summary, description, listed("methods", METHODS))
    parser.add_argument("query", metavar="QUERY", help="what to look for")
    parser.add_argument(
        "paths",
        metavar="PATH",
        nargs="+",
        type=Path,
        help="a text file, or a folder searched for .txt and .md files (UTF-8, not hidden)",
    )
    add_rule(parser, tuple(METHODS))
    parser.add_argument("--top-k", type=count, metavar="N", help="print the first N files only")
    parser.add_argument(
        "--candidates",
        type=count,
        metavar="K",
        help=f"how many files are re-ranked; default: {DEFAULT_CANDIDATES}, or N if that is more",
    )
    return parser


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
        write(as_json(rows))
    else:
        write(table(ranking, candidates, shutil.get_terminal_size().columns))
    return 0


def _explain(arguments: argparse.Namespace) -> int:
    ranking, _ = _ranking(arguments)
    write(ranking.explain())
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
    documents = [{"id": str(path), "text": text} for path, text in texts(arguments.paths)]
    if not documents:
        raise no_text(arguments.paths)
    wanted = arguments.candidates or max(DEFAULT_CANDIDATES, arguments.top_k or 0)
    retriever = DenseRetriever(reranker.encoder).fit(documents, progress=progress("encoding"))
    hits = retriever.search(arguments.query, k=wanted)
    keywords = TfidfKeywords.fit([entry["text"] for entry in documents])
    reranker = CausalReranker(reranker.encoder, keywords, method=arguments.method, **options)
    candidates = retriever.candidates(hits)
    ranking = reranker.rank(arguments.query, candidates, scores=hits.scores, top_k=arguments.top_k)
    return ranking, f"{len(candidates)} of {len(documents)} files re-ranked"


def table(ranking: Ranking, candidates: str, columns: int) -> str:
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
