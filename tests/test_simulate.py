"""Models on the graph: exact values by hand, the graph's promises kept, samples, selection."""

from __future__ import annotations

import subprocess
import sys
from itertools import product

import networkx as nx
import numpy as np
import pytest

from causalrag import simulate as sim
from causalrag.evaluate import correlation
from causalrag.graph import VARIANTS, d_separated, queries, retrieval_graph

GRAPH = retrieval_graph()
EVERY_VARIANT = (None, *VARIANTS)


def fork(*effects):
    return nx.DiGraph([("c", effect) for effect in effects])


# --- linear Gaussian ---------------------------------------------------------------------------


def test_unit_parameters_give_minus_one_over_root_ten_between_q_and_B_given_d():
    model = sim.LinearGaussian(GRAPH)
    assert model.correlation("q", "B", "d") == pytest.approx(-1 / np.sqrt(10), abs=1e-14)
    assert model.correlation("q", "B") == 0.0
    assert model.correlation("q", "B", ("d", "A")) == pytest.approx(0.0, abs=1e-14)


def test_covariance_of_unit_parameters_by_hand():
    # q = A + e, d = A + B + e, y = q + B + e, all variances 1; order A, B, q, d, y
    expected = [
        [1, 0, 1, 1, 1],
        [0, 1, 0, 1, 1],
        [1, 0, 2, 1, 2],
        [1, 1, 1, 3, 2],
        [1, 1, 2, 2, 4],
    ]
    model = sim.LinearGaussian(GRAPH)
    assert model.nodes == ("A", "B", "q", "d", "y")
    assert model.covariance == pytest.approx(np.array(expected, dtype=float), abs=1e-14)


def test_coefficients_and_noises_by_name_by_hand():
    # e = 3 c + noise of deviation 4, c of deviation 2: var(e) = 36 + 16, cov = 12
    model = sim.LinearGaussian(fork("e"), {("c", "e"): 3}, {"c": 2, "e": 4})
    assert model.covariance == pytest.approx(np.array([[4.0, 12.0], [12.0, 52.0]]))
    assert model.correlation("c", "e") == pytest.approx(12 / np.sqrt(4 * 52))


def test_what_is_not_named_is_one():
    model = sim.LinearGaussian(GRAPH, {("A", "q"): 0.5}, {"y": 2.0})
    assert model.coefficients[("B", "d")] == 1.0
    assert model.coefficients[("A", "q")] == 0.5
    assert dict(model.noise) == {"A": 1.0, "B": 1.0, "q": 1.0, "d": 1.0, "y": 2.0}


def test_sign_of_the_opened_path_follows_the_product_of_its_coefficients():
    for a, b, c in product((-1.2, 0.7), repeat=3):
        model = sim.LinearGaussian(GRAPH, {("A", "q"): a, ("A", "d"): b, ("B", "d"): c})
        assert np.sign(model.correlation("q", "B", "d")) == -np.sign(a * b * c)


def test_two_paths_that_cancel_break_faithfulness():
    # A→q→y and A→d→y with opposite products: A and y are joined and uncorrelated.
    graph = nx.DiGraph([("A", "q"), ("A", "d"), ("q", "y"), ("d", "y")])
    model = sim.LinearGaussian(graph, {("d", "y"): -1.0})
    assert not d_separated(graph, "A", "y")
    assert model.correlation("A", "y") == pytest.approx(0.0, abs=1e-15)


def test_a_topic_makes_q_and_B_dependent_before_any_selection():
    model = sim.LinearGaussian(retrieval_graph("topic"))
    # cov = 1, var(q) = 3, var(B) = 2
    assert model.correlation("q", "B") == pytest.approx(1 / np.sqrt(6))


def test_partial_correlation_agrees_with_the_inverse_covariance():
    model = sim.random_linear_gaussian(retrieval_graph("selection_qd"), seed=5)
    precision = np.linalg.inv(model.covariance)
    for x, y in (("A", "B"), ("q", "y"), ("d", "s")):
        i, j = model.nodes.index(x), model.nodes.index(y)
        expected = -precision[i, j] / np.sqrt(precision[i, i] * precision[j, j])
        rest = [node for node in model.nodes if node not in (x, y)]
        assert model.correlation(x, y, rest) == pytest.approx(expected, abs=1e-10)


