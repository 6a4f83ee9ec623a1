"""The names of the attacks, what they model, the document they give, and checks of a request."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np

from causalrag.documents import joined
from causalrag.stuffing.carriers import LANGUAGES

__all__ = [
    "ATTACKS",
    "THREATS",
    "Stuffed",
    "check_request",
    "digest",
    "generator",
    "language",
    "n_words",
]

THREATS: Mapping[str, str] = {
    "repetition": "A page built for search engines says the query's words again and again in "
    "sentences that hold nothing else.",
    "splice": "Someone inserts the query's words between the sentences of a real page on another "
    "matter, so that most of what surrounds them is natural prose.",
    "echo": "A page repeats the question itself, word for word and turned around, and never "
    "answers it.",
    "synonyms": "An author who knows that the query's own words are absorbed stuffs terms that an "
    "encoder holds near them instead, each of them rarely.",
    "titles": "A page promises the query's subject in its title and headings, and its body is "
    "about something else.",
    "dilution": "An author who knows that repetition is counted scatters the query's words thinly "
    "through a long text on another matter.",
    "neighbours": "No one attacks: honest documents on a neighbouring matter share most of the "
    "query's words and do not answer it.",
}
ATTACKS = tuple(THREATS)

_HAN = re.compile(r"[\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
_WORD = re.compile(r"[^\W\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+(?:[-/.'][^\W_]+)*")


@dataclass(frozen=True)
class Stuffed:
    """A document that attracts a query without answering it; `CausalReranker.rank` reads it.

    Attributes
    ----------
    id : hashable
        ``attack-digest-number``, the digest being that of seed, attack, query, strength and
        language; the collection's own id under ``"neighbours"``.
    title, text : str
        The title may be empty.
    attack : str
        One of `ATTACKS`.
    strength : float
        As asked for.
    """

    id: Hashable
    title: str
    text: str
    attack: str
    strength: float

    @property
    def full_text(self) -> str:
        """Title and text, as `CausalReranker.rank` reads them."""
        return joined((self.title, self.text)) if self.title else self.text


def check_request(
    attack: str, n: int, strength: float, seed: int, lang: str | None
) -> tuple[int, float, int]:
    """Give count, strength and seed as plain numbers.

    Raises
    ------
    TypeError, ValueError
        The message names the value and what is accepted.
    """
    if attack not in ATTACKS:
        raise ValueError(f"unknown attack {attack!r}; known: {', '.join(ATTACKS)}")
    for name, value in (("n", n), ("seed", seed)):
        if isinstance(value, bool) or not isinstance(value, Integral):
            raise TypeError(f"{name} must be an integer, got {value!r}")
    if n < 0:
        raise ValueError(f"n is {n}; give 0 or more documents")
    if isinstance(strength, bool) or not isinstance(strength, Real):
        raise TypeError(f"strength must be a number, got {strength!r}")
    if not 0 <= float(strength) <= 1:
        raise ValueError(f"strength is {strength}; it is a share in [0, 1]")
    if lang is not None and lang not in LANGUAGES:
        raise ValueError(f"unknown lang {lang!r}; known: {', '.join(LANGUAGES)}")
    return int(n), float(strength), int(seed)


def digest(*parts: object) -> str:
    """Give a digest of plain values that is the same in every process."""
    return hashlib.sha256(json.dumps(parts, ensure_ascii=True).encode()).hexdigest()


def generator(*parts: object) -> np.random.Generator:
    """Give a random generator seeded by plain values."""
    return np.random.default_rng(int(digest(*parts)[:32], 16))


def language(text: str) -> str:
    """Say "zh" where Chinese characters are at least as many as words of other scripts, or "en"."""
    characters = len(_HAN.findall(text))
    return "zh" if characters and characters >= len(_WORD.findall(text)) else "en"


def n_words(text: str) -> float:
    """Measure a text in words; two Chinese characters count as one."""
    return len(_WORD.findall(text)) + len(_HAN.findall(text)) / 2
