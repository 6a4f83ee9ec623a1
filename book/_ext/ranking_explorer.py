"""The ranking explorer: one document's A and B, its scores, and where each method puts it.

`explorer_data` ranks every theme of two corpora with `causalrag.CausalReranker.rank` under each
method and threshold, and keeps the orders, the scores and the partitions. The page's script looks
them up; it splits no text and computes no score. `token_spans` says where the library's tokens
stand in a text, which the library itself does not keep.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from page_parts import embed
from sphinx.util.docutils import SphinxDirective

import causalrag as cr
from causalrag import calibrate, datasets, text
from causalrag.encoders import encode_terms

if TYPE_CHECKING:
    from docutils.nodes import Node
    from sphinx.application import Sphinx

    from causalrag.datasets import Document, Theme
    from causalrag.encoders import EncoderAdapter
    from causalrag.ranking import Ranked, Ranking

ENCODER = "use"
CORPORA = {"diagnostic": "diagnostic corpus", "second": "second corpus"}
"""The corpora of the book's Evidence part, with all their themes; how the page calls them."""

TAUS = {
    "exact": "equal words only",
    **{key: key for key in ("0.4", "0.5", "0.6", "0.7", "0.8")},
    "auto": "auto",
}
METHODS = {
    "similarity": "similarity",
    "causal": "causal",
    "causal_fallback": "causal, with fallback",
    "hybrid": "hybrid, half and half",
    "adjusted": "adjusted (ours)",
}
FIRST = {"corpus": "diagnostic", "theme": "T1", "tau": "0.6", "method": "causal"}
NEAREST = 6
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


# -- where tokens stand --------------------------------------------------------------------------


class Span(NamedTuple):
    """A token and the characters of the original text that it was read from."""

    token: str
    start: int
    end: int


def token_spans(original: str) -> list[Span]:
    """Find the library's tokens in a text.

    Parameters
    ----------
    original : str
        A text as a corpus has it.

    Returns
    -------
    list of Span
        In order, not overlapping; their tokens are `causalrag.text.tokenize` of the text. A
        negated word spans from the negator to the word.

    Raises
    ------
    ValueError
        If the tokens found are not the library's: then its tokeniser has changed.
    """
    plain = text.normalise(original).translate(text._VARIANTS)
    places = [place for place, character in enumerate(original) for _ in _lone_spelling(character)]
    if len(places) != len(plain):
        raise ValueError(f"cannot follow the characters of {original!r:.60}")
    spans = [
        Span(token, places[start], places[end - 1] + 1) for token, start, end in _plain_spans(plain)
    ]
    if [span.token for span in spans] != text.tokenize(original):
        raise ValueError(f"these are not the library's tokens of {original!r:.60}")
    return spans


def _lone_spelling(character: str) -> str:
    """Spell one character as `text.normalise` does before it simplifies, which keeps lengths."""
    visible = text._INVISIBLE.sub("", unicodedata.normalize("NFKC", character))
    return unicodedata.normalize("NFKC", visible.casefold())


def _plain_spans(plain: str) -> Iterator[Span]:
    for match in text._TOKEN.finditer(plain):
        start = match.start()
        if match["han"]:
            yield from _han_spans(match["han"], start)
        elif match["run"]:
            yield from _run_spans(match["run"], start)
        else:
            yield Span(text.tokenize(match[0])[0], start, match.end())


def _run_spans(run: str, start: int) -> Iterator[Span]:
    parts = [Span(part[0], *part.span()) for part in re.finditer(r"[^-/_&.]+", run)]
    parts.insert(0, Span(run, 0, len(run)))
    cursor = 0
    for token in text._run_tokens(run):
        found = next(
            part
            for part in parts
            if part.start >= cursor and part.token.removesuffix("'s") == token
        )
        yield Span(token, start + found.start, start + found.start + len(token))
        cursor = found.end