def test_a_node_without_noise_can_be_conditioned_on():
    graph = nx.DiGraph([("a", "c"), ("b", "c"), ("c", "copy")])
    model = sim.LinearGaussian(graph, noise={"copy": 0.0, "c": 0.5})
    assert model.correlation("a", "b", ("c", "copy")) == pytest.approx(
        model.correlation("a", "b", "c"), abs=1e-12
    )


def test_a_correlation_with_what_no_longer_varies_is_refused():
    model = sim.LinearGaussian(fork("e", "f"), noise={"e": 0.0})
    with pytest.raises(ValueError, match="'e' does not vary given"):
        model.correlation("e", "f", "c")
    with pytest.raises(ValueError, match="does not vary"):
        sim.LinearGaussian(fork("e"), noise=0.0).correlation("c", "e")


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("variant", EVERY_VARIANT)
def test_random_gaussian_models_keep_every_implied_independency_and_break_the_rest(variant, seed):
    graph = retrieval_graph(variant)
    model = sim.random_linear_gaussian(graph, seed)
    for x, y, given in queries(graph):
        size = abs(model.correlation(x, y, given))
        if d_separated(graph, x, y, given):
            assert size < 1e-10, (x, y, given)
        else:
            assert size > 1e-4, (x, y, given)


def test_random_gaussian_parameters_stay_in_their_ranges_with_both_signs():
    models = [sim.random_linear_gaussian(GRAPH, seed) for seed in range(20)]
    sizes = np.array([list(model.coefficients.values()) for model in models])
    noise = np.array([list(model.noise.values()) for model in models])
    assert ((np.abs(sizes) >= 0.5) & (np.abs(sizes) <= 1.5)).all()
    assert (sizes > 0).any()
    assert (sizes < 0).any()
    assert ((noise >= 0.5) & (noise <= 1.5)).all()


def test_random_parameters_do_not_depend_on_the_order_edges_were_added_in():
    other = nx.DiGraph()
    other.add_nodes_from(GRAPH.nodes)
    other.add_edges_from(reversed(list(GRAPH.edges)))
    for build in (sim.random_linear_gaussian, sim.random_tables):
        assert build(other, 4).sample(50, 1).equals(build(GRAPH, 4).sample(50, 1))


@pytest.mark.parametrize(
    ("coefficients", "noise", "error", "words"),
    [
        ({("q", "A"): 1.0}, 1.0, ValueError, r"unknown edge \('q', 'A'\)"),
        (1.0, {"Z": 1.0}, ValueError, "unknown node 'Z'"),
        (float("nan"), 1.0, ValueError, "must be finite"),
        (1.0, float("inf"), ValueError, "must be finite"),
        (1.0, -0.5, ValueError, "noise of 'A' must be at least 0"),
        ("1", 1.0, TypeError, "must be a number"),
        (1.0, None, TypeError, "must be a number"),
    ],
)
def test_gaussian_parameters_that_make_no_sense_are_refused(coefficients, noise, error, words):
    with pytest.raises(error, match=words):
        sim.LinearGaussian(GRAPH, coefficients, noise)


def test_a_model_refuses_questions_the_graph_cannot_answer():
    gaussian, discrete = sim.LinearGaussian(GRAPH), sim.noisy_or(GRAPH)
    for ask in (gaussian.correlation, discrete.mutual_information, discrete.independent):
        for x, y, given in (("Z", "B", ()), ("q", "q", ()), ("q", "B", "B"), ("q", "B", "Z")):
            with pytest.raises(ValueError, match=r"Z|q|B"):
                ask(x, y, given)
        with pytest.raises(TypeError):
            ask("q", "B", None)


@pytest.mark.parametrize(
    "build",
    [
        sim.LinearGaussian,
        sim.noisy_or,
        sim.local_markov,
        lambda graph: sim.random_tables(graph, 0),
        lambda graph: sim.random_linear_gaussian(graph, 0),
        lambda graph: sim.Discrete(graph, {}),
    ],
)
def test_a_model_needs_an_acyclic_directed_graph(build):
    with pytest.raises(ValueError, match="cycle"):
        build(nx.DiGraph([("a", "b"), ("b", "a")]))
    with pytest.raises(TypeError, match="directed"):
        build(nx.Graph([("a", "b")]))


