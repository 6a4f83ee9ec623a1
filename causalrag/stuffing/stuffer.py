"""`Stuffer` holds a collection and an extractor and writes stuffed documents for any query."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from functools import cached_property
from typing import Any

from causalrag.documents import check_query
from causalrag.encoders import load_encoder
from causalrag.keywords.base import KeywordExtractor, Keywords, as_extractor
from causalrag.stuffing.attacks import MIN_HOST, WRITERS, Draft
from causalrag.stuffing.base import Stuffed, check_request, digest, generator, language
from causalrag.stuffing.carriers import VOICES
from causalrag.stuffing.source import Source
from causalrag.stuffing.writing import Carrier, Desk, Word

__all__ = ["Stuffer", "stuff"]

# Near terms of each keyword, and of all keywords together: so many that each is said once or twice.
NEAR_EACH, NEAR_ALL = 8, 48
# Off-topic documents that one diluted text may draw on.
HOSTS = 5
# Drafts before two documents of one query may be equal: only a text of one word comes near that.
DRAFTS = 100


class Stuffer:
    """Write documents that attract a query without answering it.

    Parameters
    ----------
    keywords : extractor
        Fitted. Its ``query(text)`` gives the words that are stuffed, its ``tokens(text)`` says what
        counts as a content token, its ``idf(term)`` weighs neighbours.
    collection : iterable of documents, optional
        As in `CausalReranker.rank`. Needed by splice, synonyms, titles, dilution and neighbours;
        read and indexed once, at first use.
    encoder : Encoder, name, folder or object with ``encode``, optional
        Needed by synonyms; the terms of the collection are encoded once.

    Raises
    ------
    TypeError, ValueError
        As `as_extractor`, `read_documents` and `load_encoder`.

    Examples
    --------
    >>> import causalrag as cr
    >>> keywords = cr.TfidfKeywords.fit(["Yeast makes gas.", "Flour and water."])
    >>> [page] = Stuffer(keywords).stuff("Why does yeast make gas?", "repetition", 1)
    >>> page.attack, "yeast" in page.text, len(page.text.split()) > 50
    ('repetition', True, True)
    """

    def __init__(
        self,
        keywords: KeywordExtractor,
        collection: Iterable[Any] | None = None,
        encoder: object = None,
    ) -> None:
        self.extractor = as_extractor(keywords)
        self._keywords = keywords
        self._collection = None if collection is None else tuple(_listed(collection))
        self.encoder = None if encoder is None else load_encoder(encoder)
        self._measured: dict[str, dict[str, tuple[frozenset[str], Carrier]]] = {}

    @cached_property
    def source(self) -> Source:
        """The collection's index."""
        return Source(self._collection or (), self._keywords)

    def stuff(
        self,
        query: str,
        attack: str,
        n: int,
        *,
        strength: float = 0.5,
        seed: int = 0,
        exclude: Collection[Hashable] = (),
        lang: str | None = None,
    ) -> tuple[Stuffed, ...]:
        """Write n documents for one query; see `stuff`."""
        count, strength, seed = check_request(attack, n, strength, seed, lang)
        lang = lang or language(check_query(query))
        if isinstance(exclude, str):
            raise TypeError(f"exclude must be a collection of ids, got the str {exclude!r}")
        self._check_needs(attack)
        words = self._words(query)
        if attack == "neighbours":
            return self._neighbours(words, count, strength, exclude)
        written: list[Stuffed] = []
        name = digest(seed, attack, query, strength, lang)[:10]
        drafts = self._drafts(query, attack, words, strength, seed, exclude, lang)
        seen: set[tuple[str, str]] = set()
        for number in range(count):
            for attempt in range(DRAFTS):
                title, text = WRITERS[attack](drafts(number, attempt))
                if (title, text) not in seen:
                    break
            else:
                raise ValueError(
                    f"only {number} different documents could be written for {query!r:.60} by "
                    f"{attack!r} at strength {strength}, asked for {count}; ask for fewer, or for "
                    "another strength"
                )
            seen.add((title, text))
            written.append(Stuffed(f"{attack}-{name}-{number}", title, text, attack, strength))
        return tuple(written)

    def _check_needs(self, attack: str) -> None:
        if attack not in ("repetition", "echo") and not self._collection:
            raise ValueError(
                f"attack {attack!r} takes texts or terms from a collection, and there is none; "
                "give collection=documents"
            )
        if attack == "synonyms" and self.encoder is None:
            raise ValueError("attack 'synonyms' looks for near terms; give encoder=, such as 'use'")

    def _words(self, query: str) -> list[Word]:
        """Read the query's keywords, heaviest first, each with its number of content tokens."""
        found = Keywords(self.extractor.query(query))
        words = [Word(term, len(self.extractor.tokens(term))) for term in found]
        if not any(word.size for word in words):
            raise ValueError(
                f"query {query!r:.80} has no keywords; ask with at least one content word"
            )
        return [word for word in words if word.size]

    def _tokens(self, words: Sequence[Word]) -> list[str]:
        """Give the distinct content tokens of some words, in order."""
        return list(dict.fromkeys(t for word in words for t in self.extractor.tokens(word.text)))

    def _neighbours(
        self, words: Sequence[Word], count: int, strength: float, exclude: Collection[Hashable]
    ) -> tuple[Stuffed, ...]:
        """Take what the collection holds: as many as asked for, or all there are."""
        weights = {token: self.extractor.idf(token) for token in self._tokens(words)}
        found = self.source.neighbours(weights, exclude)
        return tuple(
            Stuffed(self.source.ids[i], *self.source.parts[i], "neighbours", strength)
            for i in found[:count]
        )

    def _drafts(
        self,
        query: str,
        attack: str,
        words: Sequence[Word],
        strength: float,
        seed: int,
        exclude: Collection[Hashable],
        lang: str,
    ) -> Callable[[int, int], Draft]:
        """Give what makes a `Draft` out of a document's number and attempt."""
        voice, banned = VOICES[lang], frozenset(self._tokens(words))
        if attack == "echo":
            banned |= frozenset(self.extractor.tokens(query))
        if attack == "synonyms":
            words = self._near(query, words, lang)
            banned |= frozenset(self._tokens(words))
        # The query's own generator deals genres and hosts, so that its documents differ.
        dealer = generator(seed, attack, query)
        genres = [list(voice.genres)[i] for i in dealer.permutation(len(voice.genres)).tolist()]
        hosts = self._hosts(query, attack, words, exclude, lang) if attack in MIN_HOST else []
        hosts = [hosts[i] for i in dealer.permutation(len(hosts)).tolist()]
        measured = self._measured.setdefault(lang, {})

        def draft(number: int, attempt: int) -> Draft:
            desk = Desk(
                voice,
                self.extractor,
                banned,
                generator(seed, attack, query, number, attempt),
                _turned(genres, number),
                measured,
            )
            own = _turned(hosts, number)[:HOSTS]
            return Draft(query, words, strength, desk, self.source if hosts else None, own)

        return draft

    def _hosts(
        self,
        query: str,
        attack: str,
        words: Sequence[Word],
        exclude: Collection[Hashable],
        lang: str,
    ) -> list[int]:
        found = self.source.off_topic(self._tokens(words), exclude, lang, MIN_HOST[attack])
        if not found:
            raise ValueError(
                f"no document of the collection is off topic: each is excluded or holds a keyword "
                f"of {query!r:.60}; for attack {attack!r} give a larger collection"
            )
        return found

    def _near(self, query: str, words: Sequence[Word], lang: str) -> list[Word]:
        """Find the near terms of all keywords, one of each keyword in turn."""
        assert self.encoder is not None
        each = max(NEAR_EACH, -(-NEAR_ALL // len(words)))
        texts = [word.text for word in words]
        columns = self.source.near_terms(texts, self.encoder, lang, each)
        own = set(self._tokens(words))
        rows = [column[at] for at in range(each) for column in columns if at < len(column)]
        near = [Word(term, len(self.extractor.tokens(term))) for term in dict.fromkeys(rows)]
        near = [word for word in near if word.size and not own & set(self._tokens([word]))]
        if not near:
            raise ValueError(
                f"the collection has no term besides the keywords of {query!r:.60}; "
                "give a larger collection"
            )
        return near


def stuff(
    query: str,
    attack: str,
    n: int,
    *,
    keywords: KeywordExtractor,
    strength: float = 0.5,
    seed: int = 0,
    collection: Iterable[Any] | None = None,
    encoder: object = None,
    exclude: Collection[Hashable] = (),
    lang: str | None = None,
) -> tuple[Stuffed, ...]:
    """Write documents that attract a query without answering it.

    Parameters
    ----------
    query : str
        What they attract.
    attack : str
        One of `ATTACKS`.
    n : int
        How many. ``stuff(..., n=5)`` gives the first five of ``stuff(..., n=15)``.
    keywords, collection, encoder
        As in `Stuffer`, which reads a collection once for many queries.
    strength : float
        In [0, 1]. Over title and text, the share of content tokens that are query keywords
        (repetition, splice), near terms (synonyms), content tokens of the query (echo); a fifth of
        it is that of query keywords for dilution; the share of the query's keywords that stand in
        title and headings (titles). No effect on neighbours.
    seed : int
        Another seed gives other texts.
    exclude : collection of ids
        Documents of the collection that are never used, such as the relevant ones, the query's own
        and those that it is ranked against already. A str is refused.
    lang : {"en", "zh"}, optional
        Language of the carriers; by default the query's, by its script.

    Returns
    -------
    tuple of Stuffed
        n documents of different text; of neighbours as many as the collection has, if these are
        fewer. The same arguments give the same bytes, in any process.

    Raises
    ------
    TypeError
        If an argument is of an unusable type.
    ValueError
        If the attack or language is unknown; n is negative; strength is outside [0, 1]; the query
        is blank or has no keywords; a needed collection or encoder is missing; no document is off
        topic; n different texts cannot be written.
    """
    stuffer = Stuffer(keywords, collection, encoder)
    return stuffer.stuff(query, attack, n, strength=strength, seed=seed, exclude=exclude, lang=lang)


def _listed(collection: Iterable[Any]) -> Iterable[Any]:
    """Refuse one document where several are taken, as `read_documents` does."""
    if isinstance(collection, str | bytes | dict) or not isinstance(collection, Iterable):
        raise TypeError(
            f"collection must be a list of documents, not one {type(collection).__name__}"
        )
    return collection


def _turned(items: Sequence[Any], by: int) -> list[Any]:
    """Begin a sequence elsewhere."""
    at = by % len(items) if items else 0
    return [*items[at:], *items[:at]]
