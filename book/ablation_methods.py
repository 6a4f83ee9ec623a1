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
              encoded as one text, or averaged word by word; all its content tokens as one text
window        how many of similarity's best are re-ordered; those beyond keep their places
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from beir_methods import Remembered, behind, hybrid
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
WHOLE = "document, content words"

Floats = np.ndarray


class Scored(NamedTuple):
    """One setting's scores of the first n candidates; the others keep their places."""

    study: str
    setting: str
    method: str
    score: Floats


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
        """Interpolate with similarity."""
        return hybrid(base, self.causal, self.residual, weight)


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
        splits = [part.evidence.partition(i) for i in range(len(documents))]
        compared = self._compared(documents, splits)
        asked = unit(query_vector(query, self.encoder))

        def averaged(words: Sequence[Mapping[str, float]]) -> Floats:
            return np.array([cr.causal_score(asked, one, self.encoder) for one in words])

        vectors: dict[str, Floats] = {
            "centroid": part.causal,
            "unweighted centroid": averaged([dict.fromkeys(s.residual, 1.0) for s in splits]),
            "document without A, averaged": averaged(
                [Counter(text.split()) for text in compared["document without A"]]
            ),
        }
        for setting, made in compared.items():
            vectors[setting] = dot(unit(self.encoder.encode(made, "document")), asked)
        whole = vectors.pop(WHOLE)
        for setting, score in vectors.items():
            yield Scored("vector of B", setting, "causal", behind(score, part.residual))
        yield Scored("vector of B", WHOLE, "similarity", whole)

    def texts(self, query: str, documents: Sequence[Any]) -> list[str]:
        """Give all texts that the study of the vector encodes for a query."""
        part = self._part(query, documents, np.zeros(len(documents)), self.tfidf)
        splits = [part.evidence.partition(i) for i in range(len(documents))]
        return list(chain.from_iterable(self._compared(documents, splits).values()))

    def _compared(self, documents: Sequence[Any], splits: Sequence[Any]) -> dict[str, list[str]]:
        """Give what is encoded as one text for each document, by setting."""
        tokens = [self.tfidf.tokens(text) for text in read_documents(documents).texts]
        bare = [
            [token for token in own if token not in split.shared]
            for own, split in zip(tokens, splits, strict=True)
        ]
        made = {
            "B as one text": [split.residual for split in splits],
            "document without A": bare,
            WHOLE: tokens,
        }
        return {setting: [" ".join(words) for words in rows] for setting, rows in made.items()}

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


def _cut(keywords: Any, **tops: int) -> Remembered:
    other = copy.copy(keywords)
    for name, value in tops.items():
        setattr(other, name, value)
    return Remembered(other)
