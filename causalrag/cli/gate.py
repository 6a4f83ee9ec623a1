"""The command ``gate``: whether to re-rank a corpus, from labelled queries (section 4.6).

Each of them, a probe, is ranked by similarity and re-ranked; the gains decide. Reading is in
`probes` and `lines`, and what is printed in `gate_report`.
"""

from __future__ import annotations

import argparse
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from causalrag.cli.gate_report import as_object, as_text
from causalrag.cli.options import METHODS, add_rule, command, count, listed
from causalrag.cli.output import as_json, progress, say, write
from causalrag.cli.probes import Probes, read_probes

if TYPE_CHECKING:
    import pandas as pd

    from causalrag.rerank import CausalReranker

__all__ = ["add", "measured"]

WINDOW, MEASURE, LEVEL = 20, "nDCG@10", 0.95
# The statistics look at the top 10, as in section 4.6.
TOP = 10
# How far down the first stage is read for a measure without a cutoff.
DEEP = 1000
# How many queries are encoded at once.
BATCH = 64
FORMATS = {
    "corpus": "text files and folders as in rank, whose documents are named in the qrels by their "
    "path, by the path inside the folder given, or by the file's name if no other has it; or one "
    "corpus.jsonl as in BEIR: a line {_id, title, text} each",
    "queries": "a line {_id, text} each, as in BEIR's queries.jsonl; or id, tab, text",
    "qrels": "query, document and grade (BEIR), or query, 0, document and grade (TREC); a grade is "
    "a whole number, above 0 for relevant; a document without a judgment is not relevant",
}


def add(commands: Any) -> None:
    """Add the command."""
    methods = {name: text for name, text in METHODS.items() if name != "similarity"}
    parser = command(
        commands,
        "gate",
        "decide whether to re-rank a corpus, from labelled queries",
        "Decide whether to switch the re-ranker on for a corpus. Each labelled query (a probe) is "
        "ranked by similarity and re-ranked; the re-ranker is enabled if the mean gain is above "
        "zero by an exact test, disabled if it is below, and the answer is abstain, which keeps "
        "the baseline, if the probes do not tell. Draw the probes from what users ask.",
        listed("methods", methods) + "\n\n" + listed("files", FORMATS),
    )
    parser.add_argument("paths", metavar="PATH", nargs="+", type=Path, help="the corpus, see below")
    parser.add_argument(
        "--queries", metavar="FILE", type=Path, required=True, help="the probe queries, see below"
    )
    parser.add_argument(
        "--qrels", metavar="FILE", type=Path, required=True, help="their judgments, see below"
    )
    add_rule(parser, tuple(methods))
    parser.add_argument(
        "--window",
        type=count,
        metavar="K",
        default=WINDOW,
        help=f"how many documents of the first stage are re-ranked; default: {WINDOW}",
    )
    parser.add_argument(
        "--measure",
        default=MEASURE,
        help=f"such as RR@10, P@5, R@20; higher is better; default: {MEASURE}",
    )
    parser.add_argument(
        "--level",
        type=float,
        default=LEVEL,
        help=f"confidence level of the decision, below 1; default: {LEVEL}",
    )
    parser.add_argument("--json", action="store_true", help="print all of it as JSON")
    parser.set_defaults(run=_gate)


def _gate(arguments: argparse.Namespace) -> int:
    from causalrag.evaluate import evaluate
    from causalrag.gate import fewest_probes
    from causalrag.rerank import CausalReranker

    # What can be wrong in an option is tried before anything is read or encoded.
    fewest_probes(arguments.level)
    if len(_cutoff(arguments.measure)) > 9:  # the evaluator breaks on some longer ones
        raise ValueError(
            f"the cutoff of {arguments.measure:.40} is out of range; give a smaller one, as in "
            f"{MEASURE}"
        )
    evaluate({"q": {"d": 1.0}}, {"q": {"d": 1}}, arguments.measure)
    reranker = CausalReranker(
        arguments.encoder,
        method=arguments.method,
        tau=arguments.tau,
        absorption=arguments.absorption,
    )
    probes = read_probes(arguments.paths, arguments.queries, arguments.qrels)
    for warning in probes.warnings:
        say(f"warning: {warning}")
    frame = measured(probes, reranker, arguments.window, arguments.measure)
    settings = {
        name: getattr(arguments, name)
        for name in ("method", "encoder", "tau", "absorption", "window", "measure")
    }
    found = as_object(frame, settings, arguments.level, probes.counts)
    columns = shutil.get_terminal_size().columns
    write(as_json(found) if arguments.json else as_text(found, columns))
    return 0


def measured(probes: Probes, reranker: CausalReranker, window: int, measure: str) -> pd.DataFrame:
    """Rank and re-rank each probe, and measure both orders.

    Parameters
    ----------
    probes
        Corpus, queries and judgments.
    reranker
        Its encoder and settings are used; the keywords are fitted on the corpus.
    window
        How many documents of the first stage are re-ranked; those below keep its order.
    measure
        A name that `evaluate` knows.

    Returns
    -------
    DataFrame
        Indexed by query_id; columns baseline, reranked, gain, and the four of `gate.Statistics`.
    """
    from dataclasses import asdict, replace

    import pandas as pd

    from causalrag import gate
    from causalrag.documents import read_documents
    from causalrag.evaluate import evaluate, run_from_rankings
    from causalrag.keywords import TfidfKeywords
    from causalrag.retrieve import DenseRetriever

    keywords = TfidfKeywords.fit(read_documents(probes.documents).texts)
    reranker = replace(reranker, keywords=keywords)
    retriever = DenseRetriever(reranker.encoder)
    retriever.fit(probes.documents, progress=progress("encoding"))
    depth, show = max(window, _depth(measure)), progress("re-ranking")
    before: dict[str, list[Any]] = {}
    after: dict[str, list[Any]] = {}
    statistics = {}
    names = list(probes.queries)
    for start in range(0, len(names), BATCH):
        batch = names[start : start + BATCH]
        found = retriever.search_all([probes.queries[name] for name in batch], depth)
        for done, (name, hits) in enumerate(zip(batch, found, strict=True), start=start + 1):
            before[name] = [probes.documents[place]["id"] for place in hits.indices.tolist()]
            top = type(hits)(hits.indices[:window], hits.scores[:window])
            ranking = reranker.rank(
                probes.queries[name], retriever.candidates(top), scores=top.scores
            )
            after[name] = [ranked.doc_id for ranked in ranking] + before[name][window:]
            statistics[name] = asdict(gate.statistics(ranking, keywords, TOP))
            show(done, len(names))
    values = [
        evaluate(run_from_rankings(order), probes.qrels, measure)[measure]
        for order in (before, after)
    ]
    frame = pd.DataFrame({"baseline": values[0], "reranked": values[1]})
    frame["gain"] = frame["reranked"] - frame["baseline"]
    return frame.join(pd.DataFrame.from_dict(statistics, orient="index").drop(columns="n"))


def _depth(measure: str) -> int:
    """How many documents a measure looks at."""
    return int(_cutoff(measure) or DEEP)


def _cutoff(measure: str) -> str:
    """Give the digits of a measure's cutoff, if any."""
    cutoff = re.search(r"@(\d+)$", measure.strip())
    return cutoff[1] if cutoff else ""