def test_a_model_does_not_follow_later_changes_to_the_graph():
    graph = retrieval_graph()
    model = sim.LinearGaussian(graph)
    graph.remove_edge("A", "d")
    assert model.correlation("A", "d") > 0.5


# --- discrete: tables --------------------------------------------------------------------------


def test_noisy_or_table_by_hand():
    table = sim.noisy_or_table(0.1, [8 / 9, 8 / 9])
    assert table == pytest.approx(np.array([[0.1, 0.9], [0.9, 1 - 0.9 / 81]]))
    assert sim.noisy_or_table(0.0, [0.5, 0.2])[1, 0] == pytest.approx(0.5)
    assert sim.noisy_or_table(0.0, [0.5, 0.2])[0, 1] == pytest.approx(0.2)
    assert sim.noisy_or_table(0.3, []).shape == ()


def test_noisy_and_table_by_hand():
    # 0.1 + 0.9 * 0.5 * 0.8
    table = sim.noisy_and_table(0.1, [0.5, 0.2])
    assert table == pytest.approx(np.array([[0.1, 0.1], [0.1, 0.46]]))


def test_leaky_and_table_by_hand():
    assert sim.leaky_and_table(0.9, 0.1).tolist() == [[0.1, 0.1], [0.1, 0.9]]
    assert sim.leaky_and_table(0.9, 0.1, 1).tolist() == [0.1, 0.9]
    assert sim.leaky_and_table(0.9, 0.1, 3).sum() == pytest.approx(0.9 + 7 * 0.1)


@pytest.mark.parametrize(
    "build",
    [
        lambda: sim.noisy_or_table(1.1, [0.5]),
        lambda: sim.noisy_or_table(0.1, [-0.5]),
        lambda: sim.noisy_and_table(0.1, [float("nan")]),
        lambda: sim.noisy_and_table(0.1, []),
        lambda: sim.leaky_and_table(2, 0.1),
        lambda: sim.leaky_and_table(0.9, 0.1, 0),
        lambda: sim.noisy_or(GRAPH, prior=1.5),
    ],
)
def test_mechanisms_refuse_what_is_no_probability_or_no_parent(build):
    with pytest.raises(ValueError, match=r"probability in \[0, 1\]|at least one parent"):
        build()


def test_noisy_or_model_has_the_stated_tables():
    model = sim.noisy_or(GRAPH)
    assert model.tables["d"].ravel() == pytest.approx([0.1, 0.9, 0.9, 0.98889], abs=1e-5)
    assert model.tables["q"] == pytest.approx(np.array([0.1, 0.9]))
    assert float(model.tables["A"]) == 0.5


def test_tables_are_indexed_by_parents_in_node_order():
    model = sim.random_tables(GRAPH, 0)
    assert model.parents["d"] == ("A", "B")
    assert model.parents["y"] == ("B", "q")
    table = np.array([[0.0, 0.2], [0.7, 1.0]])  # first axis B, second axis q
    changed = model.with_table("y", table)
    for b, q in product((0, 1), repeat=2):
        assert changed.probability({"y": 1}, {"B": b, "q": q}) == pytest.approx(table[b, q])


def test_with_table_changes_a_copy():
    model = sim.noisy_or(GRAPH)
    changed = model.with_table("A", 0.25)
    assert changed.probability({"A": 1}) == pytest.approx(0.25)
    assert model.probability({"A": 1}) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("node", "table", "words"),
    [
        ("d", [0.1, 0.9], r"table of 'd' has shape \(2,\), expected \(2, 2\).*\(A, B\)"),
        ("A", [0.5], r"table of 'A' has shape \(1,\), expected \(\).*none"),
        ("q", [0.1, 1.2], "'q' holds a value outside"),
        ("q", [0.1, float("nan")], "'q' holds a value outside"),
        ("Z", 0.5, "unknown node 'Z'"),
    ],
)
def test_tables_that_do_not_fit_are_refused(node, table, words):
    with pytest.raises(ValueError, match=words):
        sim.noisy_or(GRAPH).with_table(node, table)


