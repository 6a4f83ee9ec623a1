"""Figures: what is drawn matches the graph and the numbers. matplotlib's Agg, no screen."""

from __future__ import annotations

import subprocess
import sys
import warnings

import matplotlib as mpl
import networkx as nx
import numpy as np
import pandas as pd
import pytest

mpl.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.colors import to_hex
from matplotlib.patches import Circle, FancyArrowPatch, Rectangle

from causalrag import plots
from causalrag.evaluate import Estimate, correlation
from causalrag.graph import VARIANTS, retrieval_graph

BLUE = plots.OKABE_ITO["blue"].lower()
GREY = "#8c8c8c"


@pytest.fixture(autouse=True)
def _clean_figures():
    with mpl.rc_context(), warnings.catch_warnings():
        warnings.simplefilter("error")  # a missing glyph is only a warning
        yield
        plt.close("all")


def arrows(ax):
    return [patch for patch in ax.patches if isinstance(patch, FancyArrowPatch)]


def shape_of(ax, node):
    text = next(text for text in ax.texts if text.get_text() == node)
    for patch in ax.patches:
        if isinstance(patch, (Circle, Rectangle)):
            box = patch.get_extents().transformed(ax.transData.inverted())
            if box.contains(*text.get_position()):
                return patch
    raise AssertionError(f"no shape holds {node}")


def colours(ax):
    return sorted(to_hex(arrow.get_edgecolor()) for arrow in arrows(ax))


def legend(ax):
    drawn = ax.get_legend()
    return [] if drawn is None else [text.get_text() for text in drawn.get_texts()]


# --- the graph ---------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", [None, *VARIANTS])
def test_every_node_and_edge_is_drawn_and_no_two_nodes_overlap(variant):
    graph = retrieval_graph(variant)
    ax = plots.draw_graph(graph)
    ax.figure.canvas.draw()
    assert [text.get_text() for text in ax.texts] == list(graph.nodes)
    assert len(arrows(ax)) == graph.number_of_edges()
    places = np.array([text.get_position() for text in ax.texts])
    gaps = np.linalg.norm(places[:, None] - places[None], axis=-1)
    assert gaps[~np.eye(len(places), dtype=bool)].min() > 0.55


def test_the_nodes_stand_where_the_book_says():
    ax = plots.draw_graph(retrieval_graph("selection_d"))
    at = {text.get_text(): text.get_position() for text in ax.texts}
    assert at["A"][0] < at["d"][0] < at["B"][0]
    assert at["A"][1] == at["B"][1] > at["d"][1] > at["s"][1]
    assert at["q"][0] == min(place[0] for place in at.values())
    assert at["y"][1] == min(place[1] for place in at.values())


def test_places_do_not_depend_on_the_conditioning_set():
    graph = retrieval_graph()
    plain, asked = plots.draw_graph(graph), plots.draw_graph(graph, "d", "q", "B")
    assert [text.get_position() for text in plain.texts] == [
        text.get_position() for text in asked.texts
    ]


def test_conditioned_nodes_are_filled_squares_and_the_others_open_circles():
    ax = plots.draw_graph(retrieval_graph(), ("d", "A"))
    for node in ("d", "A"):
        assert isinstance(shape_of(ax, node), Rectangle)
        assert to_hex(shape_of(ax, node).get_facecolor()) == "#000000"
    for node in ("B", "q", "y"):
        assert isinstance(shape_of(ax, node), Circle)
        assert to_hex(shape_of(ax, node).get_facecolor()) == "#ffffff"
    assert legend(ax) == ["conditioned on"]


def test_the_open_path_is_thick_and_blue_and_the_blocked_one_thin_and_grey():
    ax = plots.draw_graph(retrieval_graph(), "d", "q", "B")
    assert colours(ax) == sorted([BLUE] * 3 + [GREY] * 2)
    widths = {to_hex(arrow.get_edgecolor()): arrow.get_linewidth() for arrow in arrows(ax)}
    assert widths[BLUE] > 2 * widths[GREY]
    assert legend(ax) == ["open path", "blocked path", "conditioned on"]


def test_nothing_is_blue_when_every_path_is_blocked():
    ax = plots.draw_graph(retrieval_graph(), (), "q", "B")
    assert set(colours(ax)) == {GREY}
    assert legend(ax) == ["blocked path"]


def test_an_edge_on_an_open_and_on_a_blocked_path_is_drawn_as_open():
    # d←B lies on q←A→d←B, which A blocks, and on q→s←d←B, which s opens.
    ax = plots.draw_graph(retrieval_graph("selection_qd"), ("s", "A"), "q", "B")
    assert colours(ax).count(BLUE) == 3


