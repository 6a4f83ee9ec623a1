"""Figures of the book: the graph with its open and blocked paths, selections, intervals.

Every function draws on the Axes it is given, or on a new one, and returns it. Colours are those of
Okabe and Ito; what colour says is also said by width, shape or dash. No labels in Chinese: no font
that holds them can be assumed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from causalrag.evaluate import Estimate, correlation, half_up
from causalrag.graph import check_graph, check_query, check_set, paths

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd
    from matplotlib.axes import Axes

OKABE_ITO: Mapping[str, str] = {
    "black": "#000000",
    "orange": "#E69F00",
    "sky blue": "#56B4E9",
    "green": "#009E73",
    "yellow": "#F0E442",
    "blue": "#0072B2",
    "vermilion": "#D55E00",
    "purple": "#CC79A7",
}
"""Eight colours that remain apart under the common kinds of colour blindness."""

_GREY = "#8C8C8C"
_RADIUS = 0.24
_PLACES = {
    "A": (0.0, 2.0),
    "B": (3.0, 2.0),
    "q": (-0.45, 0.5),
    "d": (1.5, 1.2),
    "y": (3.45, -0.6),
    "U": (1.5, 2.75),
    "M": (1.5, 2.15),
    "s": (1.5, 0.3),
}
_NO_FONT = re.compile("[\u2e80-\u9fff\uac00-\ud7a3\uf900-\ufaff\ufe30-\uffef\U00020000-\U0003ffff]")


def use_style() -> None:
    """Set matplotlib's defaults for the book: opaque white, large type, the Okabe-Ito cycle.

    Raises
    ------
    ImportError
        Without matplotlib.
    """
    matplotlib = _matplotlib()
    cycle = [colour for name, colour in OKABE_ITO.items() if name not in ("black", "yellow")]
    matplotlib.rcParams.update(
        {
            "figure.figsize": (5.6, 4.0),
            "figure.dpi": 110,
            "figure.facecolor": "white",
            "axes.facecolor": "white",
            "savefig.facecolor": "white",
            "savefig.transparent": False,
            "savefig.bbox": "tight",
            "font.size": 13,
            "axes.titlesize": 13,
            "axes.labelsize": 13,
            "legend.fontsize": 11.5,
            "legend.frameon": False,
            "lines.linewidth": 2.0,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.prop_cycle": matplotlib.cycler(color=cycle),
        }
    )


def draw_graph(
    graph: nx.DiGraph,
    given: str | Iterable[str] = (),
    x: str | None = None,
    y: str | None = None,
    ax: Axes | None = None,
    title: str | None = None,
) -> Axes:
    """Draw a causal graph, and the paths between two nodes if they are named.

    Parameters
    ----------
    graph
        As for `graph.d_separated`. The nodes of the retrieval graph and its variants have fixed
        places; other nodes stand in a row below.
    given
        The conditioning set, drawn as filled squares.
    x, y
        Two nodes, both or neither, drawn with an orange rim. Edges on an open path between them
        are thick and blue, edges on blocked paths only are thin and grey, edges on no path are
        dotted.
    ax
        Where to draw; a new figure if None.
    title
        Above the graph.

    Returns
    -------
    matplotlib.axes.Axes
        With a legend of what is drawn.

    Raises
    ------
    ValueError, TypeError
        As for `graph.d_separated`; also if only one of x and y is given.
    """
    if (x is None) != (y is None):
        raise ValueError(f"name both ends of the paths or neither, got x={x!r}, y={y!r}")
    check_graph(graph)
    if x is None or y is None:
        conditioned, looks = check_set(graph, given), {edge[:2]: "edge" for edge in graph.edges}
    else:
        conditioned = check_query(graph, x, y, given)
        looks = _edge_looks(graph, x, y, conditioned)
    _check_font(*graph.nodes, title)
    ax = _axes(ax)
    places = place_nodes(graph)
    for (u, v), look in looks.items():
        _draw_edge(ax, places[u], places[v], look)
    for node in graph.nodes:
        _draw_node(ax, node, places[node], node in conditioned, node in (x, y))
    _frame_graph(ax, list(places.values()))
    _graph_legend(ax, set(looks.values()), bool(conditioned))
    if title is not None:
        ax.set_title(title)
    return ax


def place_nodes(graph: nx.DiGraph) -> dict[str, tuple[float, float]]:
    """Say where `draw_graph` puts the nodes.

    Parameters
    ----------
    graph
        As for `draw_graph`.

    Returns
    -------
    dict
        {node: (to the right, upwards)} in the graph's order, in units of about a third of the
        graph's width.
    """
    nodes = list(graph.nodes)
    places = {node: _PLACES[node] for node in nodes if node in _PLACES}
    others = [node for node in nodes if node not in _PLACES]
    lowest = min((height for _, height in places.values()), default=1.0)
    for position, node in enumerate(others):
        places[node] = (1.5 + 1.1 * (position - (len(others) - 1) / 2), lowest - 1.0)
    return {node: places[node] for node in nodes}


def scatter_selection(
    frame: pd.DataFrame,
    x: str,
    y: str,
    mask: ArrayLike,
    ax: Axes | None = None,
    title: str | None = None,
    names: tuple[str, str] = ("all", "kept"),
) -> Axes:
    """Draw two columns before and after a selection, with both correlations in the legend.

    Parameters
    ----------
    frame
        One row per document.
    x, y
        Two of its columns; they label the axes.
    mask
        Shape (rows,), bool: the rows kept, such as `simulate.select_top` returns.
    ax
        Where to draw; a new figure if None.
    title
        Above the plot.
    names
        What the legend calls the rows before and after the selection.

    Returns
    -------
    matplotlib.axes.Axes
        Points, and the least-squares line of each group.

    Raises
    ------
    ValueError
        For an unknown column, a mask that is not boolean or has another length, or fewer than 4
        rows kept.
    """
    for column in (x, y):
        if column not in frame.columns:
            known = ", ".join(map(str, frame.columns))
            raise ValueError(f"unknown column {column!r}; known columns: {known}")
    kept = np.asarray(mask)
    if kept.dtype != np.bool_ or kept.shape != (len(frame),):
        raise ValueError(
            f"mask must hold one True or False for each of the {len(frame)} rows, "
            f"got {kept.dtype} of shape {kept.shape}"
        )
    _check_font(x, y, title, *names)
    across, along = frame[x].to_numpy(float), frame[y].to_numpy(float)
    groups = (
        (np.ones(len(frame), bool), _GREY, ".", "--", names[0]),
        (kept, OKABE_ITO["blue"], "^", "-", names[1]),
    )
    estimates = [correlation(across[rows], along[rows]) for rows, *_ in groups]
    ax = _axes(ax)
    for (rows, colour, marker, dash, name), estimate in zip(groups, estimates, strict=True):
        label = f"{name} (n = {estimate.n}): r = {_signed(estimate.value)}"
        ax.scatter(
            across[rows], along[rows], s=16, marker=marker, color=colour, alpha=0.45, linewidths=0
        )
        ends = np.array([across[rows].min(), across[rows].max()])
        slope, height = np.polyfit(across[rows], along[rows], 1)
        ax.plot(ends, height + slope * ends, dash, color=colour, marker=marker, label=label)
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0))
    if title is not None:
        ax.set_title(title, pad=52)
    return ax


def interval_plot(
    rows: Mapping[str, Estimate] | Sequence[tuple[str, Estimate]],
    xlabel: str = "correlation",
    null: float = 0.0,
    ax: Axes | None = None,
    title: str | None = None,
) -> Axes:
    """Draw a point and its interval per row, and the line of no effect.

    Parameters
    ----------
    rows
        {label: estimate} or a list of such pairs, drawn from the top.
    xlabel
        What is measured, with its unit if it has one.
    null
        Where no effect lies: 0, or 0.5 for a proportion.
    ax
        Where to draw; a new figure if None.
    title
        Above the plot.

    Returns
    -------
    matplotlib.axes.Axes
        Intervals that exclude `null` are filled and blue, the others hollow and grey. The axis
        names the confidence level, or the range of levels.

    Raises
    ------
    ValueError
        Without rows.
    """
    pairs = list(rows.items()) if isinstance(rows, Mapping) else list(rows)
    if not pairs:
        raise ValueError("no rows to draw")
    _check_font(xlabel, title, *(label for label, _ in pairs))
    ax = _axes(ax)
    seen = set()
    for position, (_, one) in enumerate(pairs):
        excludes = one.low > null or one.high < null
        colour = OKABE_ITO["blue"] if excludes else _GREY
        label = f"excludes {null:g}" if excludes else f"covers {null:g}"
        ax.plot([one.low, one.high], [position, position], color=colour, solid_capstyle="butt")
        ax.plot(
            [one.value],
            [position],
            "o",
            color=colour,
            markerfacecolor=colour if excludes else "white",
            label=None if label in seen else label,
        )
        seen.add(label)
    ax.axvline(null, color=OKABE_ITO["black"], linewidth=1, linestyle="--", zorder=0)
    ax.set_yticks(range(len(pairs)), [label for label, _ in pairs])
    ax.set_ylim(len(pairs) - 0.5, -0.5)
    ax.set_xlabel(f"{xlabel} ({_levels([one.level for _, one in pairs])} intervals)")
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(seen))
    if title is not None:
        ax.set_title(title, pad=34)
    return ax


def _edge_looks(
    graph: nx.DiGraph, x: str, y: str, given: frozenset[str]
) -> dict[tuple[str, str], str]:
    """Sort the edges by the best path they lie on: open, blocked, or none."""
    looks = {edge[:2]: "no path" for edge in graph.edges}
    for path in sorted(paths(graph, x, y, given), key=lambda path: path.is_open):
        for left, right, arrow in zip(path.nodes, path.nodes[1:], path.arrows, strict=False):
            edge = (left, right) if arrow == "→" else (right, left)
            looks[edge] = "open path" if path.is_open else "blocked path"
    return looks


_LOOKS: dict[str, dict[str, Any]] = {
    "edge": {"color": OKABE_ITO["black"], "linewidth": 1.8, "linestyle": "-"},
    "open path": {"color": OKABE_ITO["blue"], "linewidth": 4.5, "linestyle": "-"},
    "blocked path": {"color": _GREY, "linewidth": 1.4, "linestyle": "-"},
    "no path": {"color": _GREY, "linewidth": 1.4, "linestyle": ":"},
}


def _draw_edge(ax: Axes, start: tuple[float, float], end: tuple[float, float], look: str) -> None:
    from matplotlib.patches import FancyArrowPatch

    begin, finish = np.array(start), np.array(end)
    step = (finish - begin) / np.linalg.norm(finish - begin) * (_RADIUS + 0.05)
    arrow = FancyArrowPatch(
        tuple(begin + step),
        tuple(finish - step),
        arrowstyle="-|>",
        mutation_scale=22 if look == "open path" else 16,
        shrinkA=0,
        shrinkB=0,
        zorder=2 if look == "open path" else 1,
        **_LOOKS[look],
    )
    ax.add_patch(arrow)


def _draw_node(
    ax: Axes, node: str, place: tuple[float, float], is_given: bool, is_end: bool
) -> None:
    from matplotlib.patches import Circle, Rectangle

    look: dict[str, Any] = {
        "facecolor": OKABE_ITO["black"] if is_given else "white",
        "edgecolor": OKABE_ITO["orange" if is_end else "black"],
        "linewidth": 3.5 if is_end else 1.8,
        "zorder": 3,
    }
    corner = (place[0] - _RADIUS, place[1] - _RADIUS)
    side = 2 * _RADIUS
    ax.add_patch(
        Rectangle(corner, side, side, **look) if is_given else Circle(place, _RADIUS, **look)
    )
    colour = "white" if is_given else OKABE_ITO["black"]
    ax.text(*place, node, color=colour, ha="center", va="center_baseline", fontsize=15, zorder=4)


def _frame_graph(ax: Axes, places: list[tuple[float, float]]) -> None:
    room = _RADIUS + 0.15
    across, along = [x for x, _ in places], [y for _, y in places]
    ax.set_xlim(min(across) - room, max(across) + room)
    ax.set_ylim(min(along) - room, max(along) + room)
    ax.set_aspect("equal")
    ax.set_axis_off()


def _graph_legend(ax: Axes, looks: set[str], any_given: bool) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], label=look, **_LOOKS[look])
        for look in ("open path", "blocked path", "no path")
        if look in looks
    ]
    if any_given:
        square = Line2D(
            [], [], linestyle="none", marker="s", markersize=11, color=OKABE_ITO["black"]
        )
        square.set_label("conditioned on")
        handles.append(square)
    if handles:
        ax.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, 0.02), ncols=2)


def _signed(value: float) -> str:
    return half_up(value).replace("-", "\u2212")  # a true minus sign, as on the axes


def _levels(levels: list[float]) -> str:
    shown = sorted({float(f"{100 * level:.3g}") for level in levels})
    ends = [f"{value:g}" for value in shown]
    return f"{ends[0]}%" if len(ends) == 1 else f"{ends[0]}–{ends[-1]}%"


def _check_font(*labels: str | None) -> None:
    for label in labels:
        if label is not None and _NO_FONT.search(label):
            raise ValueError(f"matplotlib's fonts cannot be assumed to show {label!r}; use Latin")


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    _matplotlib()
    import matplotlib.pyplot as plt

    _, made = plt.subplots(layout="constrained")
    return made


def _matplotlib() -> Any:
    try:
        import matplotlib
    except ImportError as error:
        raise ImportError(
            'figures need matplotlib; install it with: pip install "causalrag[book]"'
        ) from error
    return matplotlib