def _han_spans(run: str, start: int) -> Iterator[Span]:
    """Do as `text._han_tokens`, with places."""
    places, last = [], 0
    for match in text._A_NOT_A.finditer(run):
        places += range(last, match.start())
        places += range(match.end() - len(match[1]), match.end())
        last = match.end()
    places += range(last, len(run))
    cursor, negator = 0, None
    for word in text._segment(text._A_NOT_A.sub(r"\1", run)):
        here = Span(word, start + places[cursor], start + places[cursor + len(word) - 1] + 1)
        cursor += len(word)
        if word in text._NEGATORS:
            if negator:
                yield negator
            negator = here._replace(token=text._NEGATORS[word])
        elif negator and word in text._DEGREES:
            continue
        elif word in text.stop_words("zh") or text._HAN_NUMBER.fullmatch(word):
            if negator:
                yield negator
            negator = None
        else:
            yield Span(negator.token + word, negator.start, here.end) if negator else here
            negator = None
    if negator:
        yield negator


# -- what the page looks up ----------------------------------------------------------------------


def explorer_data() -> dict[str, Any]:
    """Rank every theme of `CORPORA` under every method and threshold.

    Returns
    -------
    dict
        ``taus``, ``methods`` and ``corpora``: names and what the page calls them. ``themes``: per
        corpus and theme see `theme_data`. Scores, weights and cosines are in thousandths.
    """
    encoder = cr.load_encoder(ENCODER)
    return {
        "first": FIRST,
        "taus": TAUS,
        "methods": METHODS,
        "corpora": CORPORA,
        "themes": {name: corpus_data(name, encoder) for name in CORPORA},
    }


def corpus_data(name: str, encoder: EncoderAdapter) -> dict[str, Any]:
    """Give `theme_data` for each theme of a packaged corpus."""
    corpus = getattr(datasets, name)()
    keywords = cr.TfidfKeywords.fit(corpus.texts, top_document=15, top_query=10)
    rerankers = {
        (method, tau): reranker(encoder, keywords, method, tau)
        for method in METHODS
        for tau in TAUS
    }
    return {theme.theme: theme_data(theme, rerankers) for theme in corpus.themes}


def reranker(
    encoder: EncoderAdapter, keywords: cr.TfidfKeywords, method: str, tau: str
) -> cr.CausalReranker:
    """Make the library's re-ranker for a method and a key of `TAUS`."""
    if tau == "exact":
        return cr.CausalReranker(encoder, keywords, absorption="exact", method=method)
    value = tau if tau == "auto" else float(tau)
    return cr.CausalReranker(encoder, keywords, tau=value, method=method)


def theme_data(theme: Theme, rerankers: dict[tuple[str, str], cr.CausalReranker]) -> dict[str, Any]:
    """Rank one theme in every way.

    Returns
    -------
    dict
        ``terms``: the theme's terms, named by their place in this list below. ``asked``: the
        query's keywords. ``documents``: see `document_data`. ``order``: per method and threshold,
        one character per place that says which document stands there (`DIGITS`); "similarity" has
        no threshold. ``score``: the scores of "hybrid" and "adjusted", likewise, by document.
    """
    candidates = theme.documents
    similarity = rerankers["similarity", "exact"].rank(theme.query, candidates)
    # The first stage reads no threshold, so its scores are computed once and handed on.
    base = similarity.outcome.base
    found = {
        key: reranker.rank(theme.query, candidates, scores=base)
        for key, reranker in rerankers.items()
        if key[0] != "similarity"
    }
    splits = {tau: {one.index: one for one in found["causal", tau]} for tau in TAUS}
    extractor = rerankers["causal", "exact"].keywords
    assert extractor is not None
    asked = list(extractor.query(theme.query))
    words = {one.index: list(extractor.document(one.text)) for one in similarity}
    terms = list(dict.fromkeys([*asked, *(term for n in sorted(words) for term in words[n])]))
    encoder = rerankers["causal", "exact"].encoder
    near = Nearest(terms, encoder)
    return {
        "lang": theme.lang,
        "subject": theme.extra.get("subject", ""),
        "query": theme.query,
        "gloss": theme.extra.get("gloss", ""),
        "auto": cr.evaluate.half_up(
            calibrate.tau_for(encoder, lang=calibrate.language(theme.query)), 2
        ),
        "terms": terms,
        "asked": [near.place[term] for term in asked],
        "documents": [
            document_data(document, [splits[tau][index] for tau in TAUS], near)
            for index, document in enumerate(candidates)
        ],
        "order": {"similarity": _order(similarity)}
        | {
            method: [_order(found[method, tau]) for tau in TAUS]
            for method in METHODS
            if method != "similarity"
        },
        "score": {
            method: [[thousandths(x) for x in found[method, tau].outcome.score] for tau in TAUS]
            for method in ("hybrid", "adjusted")
        },
    }