def test_edges_on_no_path_are_dotted():
    ax = plots.draw_graph(retrieval_graph("selection_d"), (), "q", "B")
    dotted = [arrow for arrow in arrows(ax) if arrow.get_linestyle() == ":"]
    assert len(dotted) == 1
    assert legend(ax) == ["blocked path", "no path"]


def test_without_ends_all_edges_look_alike():
    ax = plots.draw_graph(retrieval_graph(), "d")
    assert set(colours(ax)) == {"#000000"}


def test_the_two_ends_have_an_orange_rim():
    ax = plots.draw_graph(retrieval_graph(), "d", "q", "B")
    rims = {node: to_hex(shape_of(ax, node).get_edgecolor()) for node in "ABqdy"}
    orange = plots.OKABE_ITO["orange"].lower()
    assert [node for node, rim in rims.items() if rim == orange] == ["B", "q"]


def test_a_graph_with_other_nodes_is_drawn_too():
    graph = nx.MultiDiGraph(
        [("smoking", "tar"), ("tar", "cancer"), ("tar", "cancer"), ("A", "tar")]
    )
    ax = plots.draw_graph(graph, "tar", "smoking", "cancer")
    assert {text.get_text() for text in ax.texts} == set(graph.nodes)
    assert len({text.get_position() for text in ax.texts}) == 4


def test_draws_on_the_axes_it_is_given():
    _, ax = plt.subplots()
    assert plots.draw_graph(retrieval_graph(), ax=ax, title="The graph") is ax
    assert ax.get_title() == "The graph"


@pytest.mark.parametrize(
    ("given", "x", "y", "error", "words"),
    [
        ((), "q", None, ValueError, "both ends"),
        ((), None, "B", ValueError, "both ends"),
        ("Z", None, None, ValueError, "unknown node 'Z'"),
        ("q", "q", "B", ValueError, "conditioned on"),
        ((), "q", "Z", ValueError, "unknown node 'Z'"),
        (None, None, None, TypeError, "given must be"),
    ],
)
def test_a_picture_of_a_bad_question_is_refused(given, x, y, error, words):
    with pytest.raises(error, match=words):
        plots.draw_graph(retrieval_graph(), given, x, y)
    assert plt.get_fignums() == []


@pytest.mark.parametrize("label", ["图", "查询 q", "カナ", "한글", "，"])
def test_labels_that_no_font_may_show_are_refused(label):
    with pytest.raises(ValueError, match="fonts cannot be assumed"):
        plots.draw_graph(retrieval_graph(), title=label)
    with pytest.raises(ValueError, match="fonts cannot be assumed"):
        plots.interval_plot({label: Estimate(0.1, 0.0, 0.2, 9, 0.95, 0.05)})


def test_arrows_and_independence_signs_can_be_shown():
    ax = plots.draw_graph(retrieval_graph(), title="q ⊥ B, and q ← A → d ← B given d; tau ≥ 0.6 −")
    ax.figure.canvas.draw()  # a missing glyph would warn, and warnings are errors here


# --- selections --------------------------------------------------------------------------------


def selection(n=60):
    generator = np.random.default_rng(0)
    frame = pd.DataFrame(generator.normal(size=(n, 2)), columns=["q", "B"])
    return frame, (frame["q"] + frame["B"] > 0.5).to_numpy()


def test_both_correlations_stand_in_the_legend():
    frame, mask = selection()
    ax = plots.scatter_selection(frame, "q", "B", mask, title="Kept if q + B > 0.5")
    kept = frame[mask]
    every, some = correlation(frame["q"], frame["B"]), correlation(kept["q"], kept["B"])
    first, second = (text.replace("−", "-") for text in legend(ax))
    assert first == f"all (n = 60): r = {every.value:.2f}"
    assert second == f"kept (n = {mask.sum()}): r = {some.value:.2f}"
    assert some.value < 0
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("q", "B")


def test_both_groups_are_drawn_with_all_their_points():
    frame, mask = selection()
    ax = plots.scatter_selection(frame, "q", "B", mask, names=("before", "after"))
    assert [len(points.get_offsets()) for points in ax.collections] == [60, mask.sum()]
    assert np.allclose(ax.collections[1].get_offsets(), frame[mask][["q", "B"]])
    assert legend(ax)[1].startswith("after")


