"""The sign explorer shows what the simulators compute, for every position of its controls."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest

from causalrag import evaluate, graph, simulate

sys.path.insert(0, str(Path(__file__).parents[1] / "book" / "_ext"))
import page_parts
import sign_explorer

DATA = json.loads(page_parts.as_json(sign_explorer.explorer_data()))
FACTS, NUMBERS = DATA["facts"], DATA["numbers"]
LAST = sign_explorer.STEPS - 1


def by_hand(rule: str, step: int, x: str, y: str) -> float:
    """An odds ratio summed over the whole joint distribution, without the simulator's own sum."""
    share = step / LAST
    either = {(a, b): 1 - 0.9 * (1 / 9) ** (a + b) for a in (0, 1) for b in (0, 1)}
    both = {(a, b): 0.9 if a and b else 0.1 for a in (0, 1) for b in (0, 1)}
    copied = {0: 0.1, 1: 0.9}
    cells = {(i, j): 0.0 for i in (0, 1) for j in (0, 1)}
    for place in range(32):
        a, b, q, d, s = (place >> bit & 1 for bit in range(5))
        p_d = (1 - share) * either[a, b] + share * both[a, b]
        p = 0.25 * (copied[a] if q else 1 - copied[a]) * (p_d if d else 1 - p_d)
        p_s = copied[d] if rule != "sqd1" else (0.9 if q and d else 0.1)
        p *= p_s if s else 1 - p_s
        kept = {"none": True, "d1": d == 1, "d0": d == 0, "s1": s == 1, "sqd1": s == 1}[rule]
        value = {"A": a, "B": b, "q": q}
        cells[value[x], value[y]] += p * kept
    return cells[1, 1] * cells[0, 0] / (cells[1, 0] * cells[0, 1])


@pytest.mark.parametrize("rule", sign_explorer.FACT_RULES)
@pytest.mark.parametrize("pair", sign_explorer.PAIRS)
def test_every_odds_ratio_is_that_of_the_joint_distribution(rule, pair):
    told = FACTS["odds"][rule]["|".join(pair)]
    assert len(told) == sign_explorer.STEPS
    for step, (value, text, word) in enumerate(told):
        truth = by_hand(rule, step, *pair)
        assert value == pytest.approx(truth, rel=1e-5)
        assert text == evaluate.half_up(value, 2)
        near = math.isclose(truth, 1, rel_tol=1e-9)
        assert word == ("none" if near else "positive" if truth > 1 else "negative")


def test_the_ends_of_the_slider_are_the_named_mechanisms():
    assert FACTS["tables"][0] == ["0.10", "0.90", "0.90", "0.99"]
    assert FACTS["tables"][LAST] == ["0.10", "0.10", "0.10", "0.90"]


def test_among_all_pairs_nothing_is_associated():
    assert {word for pair in FACTS["odds"]["none"].values() for *_, word in pair} == {"none"}


def test_the_same_pairs_are_drawn_at_every_position():
    points = FACTS["points"]
    assert {len(bits) for bits in points.values()} == {sign_explorer.DRAWN_FACTS}
    assert len(FACTS["jitter"]) == sign_explorer.DRAWN_FACTS
    assert np.abs(FACTS["jitter"]).max() <= 30
    drawn = simulate.noisy_or(graph.retrieval_graph()).sample(
        sign_explorer.DRAWN_FACTS, seed=sign_explorer.SEED
    )
    for name, bits in points.items():
        assert [int(bit) for bit in bits] == drawn[name].tolist()


@pytest.mark.parametrize("rule", sign_explorer.FACT_RULES)
def test_the_kept_pairs_occur_as_often_as_the_probabilities_say(rule):
    """Each of the four cells of A and B, at both ends, within five standard errors."""
    _, held = sign_explorer.FACT_RULES[rule]
    for step in (0, LAST):
        world = sign_explorer.model(rule, step)
        kept = np.array(list(FACTS["kept"][rule][step])) == "1"
        if not held:
            assert kept.all()
            continue
        ((node, value),) = held.items()
        for a in (0, 1):
            for b in (0, 1):
                cell = np.array(
                    [
                        (one, other) == (str(a), str(b))
                        for one, other in zip(
                            FACTS["points"]["A"], FACTS["points"]["B"], strict=True
                        )
                    ]
                )
                chance = world.probability({node: value}, given={"A": a, "B": b})
                spread = math.sqrt(chance * (1 - chance) / cell.sum())
                assert abs(kept[cell].mean() - chance) <= 5 * spread


@pytest.fixture(scope="module")
def pairs():
    return simulate.LinearGaussian(graph.retrieval_graph()).sample(
        sign_explorer.COUNTED, seed=sign_explorer.SEED
    )


@pytest.mark.parametrize("rule", sign_explorer.NUMBER_RULES)
def test_every_correlation_is_that_of_the_pairs_kept(pairs, rule):
    rng = np.random.default_rng(sign_explorer.COPY_SEED)
    score = {
        "none": np.zeros(len(pairs)),
        "d": pairs["d"],
        "copy": pairs["d"] + rng.normal(size=len(pairs)),
        "product": pairs["q"] * pairs["d"],
        "sum": pairs["q"] + pairs["d"],
    }[rule]
    for share in sign_explorer.SHARES:
        whole = rule == "none"
        least = -np.inf if whole else np.sort(score)[-round(share * len(pairs))]
        chosen = np.asarray(score) >= least
        bits = NUMBERS["kept"][rule][str(share)]
        assert [bit == "1" for bit in bits] == chosen[: sign_explorer.DRAWN_NUMBERS].tolist()
        for x, y in sign_explorer.PAIRS:
            value, low, high, n, text, word = NUMBERS["estimates"][rule][str(share)][f"{x}|{y}"]
            assert n == chosen.sum()
            truth = np.corrcoef(pairs[x][chosen], pairs[y][chosen])[0, 1]
            assert value == pytest.approx(truth, abs=1e-6)
            assert low < value < high
            # Fisher's interval, computed here.
            reach = 1.959964 / math.sqrt(n - 3)
            assert low == pytest.approx(math.tanh(math.atanh(truth) - reach), abs=1e-4)
            assert high == pytest.approx(math.tanh(math.atanh(truth) + reach), abs=1e-4)
            assert word == (
                "positive" if low > 0 else "negative" if high < 0 else "not told from zero"
            )
            assert f"n = {n:,} pairs" in text


def test_the_points_of_numbers_are_the_first_pairs(pairs):
    for name, values in NUMBERS["points"].items():
        first = pairs[name][: sign_explorer.DRAWN_NUMBERS]
        assert np.abs(np.array(values) / 100 - first).max() <= 0.005 + 1e-9


def test_the_table_without_scripts_shows_both_ends_of_each_rule():
    table = sign_explorer.static_table(DATA)
    for rule, pairs in FACTS["odds"].items():
        assert FACTS["rules"][rule] in table
        for told in pairs.values():
            assert f"<td>{told[0][1]}</td><td>{told[LAST][1]}</td>" in table