def test_a_missing_table_is_named():
    tables = dict(sim.noisy_or(GRAPH).tables)
    del tables["y"]
    with pytest.raises(ValueError, match="no table for node 'y'"):
        sim.Discrete(GRAPH, tables)


def test_too_many_nodes_are_refused():
    graph = nx.DiGraph()
    graph.add_nodes_from(f"n{i}" for i in range(21))
    with pytest.raises(ValueError, match="at most 20"):
        sim.random_tables(graph, 0)


# --- discrete: exact values --------------------------------------------------------------------


def test_joint_by_hand():
    model = sim.random_tables(GRAPH, 1)
    assert model.joint.shape == (2,) * 5
    assert model.joint.sum() == pytest.approx(1.0)

    def chance(node, value, *parents):
        one = model.tables[node][parents]
        return one if value else 1 - one

    for a, b, q, d, y in product((0, 1), repeat=5):
        expected = (
            chance("A", a)
            * chance("B", b)
            * chance("q", q, a)
            * chance("d", d, a, b)
            * chance("y", y, b, q)
        )
        assert model.joint[a, b, q, d, y] == pytest.approx(expected, abs=1e-15)
        assert model.probability({"A": a, "B": b, "q": q, "d": d, "y": y}) == pytest.approx(
            expected, abs=1e-15
        )


def test_probability_by_hand():
    model = sim.leaky_and(GRAPH)
    # d: 0.9 in one cell of four, 0.1 in three
    assert model.probability({"d": 1}) == pytest.approx(0.3)
    assert model.probability({"A": 1, "B": 1}, {"d": 1}) == pytest.approx(0.225 / 0.3)
    assert model.probability({}) == pytest.approx(1.0)


def test_models_are_read_only():
    model = sim.noisy_or(GRAPH)
    with pytest.raises(ValueError, match="read-only"):
        model.joint[0] = 0
    with pytest.raises(ValueError, match="read-only"):
        model.tables["d"][0] = 0
    with pytest.raises(ValueError, match="read-only"):
        sim.LinearGaussian(GRAPH).covariance[0] = 0


@pytest.mark.parametrize(
    ("event", "given", "error"),
    [
        ({"Z": 1}, {}, ValueError),
        ({"A": 2}, {}, ValueError),
        ({"A": None}, {}, ValueError),
        ({"A": 1}, {"A": 1}, ValueError),
        ({"A": 1}, {"d": 0.5}, ValueError),
        (None, {}, TypeError),
        ({"A": 1}, "d", TypeError),
    ],
)
def test_events_that_make_no_sense_are_refused(event, given, error):
    with pytest.raises(error):
        sim.noisy_or(GRAPH).probability(event, given)


def test_a_condition_of_probability_zero_is_refused():
    model = sim.noisy_or(GRAPH, prior=0.0)
    with pytest.raises(ValueError, match="probability 0"):
        model.probability({"q": 1}, {"A": 1})
    with pytest.raises(ValueError, match="probability 0"):
        model.odds_ratio("q", "B", {"A": 1})


def test_leaky_and_gives_odds_ratio_nine_given_the_effect_and_a_ninth_without_it():
    model = sim.leaky_and(GRAPH)
    assert model.odds_ratio("A", "B", {"d": 1}) == pytest.approx(9.0)
    assert model.odds_ratio("A", "B", {"d": 0}) == pytest.approx(1 / 9)
    assert model.odds_ratio("A", "B") == pytest.approx(1.0)


def test_noisy_or_gives_a_negative_association_given_the_effect_and_none_without_it():
    model = sim.noisy_or(GRAPH)
    # (1 - 0.9 / 81) * 0.1 / 0.81
    assert model.odds_ratio("A", "B", {"d": 1}) == pytest.approx((1 - 0.9 / 81) * 0.1 / 0.81)
    assert model.odds_ratio("A", "B", {"d": 1}) == pytest.approx(0.12, abs=0.005)
    # Without the effect every cause has failed on its own: P(d = 0 | A, B) is a product.
    assert model.odds_ratio("A", "B", {"d": 0}) == pytest.approx(1.0)


