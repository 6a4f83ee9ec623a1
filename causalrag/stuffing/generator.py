"""Generate stuffed documents: seeded, pure, nested.

A document depends on the seed, the attack, the query, its number and the arguments, and on nothing
else: not on what was generated before it, the hash seed or the process. So the first five of
fifteen are the five one gets when asking for five.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import cycle, islice
from numbers import Real
from typing import Any

import numpy as np

from causalrag.documents import check_query, joined, read_documents
from causalrag.encoders import load_encoder
from causalrag.keywords.base import FullExtractor, KeywordExtractor, as_extractor
from causalrag.stuffing.carriers import CARRIERS, Carriers

__all__ = ["ATTACKS", "THREATS", "Stuffed", "Stuffer", "stuff"]

THREATS: Mapping[str, str] = {
    "repetition": "A page written for search: the query's keywords over and over, in sentences "
    "that say nothing.",
    "splice": "A real page on something else into which the keywords were inserted between "
    "sentences, as hidden text or comment spam.",
    "echo": "A page that repeats the question itself and does not answer it: a forum thread, a "
    "call for papers, a prompt planted for retrieval.",
    "synonyms": "A page that circles around the query in near words, so that counting the query's "
    "own words, or absorbing near ones above a threshold, finds little.",
    "titles": "A page whose title and headings promise the subject while the body is about "
    "something else.",
    "dilution": "A long real page into which each keyword was scattered a few times, too thin for "
    "a rule that looks at density.",
    "neighbours": "No attack at all: natural documents of a neighbouring subject that share the "
    "most words with the query and do not answer it.",
}
ATTACKS = tuple(THREATS)

# Content tokens of a generated document, title included; a diluted one has DILUTED times as many.
LENGTH, DILUTED = 70, 2.5
# A diluted document's keywords make up this share of the strength.
THIN = 0.2
# Near words of each keyword that synonyms rotate through, and in how many documents they must
# occur.
NEAR_WORDS, COMMON = 8, 3
WORDS_AT_ONCE = 3  # keywords in one slot
SLACK = 0.05  # below the strength by this much, keywords are listed without a sentence around them
SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])")
HAN = re.compile(r"[\u3400-\u9fff]")


@dataclass(frozen=True)
class Stuffed:
    """A document that attracts a query without answering it.

    Can be ranked as it is (`CausalReranker.rank` reads its id, title and text).

    Attributes
    ----------
    id : str
        Says attack and number; the collection's own id under "neighbours".
    title, text : str
        As a document's.
    attack : str
        One of `ATTACKS`.
    strength : float
        As asked for.
    """

    id: str
    title: str
    text: str
    attack: str
    strength: float

    @property
    def full_text(self) -> str:
        """Title and text, as `CausalReranker.rank` reads them."""
        return joined((self.title, self.text))


def stuff(
    query: str,
    attack: str,
    n: int,
    *,
    keywords: KeywordExtractor,
    strength: float = 0.5,
    seed: int = 0,
    collection: Iterable[Any] | None = None,
    encoder: Any = None,
    exclude: Collection[str] = (),
    lang: str | None = None,
) -> tuple[Stuffed, ...]:
    """Make n documents that attract one query; for many queries keep a `Stuffer`.

    Parameters
    ----------
    query : str
        Text with keywords.
    attack : str
        One of `ATTACKS`.
    n : int
        How many, at least 0.
    keywords : extractor
        Its query keywords are stuffed; its tokens are counted. Fitted on the collection, say.
    strength, seed, exclude, lang
        See `Stuffer.stuff`.
    collection : iterable of documents, optional
        What is spliced, diluted, titled, or neighbouring, and whose words are near ones.
    encoder : object that `load_encoder` accepts, optional
        Says which words are near, for "synonyms".

    Returns
    -------
    tuple of Stuffed

    Raises
    ------
    ValueError, TypeError
        As `Stuffer.stuff`.
    """
    stuffer = Stuffer(keywords, () if collection is None else collection, encoder)
    return stuffer.stuff(query, attack, n, strength=strength, seed=seed, exclude=exclude, lang=lang)


class Stuffer:
    """Makes stuffed documents for the queries of one collection, which it reads once.

    Parameters
    ----------
    keywords : extractor
        As in `stuff`.
    collection : iterable of documents
        As in `CausalReranker.rank`; may be empty.
    encoder : object that `load_encoder` accepts, optional
        As in `stuff`.
    """

    def __init__(
        self, keywords: KeywordExtractor, collection: Iterable[Any] = (), encoder: Any = None
    ) -> None:
        self.keywords: FullExtractor = as_extractor(keywords)
        self.encoder = None if encoder is None else load_encoder(encoder)
        self._documents = read_documents(collection)
        self._near: dict[str, tuple[str, ...]] = {}

    def stuff(
        self,
        query: str,
        attack: str,
        n: int,
        *,
        strength: float = 0.5,
        seed: int = 0,
        exclude: Collection[str] = (),
        lang: str | None = None,
    ) -> tuple[Stuffed, ...]:
        """Make n documents that attract one query.

        Parameters
        ----------
        query, attack, n
            As in `stuff`.
        strength : float
            In [0, 1]. The share of content tokens that are query keywords ("repetition", "splice"),
            near words ("synonyms"), or five times it ("dilution"); the share of sentences that hold
            the query ("echo"); the share of the keywords that stand in title and headings
            ("titles"). The keywords of the title count. Reached within one slot's worth of words.
            Without effect on "neighbours".
        seed : int
            Another seed, other documents.
        exclude : collection of str
            Ids of documents never used, such as the relevant ones and the query's own.
        lang : {"en", "zh"}, optional
            Of carriers and spliced documents; None goes by the query's script.

        Returns
        -------
        tuple of Stuffed
            Different from each other. The first m are those that ``n=m`` gives. Neighbours come in
            the order of the idf of the query's tokens that they hold, ties in the collection's
            order; once no document is left that holds one, by that order alone.

        Raises
        ------
        ValueError
            If the attack or language is unknown, `n` is negative, `strength` outside [0, 1], the
            query is blank or has no keywords; if the attack needs an encoder or more documents than
            the collection has.
        """
        check_query(query)
        _check(attack, n, strength, lang)
        words = tuple(self.keywords.query(query))
        if not words:
            raise ValueError(f"the query {query!r:.60} has no keywords; nothing can be stuffed")
        spoken = lang or ("zh" if HAN.search(query) else "en")
        if attack == "neighbours":
            return self._neighbours(query, n, frozenset(exclude), strength)
        make: Callable[[_Draft], tuple[str, str]] = getattr(self, f"_{attack}")
        made = []
        for number in range(n):
            draft = _Draft(
                query,
                words,
                strength,
                spoken,
                frozenset(exclude),
                number,
                _generator(seed, attack, query, number),
            )
            title, text = make(draft)
            made.append(Stuffed(f"{attack}-{number}", title, text, attack, float(strength)))
        return tuple(made)

    # --- the attacks ---

    def _repetition(self, draft: _Draft) -> tuple[str, str]:
        return self._carried(draft, draft.in_turn(draft.words), draft.words)

    def _synonyms(self, draft: _Draft) -> tuple[str, str]:
        near = [self._near_words(word, draft) for word in draft.words]
        near = [words for words in near if words]
        if not near:
            raise ValueError(f"no word of the collection is near one of {draft.query!r:.60}")
        # Every keyword's words in turn, each list started elsewhere in each document.
        turned = [
            words[draft.number % len(words) :] + words[: draft.number % len(words)]
            for words in near
        ]
        rounds = [
            word for at in range(NEAR_WORDS) for words in turned for word in words[at : at + 1]
        ]
        return self._carried(draft, cycle(dict.fromkeys(rounds)), rounds)

    def _carried(
        self, draft: _Draft, words: Iterator[str], counted: Iterable[str]
    ) -> tuple[str, str]:
        """Fill carriers with words, and add plain sentences, so that their share is right."""
        said, share = draft.carriers, _Share(self.keywords, set(counted))
        plain, keyworded = draft.in_turn(said.plain), draft.in_turn(said.keyworded)

        def filled(carrier: str) -> str:
            slots = [list(islice(words, WORDS_AT_ONCE)) for _ in range(carrier.count("{}"))]
            return carrier.format(*map(said.between_words.join, slots))

        title = filled(next(draft.in_turn(said.titles))) if draft.strength else ""
        share.add(title)
        sentences: list[str] = []
        while share.tokens < LENGTH:
            sentence = next(plain)
            if share.value < draft.strength:
                # Where carriers say too much beside the keywords, a bare list makes up for it.
                behind = share.value < draft.strength - SLACK
                sentence = filled(said.listed if behind else next(keyworded))
            share.add(sentence)
            sentences.append(sentence)
        return title, said.between_sentences.join(sentences)

    def _splice(self, draft: _Draft) -> tuple[str, str]:
        title, body = self._off_topic(draft, LENGTH * (1 - draft.strength))
        return title, self._inserted(draft, title, body, draft.strength, 2 * WORDS_AT_ONCE)

    def _dilution(self, draft: _Draft) -> tuple[str, str]:
        title, body = self._off_topic(draft, LENGTH * DILUTED)
        pieces = [piece for sentence in body for piece in _clauses(sentence)]
        return title, self._inserted(draft, title, pieces, draft.strength * THIN, 1)

    def _inserted(
        self, draft: _Draft, title: str, pieces: Sequence[str], strength: float, at_once: int
    ) -> str:
        """Insert keywords after each piece until their share so far is right."""
        words, share = draft.in_turn(draft.words), _Share(self.keywords, set(draft.words))
        share.add(title)
        result = []
        for piece in pieces:
            share.add(piece)
            result.append(piece)
            while share.value < strength:
                inserted = draft.carriers.between_words.join(islice(words, at_once))
                share.add(inserted)
                result.append(inserted)
        return " ".join(result)

    def _echo(self, draft: _Draft) -> tuple[str, str]:
        said = draft.carriers
        questions, plain = draft.in_turn(said.questions), draft.in_turn(said.plain)
        asked, tokens = 0, 0
        sentences: list[str] = []
        while tokens < LENGTH:
            if asked < draft.strength * (len(sentences) + 1):
                sentence, asked = next(questions).format(draft.query), asked + 1
            else:
                sentence = next(plain)
            sentences.append(sentence)
            tokens += len(self.keywords.tokens(sentence))
        return "", said.between_sentences.join(sentences)

    def _titles(self, draft: _Draft) -> tuple[str, str]:
        said = draft.carriers
        count = round(draft.strength * len(draft.words))
        words = list(islice(draft.in_turn(draft.words), count))
        title, body = self._off_topic(draft, LENGTH)
        if not words:
            return title, " ".join(body)
        headings, named = draft.in_turn(said.headings), said.between_words.join(words)
        middle = (len(body) + 1) // 2
        parts = [next(headings).format(named), *body[:middle]]
        parts += [next(headings).format(named), *body[middle:]]
        return next(draft.in_turn(said.titles)).format(named), " ".join(parts)

    def _neighbours(
        self, query: str, n: int, exclude: frozenset[str], strength: float
    ) -> tuple[Stuffed, ...]:
        wanted = {token: self.keywords.idf(token) for token in self.keywords.tokens(query)}
        score = np.zeros(len(self._documents))
        for token, weight in wanted.items():
            score[self._postings.get(token, [])] += weight
        order = np.argsort(-score, kind="stable").tolist()
        found = [i for i in order if str(self._documents.ids[i]) not in exclude]
        if len(found) < n:
            raise ValueError(
                f"the collection has {len(found)} documents that may be neighbours of "
                f"{query!r:.60}, asked for {n}; give a larger collection, or a smaller n"
            )
        return tuple(
            Stuffed(
                str(self._documents.ids[i]),
                *_parts(self._documents.contents[i]),
                "neighbours",
                float(strength),
            )
            for i in found[:n]
        )

    # --- what the collection holds ---

    @cached_property
    def _tokens(self) -> list[list[str]]:
        return [self.keywords.tokens(text) for text in self._documents.texts]

    @cached_property
    def _postings(self) -> dict[str, list[int]]:
        """The documents that hold a token, by token."""
        found: dict[str, list[int]] = {}
        for index, tokens in enumerate(self._tokens):
            for token in dict.fromkeys(tokens):
                found.setdefault(token, []).append(index)
        return found

    def _off_topic(self, draft: _Draft, length: float) -> tuple[str, list[str]]:
        """Take sentences of documents without a keyword until they have `length` content tokens."""
        taken = {i for word in draft.words for i in self._postings.get(word, ())}
        title, tokens = None, 0
        sentences: list[str] = []
        for index in draft.random.permutation(len(self._documents)).tolist():
            text = self._documents.texts[index]
            usable = index not in taken and str(self._documents.ids[index]) not in draft.exclude
            if (
                not usable
                or not self._tokens[index]
                or bool(HAN.search(text)) != (draft.lang == "zh")
            ):
                continue
            own, body = _parts(self._documents.contents[index])
            title = own if title is None else title
            for sentence in filter(None, map(str.strip, SENTENCE_END.split(body))):
                sentences.append(sentence)
                tokens += len(self.keywords.tokens(sentence))
                if tokens >= length:
                    return title, sentences
        raise ValueError(
            f"the collection's {len(self._documents)} documents have too little text that shares "
            f"no keyword with {draft.query!r:.60}; this attack needs a larger collection"
        )

    def _near_words(self, word: str, draft: _Draft) -> tuple[str, ...]:
        if self.encoder is None:
            raise ValueError(
                'the attack "synonyms" needs an encoder that says which words are near'
            )
        if word not in self._near:
            terms, vectors = self._vocabulary
            cosines = vectors @ self.encoder.encode([word], "term")[0]
            order = np.argsort(-cosines, kind="stable")[: 4 * NEAR_WORDS].tolist()
            self._near[word] = tuple(terms[i] for i in order)
        known = set(draft.words)
        return tuple(term for term in self._near[word] if term not in known)[:NEAR_WORDS]

    @cached_property
    def _vocabulary(self) -> tuple[list[str], Any]:
        terms = sorted(
            term for term, found in self._postings.items() if len(found) >= COMMON and len(term) > 1
        )
        if not terms:
            raise ValueError(
                f'the attack "synonyms" takes its words from the collection, and none occurs in '
                f"{COMMON} of its {len(self._documents)} documents; give a larger collection"
            )
        assert self.encoder is not None  # for the type checker: `_near_words` has refused it
        return terms, self.encoder.encode(terms, "term")


@dataclass(frozen=True)
class _Draft:
    """What one document is made from."""

    query: str
    words: tuple[str, ...]
    strength: float
    lang: str
    exclude: frozenset[str]
    number: int
    random: np.random.Generator

    @property
    def carriers(self) -> Carriers:
        return CARRIERS[self.lang]

    def in_turn(self, items: Sequence[str]) -> Iterator[str]:
        """Give all items in random order, then all in another one, and so on."""
        while True:
            for place in self.random.permutation(len(items)).tolist():
                yield items[place]


class _Share:
    """Counts the share of some words among the content tokens so far."""

    def __init__(self, keywords: FullExtractor, words: set[str]) -> None:
        self.keywords, self.words = keywords, words
        self.tokens = self.wanted = 0

    def add(self, text: str) -> None:
        tokens = self.keywords.tokens(text)
        self.tokens += len(tokens)
        self.wanted += sum(token in self.words for token in tokens)

    @property
    def value(self) -> float:
        return self.wanted / max(1, self.tokens)


def _generator(*parts: object) -> np.random.Generator:
    digest = hashlib.sha256("\x1f".join(map(str, parts)).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "big"))


def _clauses(sentence: str) -> list[str]:
    """Split a sentence where a word may be inserted: every few words, or at its commas."""
    if HAN.search(sentence):
        return [piece for piece in re.split(r"(?<=[，、；])", sentence) if piece]
    words = sentence.split()
    return [" ".join(words[start : start + 4]) for start in range(0, len(words), 4)]


def _parts(content: str | tuple[str, str]) -> tuple[str, str]:
    return ("", content) if isinstance(content, str) else content


def _check(attack: str, n: int, strength: float, lang: str | None) -> None:
    if attack not in ATTACKS:
        raise ValueError(f"unknown attack {attack!r}; known: {', '.join(ATTACKS)}")
    if isinstance(n, bool) or not isinstance(n, int | np.integer):
        raise TypeError(f"n must be an integer, got {n!r}")
    if n < 0:
        raise ValueError(f"n is {n}; give at least 0")
    if not isinstance(strength, Real) or isinstance(strength, bool):
        raise TypeError(f"strength must be a number, not {type(strength).__name__}")
    if not 0 <= float(strength) <= 1:
        raise ValueError(f"strength is {strength}; it is a share in [0, 1]")
    if lang is not None and lang not in CARRIERS:
        raise ValueError(f"unknown lang {lang!r}; known: {', '.join(CARRIERS)}")
