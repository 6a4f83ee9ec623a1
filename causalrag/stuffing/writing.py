"""Put words into sentences: how much of a text is keyword, and where the keywords stand.

Every count is in content tokens of the extractor; lengths that bound a text are in words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from causalrag.keywords.base import FullExtractor
from causalrag.stuffing.base import n_words
from causalrag.stuffing.carriers import Genre, Voice

__all__ = ["Carrier", "Desk", "Word", "whole"]

# Words of one list: in a slot, and in a sentence that is only a list.
IN_SLOT, IN_LIST = 3, (4, 7)


class Word(NamedTuple):
    """What is stuffed, and how many content tokens it has."""

    text: str
    size: int


class Carrier(NamedTuple):
    """A sentence with slots: its content tokens and its words when the slots are empty."""

    text: str
    size: int
    length: float

    @property
    def slots(self) -> int:
        """How many lists it takes."""
        return self.text.count("{}")


@dataclass
class Desk:
    """Where one document is written.

    Attributes
    ----------
    voice : Voice
        The language's carriers.
    extractor : FullExtractor
        Says what a token is.
    banned : frozenset of str
        Tokens that no carrier may hold: the query's own.
    random : Generator
        The document's.
    genres : sequence of str
        Names of all genres, the document's own first.
    measured : dict
        Tokens and measures of carriers, shared by documents of one language.
    """

    voice: Voice
    extractor: FullExtractor
    banned: frozenset[str]
    random: np.random.Generator
    genres: Sequence[str]
    measured: dict[str, tuple[frozenset[str], Carrier]] = field(default_factory=dict)

    @cached_property
    def genre(self) -> Genre:
        """The genre that the document begins in."""
        return self.voice.genres[self.genres[0]]

    @cached_property
    def carriers(self) -> list[Carrier]:
        """All carriers without a banned token: those of the genre first, each genre shuffled."""
        texts = [
            text
            for name in self.genres
            for text in self.shuffled(self.voice.genres[name].sentences)
        ]
        return self.allowed(texts)

    def allowed(self, texts: Sequence[str]) -> list[Carrier]:
        """Measure carriers and leave out those with a banned token."""
        found = []
        for text in texts:
            if text not in self.measured:
                plain = text.replace("{}", self.voice.pronoun)
                tokens = self.extractor.tokens(plain)
                length = n_words(text.replace("{}", " "))
                self.measured[text] = (frozenset(tokens), Carrier(text, len(tokens), length))
            tokens_held, carrier = self.measured[text]
            if not tokens_held & self.banned:
                found.append(carrier)
        return found

    def shuffled(self, items: Sequence[str]) -> list[str]:
        """Give the items in random order."""
        return [items[i] for i in self.random.permutation(len(items)).tolist()]

    def density(self, least: float = 1.0) -> float:
        """Give the words that carriers spend on one content token, at least `least`."""
        size = sum(carrier.size for carrier in self.carriers)
        return max(least, sum(carrier.length for carrier in self.carriers) / max(size, 1))

    def fillers(self, size: float) -> list[Carrier]:
        """Choose carriers with `size` content tokens together, as nearly as whole ones can."""
        chosen, total = [], 0
        for carrier in self.carriers:
            if abs(total + carrier.size - size) < abs(total - size):
                chosen.append(carrier)
                total += carrier.size
        return chosen

    def turns(self, words: Sequence[Word]) -> Iterator[Word]:
        """Give every word once in random order, then every word in another order, and so on."""
        while words:
            for i in self.random.permutation(len(words)).tolist():
                yield words[i]

    def taken(self, words: Sequence[Word], size: float) -> list[str]:
        """Take words in turn until they have `size` content tokens, as nearly as possible."""
        chosen: list[str] = []
        total = 0
        for word in self.turns(words):
            if total + word.size - size > size - total:
                break
            chosen.append(word.text)
            total += word.size
        return chosen

    def listed(self, words: Sequence[str]) -> str:
        """Write words as a list."""
        if len(words) < 2:
            return "".join(words)
        return self.voice.comma.join(words[:-1]) + self.voice.last + words[-1]

    def bare_lists(self, words: Sequence[str]) -> list[str]:
        """Write words as sentences that are only lists, of random length."""
        found, start = [], 0
        while start < len(words):
            end = start + int(self.random.integers(IN_LIST[0], IN_LIST[1] + 1))
            found.append(whole(self.listed(words[start:end]) + self.voice.stop))
            start = end
        return found

    def filled(self, carriers: Sequence[Carrier], words: Sequence[str]) -> list[str]:
        """Fill the slots of carriers evenly; what does not fit stands in bare lists among them.

        The first carrier stays first (it is a title); an empty slot gets the pronoun.
        """
        slots = sum(carrier.slots for carrier in carriers)
        inside = min(len(words), slots * IN_SLOT)
        shares = np.full(slots, inside // max(slots, 1))
        shares[self.random.permutation(slots)[: inside - int(shares.sum())]] += 1
        ends = np.cumsum(shares).tolist()
        parts = iter([words[a:b] for a, b in pairwise([0, *ends])])
        sentences = [self.sentence(carrier, parts) for carrier in carriers]
        for extra in self.bare_lists(words[inside:]):
            low = min(1, len(sentences))
            sentences.insert(int(self.random.integers(low, len(sentences) + 1)), extra)
        return sentences

    def sentence(self, carrier: Carrier, lists: Iterator[Sequence[str]]) -> str:
        """Fill the slots of one carrier."""
        pieces = carrier.text.split("{}")
        text = pieces[0]
        for piece in pieces[1:]:
            words = list(next(lists))
            held = self.voice.opening + self.listed(words) + self.voice.closing
            text += (held if words else self.voice.pronoun) + piece
        return whole(text)


def whole(text: str) -> str:
    """Begin a sentence with a capital letter where that is one of the plain alphabet's."""
    return text[:1].upper() + text[1:] if text[:1].isascii() else text
