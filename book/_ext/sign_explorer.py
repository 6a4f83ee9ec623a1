"""The sign explorer: the same graph under other mechanisms and other rules for keeping documents.

`explorer_data` computes with `causalrag.simulate` and `causalrag.evaluate` what every position of
the page's controls shows: in a world of yes-or-no facts exact odds ratios while the table of d goes
from a noisy OR to a leaky AND, in a world of numbers correlations with intervals under rules that
keep the top of a list. The page's script looks them up and draws the points.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from page_parts import embed
from sphinx.util.docutils import SphinxDirective

from causalrag import evaluate, graph, simulate

if TYPE_CHECKING:
    import pandas as pd
    from docutils.nodes import Node
    from numpy.typing import NDArray
    from sphinx.application import Sphinx

STEPS = 21
"""Positions of the slider: the first is the noisy OR, the last the leaky AND."""

PAIRS = (("A", "B"), ("q", "B"))
DRAWN_FACTS, DRAWN_NUMBERS, COUNTED = 400, 1200, 200_000
SHARES = (0.05, 0.1, 0.2, 0.5)
SEED, JITTER_SEED, COPY_SEED = 7, 11, 70

FACT_RULES = {
    "none": ("every pair", {}),
    "d1": ("returned documents, d = 1", {"d": 1}),
    "d0": ("documents not returned, d = 0", {"d": 0}),
    "s1": ("documents with a high score of d, s = 1", {"s": 1}),
    "sqd1": ("pairs with a high score of q and d, s(q, d) = 1", {"s": 1}),
}
"""{rule: (how the page calls it, what is held)}; in "sqd1" s has both q and d as parents."""

NUMBER_RULES = {
    "none": "every pair",
    "d": "the top by d",
    "copy": "the top by a noisy copy of d",
    "product": "the top by q · d, as Eq. 1 scores",
    "sum": "the top by q + d",
}


def explorer_data() -> dict[str, Any]:
    """Compute both worlds.

    Returns
    -------
    dict
        ``facts`` and ``numbers``, see `facts_data` and `numbers_data`.
    """
    return {"facts": facts_data(), "numbers": numbers_data()}


# -- yes-or-no facts -----------------------------------------------------------------------------


def table(step: int) -> NDArray[np.float64]:
    """Return P(d = 1 | A, B) at a position of the slider: a mixture of the two ends."""
    either = simulate.noisy_or_table(leak=0.1, strengths=(8 / 9, 8 / 9))
    both = simulate.leaky_and_table(high=0.9, low=0.1)
    share = step / (STEPS - 1)
    mixed: NDArray[np.float64] = (1 - share) * either + share * both
    return mixed


def model(rule: str, step: int) -> simulate.Discrete:
    """Return the model in which a rule is asked about, with the mechanism of a step.

    Query and score copy their parent with the probabilities 0.1 and 0.9; a score of q and d needs
    both (a leaky AND).
    """
    variant = {"s1": "selection_d", "sqd1": "selection_qd"}.get(rule)
    made = simulate.noisy_or(graph.retrieval_graph(variant)).with_table("d", table(step))
    if rule == "sqd1":
        made = made.with_table("s", simulate.leaky_and_table(high=0.9, low=0.1))
    return made


def facts_data() -> dict[str, Any]:
    """Compute the world of yes-or-no facts.

    Returns
    -------
    dict
        ``tables``: P(d = 1) per step for neither, B only, A only, both, as text. ``odds``: per rule
        and pair ("A|B") the exact odds ratio per step, as a number, as text, and its sign in a
        word. ``points``: A, B and q of the drawn pairs (a string of 0 and 1 each, one character per
        pair) with the ``jitter`` that spreads them, in hundredths. ``kept``: per rule and step a
        string of 0 and 1.
    """
    rows = [table(step) for step in range(STEPS)]
    odds: dict[str, dict[str, list[Any]]] = {}
    kept: dict[str, list[str]] = {}
    columns: dict[str, str] = {}
    for rule, (_, held) in FACT_RULES.items():
        odds[rule] = {f"{x}|{y}": [] for x, y in PAIRS}
        kept[rule] = []
        for step in range(STEPS):
            world = model(rule, step)
            for x, y in PAIRS:
                odds[rule][f"{x}|{y}"].append(_told(world.odds_ratio(x, y, held)))
            # The draws are those of one seed, so the same pairs are seen at every step.
            sample = _drawn(world)
            columns |= {name: _bits(sample[name]) for name in ("A", "B", "q")}
            chosen = np.logical_and.reduce(
                [
                    np.ones(len(sample), bool),
                    *(sample[node] == value for node, value in held.items()),
                ]
            )
            kept[rule].append(_bits(chosen))
    spread = np.random.default_rng(JITTER_SEED).uniform(-0.3, 0.3, size=(DRAWN_FACTS, 2))
    return {
        "tables": [[evaluate.half_up(chance, 2) for chance in row.ravel()] for row in rows],
        "odds": odds,
        "rules": {rule: label for rule, (label, _) in FACT_RULES.items()},
        "points": columns,
        "jitter": np.round(100 * spread).astype(int).tolist(),
        "kept": kept,
    }


def _told(ratio: float) -> list[Any]:
    word = "none" if abs(np.log(ratio)) < 1e-9 else "positive" if ratio > 1 else "negative"
    return [round(ratio, 6), evaluate.half_up(ratio, 2), word]


def _drawn(world: simulate.Discrete) -> pd.DataFrame:
    """Draw the pairs to show: one graph's draws differ from another's, so A, B and q are shared."""
    base = simulate.noisy_or(graph.retrieval_graph()).sample(DRAWN_FACTS, seed=SEED)
    rng = np.random.default_rng(SEED + 1)
    uniform = {name: rng.random(DRAWN_FACTS) for name in ("d", "s")}
    rows = base[["A", "B", "q"]].copy()
    for node in ("d", "s"):
        if node in world.tables:
            parents = tuple(rows[parent].to_numpy() for parent in world.parents[node])
            rows[node] = (uniform[node] < world.tables[node][parents]).astype(int)
    return rows


def _bits(values: Any) -> str:
    return "".join("1" if value else "0" for value in values)


# -- numbers -------------------------------------------------------------------------------------


def numbers_data() -> dict[str, Any]:
    """Compute the world of numbers: the linear Gaussian graph, all coefficients and noises one.

    Returns
    -------
    dict
        ``points``: A, B and q of the first drawn pairs, in hundredths. ``kept``: per rule and
        share a string of 0 and 1 over them. ``estimates``: per rule, share and pair the
        correlation, its 95% interval and n among all pairs counted, with text and sign.
    """
    pairs = simulate.LinearGaussian(graph.retrieval_graph()).sample(COUNTED, seed=SEED)
    noise = np.random.default_rng(COPY_SEED).normal(size=COUNTED)
    scores = {
        "d": pairs["d"],
        "copy": pairs["d"] + noise,
        "product": pairs["q"] * pairs["d"],
        "sum": pairs["q"] + pairs["d"],
    }
    kept: dict[str, dict[str, str]] = {}
    estimates: dict[str, dict[str, dict[str, list[Any]]]] = {}
    for rule in NUMBER_RULES:
        kept[rule], estimates[rule] = {}, {}
        for share in SHARES:
            chosen = (
                np.ones(COUNTED, bool)
                if rule == "none"
                else simulate.select_top(scores[rule].to_numpy(), share)
            )
            kept[rule][str(share)] = _bits(chosen[:DRAWN_NUMBERS])
            found = {
                f"{x}|{y}": evaluate.correlation(pairs[x][chosen], pairs[y][chosen])
                for x, y in PAIRS
            }
            estimates[rule][str(share)] = {pair: _shown(one) for pair, one in found.items()}
    drawn = pairs.iloc[:DRAWN_NUMBERS]
    return {
        "rules": NUMBER_RULES,
        "counted": COUNTED,
        "shares": [[str(share), f"{share:.0%}"] for share in SHARES],
        "points": {
            name: np.round(100 * drawn[name].to_numpy()).astype(int).tolist()
            for name in ("A", "B", "q")
        },
        "kept": kept,
        "estimates": estimates,
    }


def _shown(one: evaluate.Estimate) -> list[Any]:
    value, low, high = (evaluate.half_up(number, 2) for number in (one.value, one.low, one.high))
    word = "positive" if one.low > 0 else "negative" if one.high < 0 else "not told from zero"
    text = f"r = {value} ({one.level:.0%} interval {low} to {high}, n = {one.n:,} pairs)"
    numbers = [round(number, 6) for number in (one.value, one.low, one.high)]
    return [*numbers, one.n, text.replace("-", "\u2212"), word]


# -- the page ------------------------------------------------------------------------------------


def explorer_html(data: dict[str, Any]) -> str:
    """Write the controls, and the table that a reader without scripts sees."""
    return f"""\
