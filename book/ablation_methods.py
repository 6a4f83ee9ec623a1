"""What is varied in the ablations, one thing at a time, the rest as in the paper (section 5 iii).

`Studies` scores one query's candidates under every setting. The settings describe the rule of the
paper on test data and choose nothing. Files, progress and measures are in `ablation_results`.

tau           absorption threshold; "auto" is the encoder's own, "exact" absorbs equal words only
weight        the hybrid's share of similarity; at 1 documents with an empty B still come last
keywords per document, keywords per query
              how many are kept
extractor     TF-IDF, TextRank, KeyBERT
|A| feature   similarity plus a weight times |A|, both min-max scaled over the candidates; |A| alone
vector of B   what is compared with the query: the weighted centroid (Eq. 4); the unweighted one;
              B's terms encoded as one text; the document's content tokens without those of A,
              encoded as one text; all its content tokens, nothing removed
window        how many of similarity's best are re-ordered; those beyond keep their places
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from provenance import SETTINGS

import causalrag as cr
from causalrag.adjust import DEFAULT, read_surface, with_support
from causalrag.documents import query_vector, read_documents
from causalrag.scores import minmax
from causalrag.vectors import dot, unit

TAUS: tuple[float | str, ...] = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, "exact", "auto")
WEIGHTS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
PER_DOCUMENT, PER_QUERY = (5, 10, 15, 20, 30, 50), (3, 5, 10, 20)
FEATURE = (-1.0, -0.5, -0.25, 0.25, 0.5, 1.0)
WINDOWS = (10, 20, 50, 100)
USUAL_WINDOW = 20

Floats = np.ndarray


class Scored(NamedTuple):
    """One setting's scores of the first n candidates; the others keep their places."""

    study: str
    setting: str
    method: str
    score: Floats


class Remembered:
    """An extractor that reads each text once."""

    def __init__(self, extractor: Any) -> None:
        self.extractor = extractor
        self.tokens, self.idf = extractor.tokens, extractor.idf
        self.repetition = getattr(extractor, "repetition", ())
        self.known: dict[tuple[str, str], Any] = {}

    def document(self, text: str) -> Any:
        """Extract from a document, or remember."""
        return self._get("document", text)

    def query(self, text: str) -> Any:
        """Extract from a query, or remember."""
        return self._get("query", text)

    def _get(self, role: str, text: str) -> Any:
        if (role, text) not in self.known:
            self.known[role, text] = getattr(self.extractor, role)(text)
        return self.known[role, text]


@dataclass(frozen=True)
class Part:
    """The causal side of some candidates under one setting."""

    causal: Floats
    residual: Floats  # which candidates have a B
    evidence: Any

    def first(self, n: int) -> Part:
        """Keep the first n candidates."""
        return Part(self.causal[:n], self.residual[:n], self.evidence)

    @property
    def by_causal(self) -> Floats:
        """The causal score, an empty B behind all others."""
        return behind(self.causal, self.residual)

    def by_hybrid(self, base: Floats, weight: float) -> Floats:
        """Interpolate with similarity, min-max over the candidates that have a B."""
        score = np.zeros(len(base))
        if self.residual.any():
            has = self.residual
            score[has] = cr.hybrid(base[has], self.causal[has], weight)
        return behind(score, self.residual)


def behind(score: Floats, residual: Floats) -> Floats:
    """Place candidates without a B after all others, as `rerank` does."""
    lowest = score[residual].min() if residual.any() else 0.0
    return np.where(residual, score, lowest - 1.0)