def document_data(document: Document, places: list[Ranked], near: Nearest) -> dict[str, Any]:
    """Say what the page shows of one document.

    Returns
    -------
    dict
        ``text``: title and text as ranked, ``title`` characters of it the title. ``words``: its
        keywords, heaviest first, with ``weights``. ``marks``: flat triples of characters skipped,
        characters marked, and the keyword's place in ``words``. ``reasons``: by place in
        ``words``, the query keyword that absorbs it and their cosine. ``base``: Eq. 1. ``splits``:
        the different partitions, each with ``shared`` (one 0 or 1 per keyword), ``causal`` (Eq.
        5), ``parts`` (each keyword's part of it, null in A) and ``near`` (`Nearest.to`).
        ``at``: which of the splits holds, by threshold.
    """
    keywords = sorted(
        {**places[0].shared, **places[0].residual}.items(), key=lambda one: (-one[1], one[0])
    )
    words = [term for term, _ in keywords]
    splits: list[dict[str, Any]] = []
    known: dict[str, int] = {}
    at, reasons = [], {}
    for place in places:
        shared = "".join("1" if term in place.shared else "0" for term in words)
        if shared not in known:
            known[shared] = len(splits)
            parts = place.contributions
            splits.append(
                {
                    "shared": shared,
                    "causal": thousandths(place.causal),
                    "parts": [
                        thousandths(parts[term]) if term in parts else None for term in words
                    ],
                    "near": near.to(place),
                }
            )
        at.append(known[shared])
        for term, reason in place.reasons.items():
            reasons[words.index(term)] = [near.place[reason.query_term], thousandths(reason.cosine)]
    return {
        "id": document.id,
        "role": document.role,
        "text": places[0].text,
        "title": len(document.title),
        "gloss": document.extra.get("gloss", ""),
        "words": [near.place[term] for term in words],
        "weights": [thousandths(weight) for _, weight in keywords],
        "marks": _marks(places[0].text, words),
        "reasons": reasons,
        "base": thousandths(places[0].base),
        "splits": splits,
        "at": at,
    }


class Nearest:
    """The terms of a theme, to be ordered by their cosine with a centroid."""

    def __init__(self, terms: list[str], encoder: EncoderAdapter) -> None:
        self.place = {term: place for place, term in enumerate(terms)}
        self.encoder = encoder
        self.vectors = encode_terms(encoder, terms).astype(np.float64)

    def to(self, place: Ranked) -> list[list[int]]:
        """Give the nearest terms to the centroid of a document's B, each with its cosine."""
        middle = cr.centroid(place.residual, self.encoder)
        if middle is None or not middle.any():
            return []
        cosines = self.vectors @ middle / np.linalg.norm(middle)
        best = np.argsort(-cosines, kind="stable")[:NEAREST]
        return [[int(one), thousandths(cosines[one])] for one in best]