<div class="sign-controls">
<label>World <select class="sign-world"><option value="facts" selected>yes-or-no facts</option>
<option value="numbers">numbers (linear Gaussian)</option></select></label>
<label>Pair <select class="sign-pair"><option value="A|B" selected>A and B</option>
<option value="q|B">q and B</option></select></label>
<label>Keep <select class="sign-rule"></select></label>
<label class="sign-share-label">Share kept <select class="sign-share"></select></label>
</div>
<div class="sign-mechanism"><p class="sign-ends"><span>either is enough (noisy OR)</span>
<span>both are needed (leaky AND)</span></p>
<input type="range" class="sign-slider" min="0" max="{STEPS - 1}" value="0" step="1"
aria-label="Mechanism of d, from noisy OR to leaky AND">
<p class="sign-table" aria-live="off"></p></div>
<p class="sign-verdict" aria-live="polite"></p>
<div class="sign-view">
{_figure("before")}
{_figure("after")}
{_figure("curve")}
</div>
<p class="sign-buttons"><button type="button" class="sign-link">Copy link to this view</button>
<span class="sign-done" aria-live="polite"></span></p>
<noscript>{static_table(data)}</noscript>"""


def _figure(name: str) -> str:
    drawing = '<svg viewBox="0 0 320 320" role="img" aria-label="Drawn by the script"></svg>'
    return f'<figure class="sign-{name}">{drawing}<figcaption></figcaption></figure>'


def static_table(data: dict[str, Any]) -> str:
    """Write the odds ratios at both ends of the slider as a table."""
    rows = "".join(
        f"<tr><th scope='row'>{escape(label)}</th>"
        + "".join(
            f"<td>{data['facts']['odds'][rule][pair][step][1]}</td>"
            for pair in ("A|B", "q|B")
            for step in (0, STEPS - 1)
        )
        + "</tr>"
        for rule, label in data["facts"]["rules"].items()
    )
    return (
        "<table><caption>Odds ratios of the pair among the pairs kept</caption><thead><tr>"
        "<th scope='col'>kept</th><th scope='col'>A and B, noisy OR</th>"
        "<th scope='col'>A and B, leaky AND</th><th scope='col'>q and B, noisy OR</th>"
        f"<th scope='col'>q and B, leaky AND</th></tr></thead><tbody>{rows}</tbody></table>"
    )


class SignExplorer(SphinxDirective):
    """``{sign-explorer}``: mechanism and selection rule, with the points before and after."""

    has_content = False

    def run(self) -> list[Node]:
        """Place the explorer."""
        data = explorer_data()
        return [embed(self.env, "sign", explorer_html(data), data)]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_directive("sign-explorer", SignExplorer)
    return {"version": "1", "parallel_read_safe": False, "parallel_write_safe": True}