def test_q_shows_the_opened_association_more_weakly_than_A():
    for model in (sim.leaky_and(GRAPH), sim.noisy_and(GRAPH), sim.noisy_or(GRAPH)):
        of_a = np.log(model.odds_ratio("A", "B", {"d": 1}))
        of_q = np.log(model.odds_ratio("q", "B", {"d": 1}))
        assert of_a * of_q > 0
        assert abs(of_q) < abs(of_a)


def test_odds_ratio_with_empty_cells_is_zero_or_infinite_or_refused():
    copying = sim.Discrete(fork("e"), {"c": 0.5, "e": [0.0, 1.0]})
    opposing = copying.with_table("e", [1.0, 0.0])
    constant = copying.with_table("e", [1.0, 1.0])
    assert copying.odds_ratio("c", "e") == float("inf")
    assert opposing.odds_ratio("c", "e") == 0.0
    with pytest.raises(ValueError, match="does not vary"):
        constant.odds_ratio("c", "e")


def test_mutual_information_by_hand():
    copying = sim.Discrete(fork("e"), {"c": 0.5, "e": [0.0, 1.0]})
    assert copying.mutual_information("c", "e") == pytest.approx(np.log(2))
    noisy = copying.with_table("e", [0.1, 0.9])
    expected = np.log(2) + 0.1 * np.log(0.1) + 0.9 * np.log(0.9)
    assert noisy.mutual_information("c", "e") == pytest.approx(expected)


def test_mutual_information_given_an_exclusive_or_is_one_bit():
    graph = nx.DiGraph([("a", "c"), ("b", "c")])
    model = sim.Discrete(graph, {"a": 0.5, "b": 0.5, "c": [[0, 1], [1, 0]]})
    assert model.mutual_information("a", "b") == pytest.approx(0.0, abs=1e-15)
    assert model.mutual_information("a", "b", "c") == pytest.approx(np.log(2))
    # Alone neither tells anything about c, though both are its causes: unfaithful.
    assert model.independent("a", "c")
    assert not model.independent(("a", "b"), "c")


def test_mutual_information_is_the_same_both_ways_and_obeys_the_chain_rule():
    model = sim.random_tables(GRAPH, 8)
    assert model.mutual_information("q", "B", "d") == pytest.approx(
        model.mutual_information("B", "q", "d")
    )
    joint = model.mutual_information("y", ("q", "B"))
    parts = model.mutual_information("y", "q") + model.mutual_information("y", "B", "q")
    assert joint == pytest.approx(parts)


def test_independence_sees_a_dependence_too_weak_for_the_information():
    model = sim.Discrete(fork("e"), {"c": 0.5, "e": [0.5, 0.5 + 1e-7]})
    assert model.mutual_information("c", "e") < 1e-12
    assert not model.independent("c", "e")
    assert model.independent("c", "e", tol=1e-6)


def test_values_of_probability_zero_do_not_spoil_independence():
    model = sim.noisy_or(GRAPH, prior=0.0)
    assert model.independent("q", "B", ("A", "d"))
    assert model.mutual_information("q", "B", ("A", "d")) == pytest.approx(0.0, abs=1e-15)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("variant", EVERY_VARIANT)
def test_random_tables_keep_every_implied_independency_and_break_the_rest(variant, seed):
    graph = retrieval_graph(variant)
    model = sim.random_tables(graph, seed)
    for x, y, given in queries(graph):
        if d_separated(graph, x, y, given):
            assert model.independent(x, y, given, tol=1e-10), (x, y, given)
            assert model.mutual_information(x, y, given) < 1e-10, (x, y, given)
        else:
            assert not model.independent(x, y, given, tol=1e-5), (x, y, given)


def test_random_tables_differ_by_seed_and_stay_inside_their_range():
    tables = np.concatenate(
        [
            table.ravel()
            for seed in range(30)
            for table in sim.random_tables(GRAPH, seed).tables.values()
        ]
    )
    assert len(set(tables)) == tables.size
    assert (tables >= 0.05).all()
    assert (tables <= 0.95).all()


