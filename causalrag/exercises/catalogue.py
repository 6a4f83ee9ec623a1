"""The exercises, in the order of the book. Nothing is computed until one is asked."""

from __future__ import annotations

from causalrag.exercises.base import Exercise
from causalrag.exercises.graphs import OpenPaths, PathState, Separator
from causalrag.exercises.scores import ByHand
from causalrag.exercises.signs import Sign
from causalrag.exercises.words import SharedKeywords

_RESIDUAL = (
    ("valve", 2.0, (1.0, 0.0)),
    ("gauge", 1.0, (0.0, 1.0)),
    ("drip", 1.0, (0.6, 0.8)),
)

_ALL: tuple[Exercise, ...] = (
    Separator("screen-q-d", "Screen the query off from the document", "q", "d"),
    PathState("state-q-B", "One path after retrieval", path=("q", "A", "d", "B"), held=("A", "d")),
    Separator("separate-d-y", "Separate the document from the answer", "d", "y"),
    Separator("close-q-B", "Close what retrieval opened", held=("d",)),
    PathState(
        "state-score",
        "Only a score of the document is seen",
        variant="selection_d",
        path=("q", "A", "d", "B"),
        held=("s",),
    ),
    OpenPaths("open-selected", "Candidates chosen by s(q, d)", variant="selection_qd", held=("s",)),
    Separator(
        "selected-q-B", "Close what choosing by s(q, d) opened", "q", "B", "selection_qd", ("s",)
    ),
    Separator("topic-q-B", "A topic behind query and document", "q", "B", "topic", ("d",)),
    Sign(
        "sign-set",
        "Somebody sets d",
        mechanism="set by hand",
        clue="Looking at d = 1 is one act, making d = 1 is another: what did d learn from A and B?",
    ),
    Sign(
        "sign-or",
        "Either is enough",
        clue="The document came back and A is absent: what must have brought it back?",
    ),
    Sign(
        "sign-and",
        "Both are needed",
        pair=("q", "B"),
        mechanism="leaky AND",
        clue="Most documents that came back have both A and B. What does q say about A?",
    ),
    Sign(
        "sign-not-returned",
        "The documents that did not come back",
        kept=0,
        clue="A noisy OR stays silent if each cause fails on its own: multiply the chances.",
    ),
    SharedKeywords(
        "words-brake",
        "A squealing brake",
        query="Why does my bicycle brake squeal in the rain?",
        document="The squeal comes from the rim: wipe it, and sand the pads of both brakes. "
        "Rain is no cause.",
    ),
    SharedKeywords(
        "words-starter",
        "A starter in the fridge",
        query="How often should I feed a sourdough starter in the fridge?",
        document="Feeding once a week is plenty. Take the sourdough out of the fridge, let the "
        "starter warm up, and wait.",
    ),
    SharedKeywords(
        "words-kitten",
        "A kitten at night",
        query="公寓里的小猫夜里总叫，怎么办？",
        document="夜里小猫叫，多半是白天睡多了。睡前陪它玩，再喂饭。",
        gloss=(
            (
                "公寓里的小猫夜里总叫，怎么办？",
                "A kitten in a flat cries every night, what can I do?",
            ),
            (
                "夜里小猫叫，多半是白天睡多了。睡前陪它玩，再喂饭。",
                "A kitten that cries at night has mostly slept too much by day. Play with it "
                "before bedtime, then feed it.",
            ),
            ("夜里", "at night"),
            ("小猫", "kitten"),
            ("多半", "mostly"),
            ("白天", "by day"),
            ("睡多", "slept too much"),
            ("睡前", "before bedtime"),
            ("陪", "keep company"),
            ("玩", "play"),
            ("喂饭", "feed"),
            ("公寓", "flat"),
            ("总叫", "cries all the time"),
        ),
    ),
    ByHand("centroid", "A centroid by hand", terms=_RESIDUAL),
    ByHand("score", "A score by hand", terms=_RESIDUAL, query=(0.0, 1.0)),
)

CATALOGUE: dict[str, Exercise] = {exercise.id: exercise for exercise in _ALL}
"""{id: exercise}."""