def test_the_line_of_a_group_is_its_least_squares_line():
    frame, mask = selection()
    ax = plots.scatter_selection(frame, "q", "B", mask)
    (x0, x1), (y0, y1) = ax.lines[1].get_data()
    kept = frame[mask]
    slope = kept["q"].cov(kept["B"]) / kept["q"].var()
    assert (y1 - y0) / (x1 - x0) == pytest.approx(slope)


def test_a_selection_that_cannot_be_drawn_is_refused():
    frame, mask = selection()
    with pytest.raises(ValueError, match="unknown column 'd'; known columns: q, B"):
        plots.scatter_selection(frame, "q", "d", mask)
    with pytest.raises(ValueError, match="each of the 60 rows"):
        plots.scatter_selection(frame, "q", "B", mask[:-1])
    with pytest.raises(ValueError, match="each of the 60 rows, got int64"):
        plots.scatter_selection(frame, "q", "B", np.flatnonzero(mask))
    with pytest.raises(ValueError, match="at least 4 pairs, got 0"):
        plots.scatter_selection(frame, "q", "B", np.zeros(60, dtype=bool))
    assert plt.get_fignums() == []


# --- intervals ---------------------------------------------------------------------------------

ROWS = {
    "on d": Estimate(-0.3, -0.4, -0.2, 100, 0.95, 0.001),
    "all": Estimate(0.01, -0.1, 0.12, 100, 0.95, 0.8),
    "on q times d": Estimate(0.5, 0.4, 0.6, 100, 0.95, 0.001),
}


def test_each_row_shows_its_point_and_its_interval_from_the_top():
    ax = plots.interval_plot(ROWS)
    assert [label.get_text() for label in ax.get_yticklabels()] == list(ROWS)
    assert ax.get_ylim()[0] > ax.get_ylim()[1]
    drawn = [list(line.get_xdata()) for line in ax.lines if len(line.get_xdata()) == 2]
    assert drawn[:3] == [[one.low, one.high] for one in ROWS.values()]
    points = [line.get_xdata()[0] for line in ax.lines if len(line.get_xdata()) == 1]
    assert points == [one.value for one in ROWS.values()]


def test_intervals_that_exclude_no_effect_are_told_apart():
    ax = plots.interval_plot(ROWS)
    shown = [to_hex(line.get_color()) for line in ax.lines if len(line.get_xdata()) == 1]
    assert shown == [BLUE, GREY, BLUE]
    assert legend(ax) == ["excludes 0", "covers 0"]


def test_the_line_of_no_effect_can_stand_elsewhere():
    ax = plots.interval_plot([("half", Estimate(0.6, 0.45, 0.75, 40, 0.9, 0.2))], "share", null=0.5)
    assert list(ax.lines[-1].get_xdata()) == [0.5, 0.5]
    assert to_hex(ax.lines[1].get_color()) == GREY
    assert ax.get_xlabel() == "share (90% intervals)"


def test_the_axis_names_the_levels():
    rows = [("a", ROWS["all"]), ("b", Estimate(0.1, -0.2, 0.3, 9, 1 - 0.05 / 3, 0.5))]
    assert plots.interval_plot(rows).get_xlabel() == "correlation (95–98.3% intervals)"


def test_no_rows_are_refused():
    for rows in ({}, []):
        with pytest.raises(ValueError, match="no rows"):
            plots.interval_plot(rows)


# --- style -------------------------------------------------------------------------------------


def test_style_saves_on_opaque_white(tmp_path):
    plots.use_style()
    ax = plots.draw_graph(retrieval_graph(), "d", "q", "B")
    target = tmp_path / "graph.png"
    ax.figure.savefig(target)
    pixels = plt.imread(target)
    assert pixels.shape[-1] == 3 or (pixels[..., 3] == 1).all()
    assert (pixels[0, 0, :3] == 1).all()


def test_style_cycles_through_the_palette():
    plots.use_style()
    used = mpl.rcParams["axes.prop_cycle"].by_key()["color"]
    assert set(used) <= set(plots.OKABE_ITO.values())
    assert len(set(used)) == len(used) == 6


def test_the_palette_has_eight_different_colours():
    assert len(set(plots.OKABE_ITO.values())) == 8


def test_importing_the_module_does_not_load_matplotlib():
    code = "import sys, causalrag.plots; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_without_matplotlib_the_error_names_the_command_to_install_it():
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "import networkx as nx\n"
        "from causalrag import plots\n"
        "try:\n    plots.draw_graph(nx.DiGraph([('A', 'q')]))\n"
        "except ImportError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 'pip install "causalrag[book]"' in done.stdout
