"""What the command ``gate`` prints: the decision, what it rests on, and what to do next."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from causalrag.terminal import clean, fold

if TYPE_CHECKING:
    import pandas as pd

    from causalrag.gate import Decision

__all__ = ["as_object", "as_text"]

DRAWS = 2000
STATISTICS = {
    "overlap": "keyword overlap",
    "shared_weight": "shared weight",
    "top_gap": "gap at the top",
    "excess_repetition": "excess repetition",
    "largest_excess_repetition": "largest excess repetition",
}
NOTE = (
    "They need no labels and replace none: repeated words can show that documents were stuffed, "
    "but whether a re-ranker gains depends on which documents answer, and only labels say so."
)
DRAW_AT_RANDOM = (
    "draw them at random from what users ask, label them in one go and run this again with all of "
    "them"
)


def as_object(
    frame: pd.DataFrame, settings: Mapping[str, Any], level: float, counts: Mapping[str, int]
) -> dict[str, Any]:
    """Decide, and gather all that is to be said, as JSON can hold it.

    Parameters
    ----------
    frame
        From `cli.gate.measured`.
    settings
        The options that it was measured with.
    level
        Confidence level.
    counts
        `Probes.counts`.
    """
    from causalrag import gate
    from causalrag.gate.decision import read_gains

    gains = read_gains(frame["gain"])
    decision = gate.decide(gains, level)
    needed = gate.probes_needed(gains, level)
    draws = gate.outcomes(gains, len(gains), DRAWS, level=level)
    return {
        "decision": decision.decision,
        "enabled": decision.enabled,
        "reason": decision.reason,
        "next": _next(decision, needed, gate.fewest_probes(level)),
        "gain": {
            "value": decision.value,
            "low": _finite(decision.low),
            "high": _finite(decision.high),
            "p": decision.p,
            "level": level,
        },
        "n": decision.n,
        "better": int((gains > 0).sum()),
        "worse": int((gains < 0).sum()),
        "equal": int((gains == 0).sum()),
        "baseline": float(frame["baseline"].mean()),
        "reranked": float(frame["reranked"].mean()),
        "settings": dict(settings),
        "reliability": {
            "n_probes": draws.n_probes,
            "n_draws": draws.n_draws,
            # One probe repeats itself in every draw: no share is better than a 100% that means
            # nothing.
            "value": gate.reliability(gains, len(gains), DRAWS) if len(gains) > 1 else None,
            "decisions": draws.exact._asdict(),
        },
        "probes_needed": needed,
        "statistics": {
            "medians": {name: float(frame[name].median()) for name in STATISTICS},
            "note": NOTE,
        },
        "input": dict(counts),
        "probes": [
            {"query_id": str(name), **{key: float(value) for key, value in row.items()}}
            for name, row in zip(frame.index, frame.to_dict(orient="records"), strict=True)
        ],
    }


def _next(decision: Decision, needed: int | None, fewest: int) -> str:
    """Say what to do with the decision; for an abstention, how many more probes it takes."""
    if decision.decision == "enable":
        return (
            "Re-rank with these settings. The decision is for queries like the probes: run this "
            "again when the corpus or the queries change."
        )
    if decision.decision == "disable":
        return (
            "Keep the first stage's order: on such queries the re-ranker makes it worse. Run this "
            "again when the corpus or the queries change."
        )
    keep = "Keep the first stage's order for now."
    typical = f"if the gains so far are typical, it takes about {needed} probes in all to decide"
    if decision.n < fewest:
        short = _probes(fewest - decision.n).replace(" ", " more ")
        plan = f"; {typical} (in 8 cases of 10)" if needed and needed > fewest else ""
        return f"{keep} Label at least {short}{plan}; {DRAW_AT_RANDOM}."
    if needed is None:
        return (
            f"{keep} The mean gain of these probes is zero, so they do not say how many more it "
            "would take; there may be nothing to gain."
        )
    more = f"{max(1, needed - decision.n)} more"
    return f"{keep} I{typical[1:]} (in 8 cases of 10), {more}: {DRAW_AT_RANDOM}."


def _probes(count: int) -> str:
    return "1 probe" if count == 1 else f"{count} probes"


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def as_text(found: Mapping[str, Any], columns: int) -> str:
    """Lay out what `as_object` gathered, in lines of at most `columns` cells."""
    kept = "" if found["decision"] == "enable" else " (the baseline stays)"
    paragraphs = [
        f"decision: {found['decision']}{kept}",
        found["reason"],
        "",
        *_figures(found),
        "",
        _reliability(found),
        "",
        f"Beside it, medians over {_probes(found['n'])}: "
        + ", ".join(
            f"{STATISTICS[name]} {value:.3f}"
            for name, value in found["statistics"]["medians"].items()
        )
        + f". {found['statistics']['note']}",
        "",
        f"next: {found['next']}",
    ]
    return "\n".join(line for text in paragraphs for line in fold(clean(text), max(20, columns)))


def _figures(found: Mapping[str, Any]) -> list[str]:
    gain, settings = found["gain"], found["settings"]
    measure, method = settings["measure"], settings["method"]
    width = max(len(method), len("similarity"))
    interval = (
        f"[{gain['low']:+.4f}, {gain['high']:+.4f}]"
        if gain["low"] is not None and gain["high"] is not None
        else "(no interval: too few probes)"
    )
    return [
        f"{'similarity':<{width}}  {found['baseline']:.4f}  mean {measure} of "
        f"{_probes(found['n'])}, {found['input']['documents']} documents",
        f"{method:<{width}}  {found['reranked']:.4f}  top {settings['window']} re-ranked, encoder "
        f"{settings['encoder']}, tau {settings['tau']}, {settings['absorption']}",
        f"{'gain':<{width}} {gain['value']:+.4f}  {interval} at level {gain['level']:g}; "
        f"{found['better']} better, {found['worse']} worse, {found['equal']} equal",
    ]


def _reliability(found: Mapping[str, Any]) -> str:
    share, draws = found["reliability"]["value"], found["reliability"]["n_draws"]
    if share is None:
        return "reliability: not given, for one probe repeats itself in every draw"
    decisions = ", ".join(
        f"{name} {100 * number / draws:.1f}%"
        for name, number in found["reliability"]["decisions"].items()
    )
    return (
        f"reliability: {100 * share:.1f}% of {draws} probes of this size, drawn from these gains, "
        "agree with all of them on whether the mean gain is above zero (the paper's rule); by the "
        f"test above: {decisions}. Both take these probes for all there is."
    )