class Studies:
    """Every setting, on one collection with one encoder.

    Parameters
    ----------
    keywords : TfidfKeywords
        Fitted on the collection.
    encoder : EmbeddingCache
        Encodes.
    windows : sequence of int
        What the study of the window takes; empty leaves it out.
    extractors : mapping of str to extractor, optional
        What stands beside TF-IDF; by default TextRank and KeyBERT.
    """

    def __init__(
        self,
        keywords: Any,
        encoder: Any,
        windows: Sequence[int] = WINDOWS,
        extractors: Mapping[str, Any] | None = None,
    ) -> None:
        self.encoder, self.windows = encoder, tuple(windows)
        self.tfidf = Remembered(keywords)
        self.per_document = {n: _cut(keywords, top_document=n) for n in PER_DOCUMENT}
        self.per_query = {n: _cut(keywords, top_query=n) for n in PER_QUERY}
        if extractors is None:
            tops = {key: SETTINGS[key] for key in ("top_document", "top_query")}
            extractors = {
                "TextRank": cr.TextRankKeywords(**tops),
                "KeyBERT": cr.KeyBertKeywords(encoder, **tops),
            }
        self.extractors = {name: Remembered(one) for name, one in extractors.items()}
        self.rerankers: dict[Any, Any] = {}

    def terms(self, queries: Sequence[str], documents: Sequence[Any]) -> list[str]:
        """Give all terms that will be encoded, sorted: the cache takes them in one call."""
        texts = read_documents(documents).texts
        extractors = [self.tfidf, *self.per_document.values(), *self.per_query.values()]
        found: set[str] = set()
        # KeyBERT takes words out of the text, which come below; its own look-up is not cheap.
        extractors += [one for name, one in self.extractors.items() if name != "KeyBERT"]
        for extractor in extractors:
            found.update(chain.from_iterable(map(extractor.document, texts)))
            found.update(chain.from_iterable(map(extractor.query, queries)))
        found.update(chain.from_iterable(map(self.tfidf.tokens, [*texts, *queries])))
        return sorted(found)

    def score(self, query: str, documents: Sequence[Any], base: Floats) -> Iterator[Scored]:
        """Score a query's candidates, similarity's best first, under every setting."""
        usual = documents[:USUAL_WINDOW]
        whole = self._part(query, documents, base, self.tfidf)
        part, cosine = whole.first(len(usual)), base[: len(usual)]
        yield Scored("baseline", "", "similarity", cosine)
        yield Scored("baseline", "", "causal", part.by_causal)
        yield Scored("baseline", "", "hybrid", part.by_hybrid(cosine, SETTINGS["weight"]))
        yield from self._taus(query, usual, cosine)
        for weight in WEIGHTS:
            yield Scored("weight", f"{weight:g}", "hybrid", part.by_hybrid(cosine, weight))
        yield from self._keywords(query, usual, cosine)
        yield from self._feature(part, cosine)
        yield from self._vectors(query, usual, part)
        for n in self.windows:
            seen, near = base[:n], whole.first(n)
            texts = read_documents(documents[:n]).texts
            surface = read_surface(query, texts, self.tfidf)
            surface = with_support(surface, near.causal, near.residual)
            adjusted = DEFAULT.scores(seen, surface)
            yield Scored("window", f"{n}", "causal", near.by_causal)
            yield Scored("window", f"{n}", "hybrid", near.by_hybrid(seen, SETTINGS["weight"]))
            yield Scored("window", f"{n}", "adjusted", adjusted)

    def _taus(self, query: str, documents: Sequence[Any], base: Floats) -> Iterator[Scored]:
        for tau in TAUS:
            exact = tau == "exact"
            part = self._part(
                query,
                documents,
                base,
                self.tfidf,
                tau=SETTINGS["tau"] if exact else tau,
                absorption="exact" if exact else "semantic",
            )
            yield Scored("tau", str(tau), "causal", part.by_causal)
            yield Scored("tau", str(tau), "hybrid", part.by_hybrid(base, SETTINGS["weight"]))

    def _keywords(self, query: str, documents: Sequence[Any], base: Floats) -> Iterator[Scored]:
        studies: list[tuple[str, Mapping[Any, Remembered]]] = [
            ("keywords per document", self.per_document),
            ("keywords per query", self.per_query),
            ("extractor", {"TF-IDF": self.tfidf, **self.extractors}),
        ]
        for study, settings in studies:
            for setting, extractor in settings.items():
                part = self._part(query, documents, base, extractor)
                yield Scored(study, str(setting), "causal", part.by_causal)
                yield Scored(
                    study, str(setting), "hybrid", part.by_hybrid(base, SETTINGS["weight"])
                )

    def _feature(self, part: Part, base: Floats) -> Iterator[Scored]:
        size = [float(len(part.evidence.partition(i).shared)) for i in range(len(base))]
        shared = minmax(np.array(size))
        for weight in FEATURE:
            score = minmax(base) + weight * shared
            yield Scored("|A| feature", f"{weight:+g}", "similarity and |A|", score)
        yield Scored("|A| feature", "most", "|A| alone", shared)
        yield Scored("|A| feature", "fewest", "|A| alone", -shared)

    def _vectors(self, query: str, documents: Sequence[Any], part: Part) -> Iterator[Scored]:
        texts = read_documents(documents).texts
        splits = [part.evidence.partition(i) for i in range(len(texts))]
        tokens = [self.tfidf.tokens(text) for text in texts]
        bare = [
            " ".join(t for t in own if t not in split.shared)
            for own, split in zip(tokens, splits, strict=True)
        ]
        asked = unit(query_vector(query, self.encoder))

        def cosines(made: Sequence[str]) -> Floats:
            return dot(unit(self.encoder.encode(list(made), "document")), asked)

        equal = [
            cr.causal_score(asked, dict.fromkeys(split.residual, 1.0), self.encoder)
            for split in splits
        ]
        vectors: dict[str, Floats] = {
            "centroid": part.causal,
            "unweighted centroid": np.array(equal),
            "B as one text": cosines([" ".join(split.residual) for split in splits]),
            "document without A": cosines(bare),
        }
        for setting, score in vectors.items():
            yield Scored("vector of B", setting, "causal", behind(score, part.residual))
        whole = cosines([" ".join(own) for own in tokens])
        yield Scored("vector of B", "document, content words", "similarity", whole)

    def texts(self, query: str, documents: Sequence[Any]) -> list[str]:
        """Give all texts that the study of the vector encodes for a query."""
        found: list[str] = []
        catch = copy.copy(self)
        catch.encoder = _Catching(self.encoder, found.extend)
        part = self._part(query, documents, np.zeros(len(documents)), self.tfidf)
        for _ in catch._vectors(query, documents, part):
            pass
        return found

    def _part(
        self, query: str, documents: Sequence[Any], base: Floats, extractor: Any, **rule: Any
    ) -> Part:
        key = (id(extractor), *rule.items())
        if key not in self.rerankers:
            self.rerankers[key] = cr.CausalReranker(
                self.encoder, extractor, **{"tau": SETTINGS["tau"], "method": "causal"} | rule
            )
        outcome = self.rerankers[key].rank(query, documents, base).outcome
        evidence = outcome.evidence
        return Part(np.array(evidence.causal), np.array(evidence.has_residual), evidence)


class _Catching:
    """Stands for an encoder where only the documents that it would be given are wanted."""

    def __init__(self, encoder: Any, catch: Callable[[list[str]], object]) -> None:
        self.encoder, self.catch = encoder, catch
        self.name, self.dimension = encoder.name, encoder.dimension
        self.fingerprint = encoder.fingerprint

    def encode(self, texts: Sequence[str], role: str = "document") -> Floats:
        """Encode terms and queries; of documents only take note."""
        if role != "document":
            return np.asarray(self.encoder.encode(texts, role))
        self.catch(list(texts))
        return np.ones((len(texts), self.dimension), dtype=np.float32)


def _cut(keywords: Any, **tops: int) -> Remembered:
    other = copy.copy(keywords)
    for name, value in tops.items():
        setattr(other, name, value)
    return Remembered(other)