# --- local Markov condition --------------------------------------------------------------------


def test_local_markov_statements_of_the_base_graph_by_hand():
    found = {
        node: ("".join(sorted(others)), "".join(sorted(parents)))
        for node, others, parents in sim.local_markov(GRAPH)
    }
    assert found == {
        "A": ("B", ""),
        "B": ("Aq", ""),
        "q": ("Bd", "A"),
        "d": ("qy", "AB"),
        "y": ("Ad", "Bq"),
    }


def test_local_markov_lists_a_node_with_nothing_left_to_say():
    assert sim.local_markov(fork("e")) == [
        ("c", frozenset(), frozenset()),
        ("e", frozenset(), frozenset("c")),
    ]


@pytest.mark.parametrize("variant", EVERY_VARIANT)
def test_every_factorising_distribution_meets_the_local_markov_condition(variant):
    graph = retrieval_graph(variant)
    statements = sim.local_markov(graph)
    assert [node for node, _, _ in statements] == list(graph.nodes)
    for seed in range(3):
        discrete, gaussian = sim.random_tables(graph, seed), sim.random_linear_gaussian(graph, seed)
        for node, others, parents in statements:
            assert discrete.independent(node, others, parents, tol=1e-10)
            for other in others:
                assert abs(gaussian.correlation(node, other, parents)) < 1e-10


# --- samples -----------------------------------------------------------------------------------


def test_gaussian_samples_agree_with_the_exact_covariance():
    model = sim.random_linear_gaussian(GRAPH, 2)
    frame = model.sample(40_000, seed=1)
    assert tuple(frame.columns) == model.nodes
    scale = np.sqrt(np.diag(model.covariance))
    error = (frame.cov().to_numpy() - model.covariance) / np.outer(scale, scale)
    assert np.abs(error).max() < 0.03
    assert np.abs(frame.mean().to_numpy() / scale).max() < 0.03


def test_discrete_samples_agree_with_the_exact_joint():
    model = sim.random_tables(GRAPH, 2)
    frame = model.sample(40_000, seed=1)
    assert tuple(frame.columns) == model.nodes
    code = frame.to_numpy() @ (2 ** np.arange(5)[::-1])
    counted = np.bincount(code, minlength=32) / len(frame)
    # five standard deviations of the likeliest cell
    assert np.abs(counted - model.joint.ravel()).max() < 5 * 0.5 / np.sqrt(40_000)
    given = frame[frame["d"] == 1]
    exact = model.probability({"q": 1, "B": 1}, {"d": 1})
    assert ((given["q"] == 1) & (given["B"] == 1)).mean() == pytest.approx(exact, abs=0.02)


def both_models():
    return sim.LinearGaussian(GRAPH), sim.noisy_or(GRAPH)


def test_a_seed_gives_the_same_rows_and_another_seed_gives_others():
    for model in both_models():
        assert model.sample(100, 3).equals(model.sample(100, 3))
        assert not model.sample(100, 3).equals(model.sample(100, 4))


def test_samples_neither_read_nor_move_numpys_global_state():
    for model in both_models():
        np.random.seed(1)
        first, after = model.sample(50, 3), np.random.random()
        np.random.seed(2)
        second = model.sample(50, 3)
        assert first.equals(second)
        np.random.seed(1)
        assert np.random.random() == after


def test_the_same_seed_gives_the_same_noise_under_other_parameters():
    weak, strong = sim.LinearGaussian(GRAPH, 0.5), sim.LinearGaussian(GRAPH, 2.0)
    assert weak.sample(50, 3)[["A", "B"]].equals(strong.sample(50, 3)[["A", "B"]])


def test_a_node_added_at_the_end_leaves_the_other_columns_as_they_were():
    base = sim.LinearGaussian(GRAPH).sample(50, 3)
    more = sim.LinearGaussian(retrieval_graph("selection_qd")).sample(50, 3)
    assert more[list(base.columns)].equals(base)