def _marks(original: str, words: list[str]) -> list[int]:
    number = {term: place for place, term in enumerate(words)}
    flat, cursor = [], 0
    for token, start, end in token_spans(original):
        if token in number:
            flat += [start - cursor, end - start, number[token]]
            cursor = end
    return flat


def _order(ranking: Ranking) -> str:
    return "".join(DIGITS[one.index] for one in ranking)


def thousandths(value: float) -> int:
    """Give a number of the page: rounded to three digits, and written without the point."""
    return round(1000 * float(cr.evaluate.half_up(float(value), 3)))


# -- the page ------------------------------------------------------------------------------------


def explorer_html(data: dict[str, Any]) -> str:
    """Write the controls, and the table that a reader without scripts sees."""
    fields = "\n".join(
        f'<label>{label} <select class="rank-{name}"></select></label>'
        for name, label in (
            ("corpus", "Corpus"),
            ("theme", "Theme"),
            ("doc", "Document"),
            ("tau", "Tau"),
            ("method", "Method"),
        )
    )
    return f"""\
<div class="rank-controls">
{fields}
</div>
<p class="rank-query"></p>
<p class="rank-verdict" aria-live="polite"></p>
<div class="rank-view">
<div class="rank-document">
<p class="rank-legend"><span class="rank-a">A, shared</span>
<span class="rank-b">B, residual</span></p>
<p class="rank-gloss"></p>
<h3 class="rank-title"></h3>
<p class="rank-text"></p>
<details class="rank-words"><summary>The keywords, one by one</summary><div></div></details>
</div>
<div class="rank-numbers">
<div class="rank-scores"></div>
<div class="rank-near"></div>
</div>
</div>
<div class="rank-order"></div>
<p class="rank-buttons"><button type="button" class="rank-link">Copy link to this view</button>
<span class="rank-done" aria-live="polite"></span></p>
<noscript>{static_table(data)}</noscript>"""


def static_table(data: dict[str, Any]) -> str:
    """Write the first view's theme as a table: both ranks of each document, and its A and B."""
    theme = data["themes"][FIRST["corpus"]][FIRST["theme"]]
    tau = list(TAUS).index(FIRST["tau"])
    before, after = theme["order"]["similarity"], theme["order"][FIRST["method"]][tau]
    rows = []
    for place, digit in enumerate(after, 1):
        document = theme["documents"][DIGITS.index(digit)]
        shared = document["splits"][document["at"][tau]]["shared"]
        sets = {
            flag: ", ".join(
                theme["terms"][term]
                for term, bit in zip(document["words"], shared, strict=True)
                if bit == flag
            )
            for flag in "10"
        }
        rows.append(
            f"<tr><th scope='row'>{escape(document['id'])}, {document['role']}</th>"
            f"<td>{before.index(digit) + 1}</td><td>{place}</td>"
            + "".join(f"<td lang='{theme['lang']}'>{escape(sets[flag])}</td>" for flag in "10")
            + f"<td>{escape(document['gloss'])}</td></tr>"
        )
    return (
        f"<div class='rank-wide'><table><caption>{escape(theme['query'])} "
        f"({escape(theme['gloss'])}) Ranks by similarity and by the causal score at tau "
        f"{FIRST['tau']}</caption><thead><tr><th scope='col'>document</th>"
        "<th scope='col'>similarity</th><th scope='col'>causal</th><th scope='col'>A</th>"
        "<th scope='col'>B</th><th scope='col'>what it is</th></tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


class RankingExplorer(SphinxDirective):
    """``{ranking-explorer}``: theme, document, tau and method, with A, B and the ranking."""

    has_content = False

    def run(self) -> list[Node]:
        """Place the explorer."""
        data = explorer_data()
        return [embed(self.env, "ranking", explorer_html(data), data)]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_directive("ranking-explorer", RankingExplorer)
    return {"version": "1", "parallel_read_safe": False, "parallel_write_safe": True}