@pytest.mark.parametrize(
    ("n", "seed", "error"),
    [
        (0, 0, ValueError),
        (-1, 0, ValueError),
        (2.0, 0, TypeError),
        (10, None, TypeError),
        (10, -1, ValueError),
        (10, 1.5, TypeError),
    ],
)
def test_sizes_and_seeds_that_make_no_sense_are_refused(n, seed, error):
    for model in both_models():
        with pytest.raises(error, match=r"n must be|seed must be"):
            model.sample(n, seed)


# --- selection ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "share", "kept"),
    [
        (10, 0.1, 1),
        (10, 0.25, 3),  # 2.5 is rounded half up
        (50, 0.29, 15),  # 14.499999999999998 in binary
        (10, 0.24, 2),
        (10, 0.01, 1),  # never none
        (1000, 0.1, 100),
        (3, 0.5, 2),
        (1, 0.5, 1),
    ],
)
def test_select_top_keeps_the_stated_number(n, share, kept):
    score = np.random.default_rng(0).normal(size=n)
    mask = sim.select_top(score, share)
    assert mask.dtype == np.bool_
    assert mask.sum() == kept
    assert kept == n or score[mask].min() > score[~mask].max()


def test_among_equal_scores_the_earlier_row_is_kept():
    assert sim.select_top([1, 3, 2, 2, 2], 0.6).tolist() == [False, True, True, True, False]
    assert sim.select_top([0, 0, 0, 0], 0.5).tolist() == [True, True, False, False]
    assert sim.select_top(np.array([True, False, True, True]), 0.5).tolist() == [
        True,
        False,
        True,
        False,
    ]


def test_ties_are_kept_in_row_order_in_long_columns_too():
    score = np.tile([0.0, 1.0, 2.0], 1000)
    mask = sim.select_top(score, 0.5)
    assert mask.sum() == 1500
    assert mask[score == 2].all()
    assert np.flatnonzero(mask & (score == 1)).tolist() == np.flatnonzero(score == 1)[:500].tolist()


def test_select_top_keeps_the_right_number_when_all_scores_are_equal_or_infinite():
    assert sim.select_top(np.ones(1000), 0.1).sum() == 100
    assert sim.select_top([1.0, -np.inf, np.inf, 0.0], 0.5).tolist() == [True, False, True, False]


def test_select_top_reads_unsigned_scores_and_leaves_them_alone():
    score = np.array([1, 0, 255], dtype=np.uint8)
    assert sim.select_top(score, 0.4).tolist() == [False, False, True]
    assert score.tolist() == [1, 0, 255]


@pytest.mark.parametrize(
    ("score", "share", "words"),
    [
        ([1, 2], 0, "share must lie strictly"),
        ([1, 2], 1, "share must lie strictly"),
        ([1, 2], float("nan"), "share must lie strictly"),
        ([], 0.5, "non-empty 1-d"),
        ([[1, 2]], 0.5, "non-empty 1-d"),
        ([1, float("nan")], 0.5, "NaN at row 1"),
    ],
)
def test_select_top_refuses_what_it_cannot_rank(score, share, words):
    with pytest.raises(ValueError, match=words):
        sim.select_top(score, share)


def test_selecting_by_d_opens_a_negative_and_by_q_times_d_a_positive_correlation():
    frame = sim.LinearGaussian(GRAPH).sample(20_000, seed=0)
    every = correlation(frame["q"], frame["B"])
    assert every.low < 0 < every.high
    by_d = frame[sim.select_top(frame["d"], 0.1)]
    by_product = frame[sim.select_top(frame["q"] * frame["d"], 0.1)]
    assert len(by_d) == len(by_product) == 2000
    assert correlation(by_d["q"], by_d["B"]).high < 0
    assert correlation(by_product["q"], by_product["B"]).low > 0


def test_selecting_by_a_noisy_descendant_of_d_opens_the_same_path_with_the_same_sign():
    frame = sim.LinearGaussian(retrieval_graph("selection_d")).sample(20_000, seed=0)
    kept = frame[sim.select_top(frame["s"], 0.1)]
    assert correlation(kept["q"], kept["B"]).high < 0


def test_importing_the_module_loads_no_heavy_package():
    code = (
        "import sys, causalrag.simulate; "
        "print([m for m in ('pgmpy', 'networkx', 'pandas', 'scipy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
