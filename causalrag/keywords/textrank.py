"""TextRank keywords: the PageRank of a text's own words, neighbours in the text being linked.

No corpus is needed. Chinese is ranked by jieba's TextRank on our tokens, English by networkx's
PageRank on the same graph; pytextrank was passed over because it needs spaCy and a model to
download, summa because it is no longer kept. Terms of several words are not formed.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from causalrag import text as _text
from causalrag.keywords.base import Keywords, UniformIdf, checked_count, heaviest
from causalrag.text import tokenize

# jieba's own: nouns, place names, verbal nouns and verbs (of its tag set, ICTCLAS).
PARTS_OF_SPEECH = ("n", "ns", "vn", "v")
# A token is linked with the four after it, as in jieba.
SPAN = 5

_HAN = re.compile(f"[{_text._HAN}]")
_NOT_CHINESE = "eng"  # jieba's tag for a word in Latin letters
# Equal places in the graph differ by rounding in the last bits: they must tie.
_DECIMALS = 9


class TextRankKeywords(UniformIdf):
    """TextRank keywords: the terms of a text with the highest PageRank among its words.

    Parameters
    ----------
    top_document, top_query : int
        Most keywords of a document and of a query (section 4.4: 15 and 10).
    parts_of_speech : iterable of str
        Tags of jieba's dictionary that make a Chinese word a candidate. With the default, jieba's
        own, 安全 ("safe, safety": tag an) and every other adjective is none.

    Raises
    ------
    TypeError, ValueError
        If a cut is not an integer of at least 1, or `parts_of_speech` is one string or empty.

    Notes
    -----
    The text is cut by `causalrag.text.tokenize`, so a term has the same spelling in query and
    document. Each token is linked with the four content tokens after it, as often as they meet; a
    repeated word is its own neighbour too.

    - **Candidates.** A Chinese word is one if it has at least two characters and a listed part of
      speech. A compound or a negated word has that of its last part: 没有效果 is a noun, 不合适 an
      adjective, hence none. Any other token (English words, covid-19, gb/t 35273) is always one:
      tagging them would need a model. What is not a candidate still takes up a place.
    - **Chinese, and mixed texts.** One graph for all candidates of both scripts, ranked by jieba's
      TextRank (damping 0.85; ten rounds in the order of code points, so that words in equal places
      still differ by a few thousandths). jieba leaves out a word without a neighbour; here it gets
      the weight of the lightest term.
    - **No Chinese word.** networkx's PageRank (damping 0.85, run to convergence), divided by the
      largest.

    The heaviest term has weight 1. Equal weights are ordered by the term (code points).
    """

    def __init__(
        self,
        top_document: int = 15,
        top_query: int = 10,
        *,
        parts_of_speech: Iterable[str] = PARTS_OF_SPEECH,
    ) -> None:
        self.top_document = checked_count("top_document", top_document)
        self.top_query = checked_count("top_query", top_query)
        if isinstance(parts_of_speech, str):
            raise TypeError(f"parts_of_speech must be a list of tags, got {parts_of_speech!r}")
        self.parts_of_speech = tuple(parts_of_speech)
        if not self.parts_of_speech:
            raise ValueError(
                f"parts_of_speech is empty; give tags such as {', '.join(PARTS_OF_SPEECH)}"
            )

    def __repr__(self) -> str:
        return f"<TextRankKeywords: top {self.top_document} and {self.top_query}>"

    def document(self, text: str) -> Keywords:
        """Keywords K_d of a document: its `top_document` heaviest terms."""
        return self._extract(text, self.top_document)

    def query(self, text: str) -> Keywords:
        """Keywords K_q of a query: its `top_query` heaviest terms."""
        return self._extract(text, self.top_query)

    def _extract(self, text: str, top: int) -> Keywords:
        tokens = tokenize(text)
        chinese = any(map(_HAN.search, tokens))
        ranks = self._jieba_ranks(tokens) if chinese else _page_ranks(tokens)
        return heaviest({term: round(weight, _DECIMALS) for term, weight in ranks.items()}, top)

    def _jieba_ranks(self, tokens: Sequence[str]) -> dict[str, float]:
        """Rank the candidates by jieba, which reads our tokens as if it had cut them itself."""
        allowed = (*self.parts_of_speech, _NOT_CHINESE)
        ranker = _ranker_class()()  # a new one each time: it keeps the filter of its last call
        ranker.tokenizer = _Tagged()
        ranker.span = SPAN
        found = ranker.textrank(tokens, topK=None, withWeight=True, allowPOS=allowed)
        ranks = {str(term): float(weight) for term, weight in found}
        lightest = min(ranks.values(), default=1.0)
        for token in tokens:
            if token not in ranks and len(token) > 1 and _tag(token) in allowed:
                ranks[token] = lightest
        return ranks


def _page_ranks(tokens: Sequence[str]) -> dict[str, float]:
    if not tokens:
        return {}
    import networkx as nx

    graph = nx.Graph()
    graph.add_nodes_from(tokens)
    met = Counter(
        tuple(sorted((token, other)))
        for place, token in enumerate(tokens)
        for other in tokens[place + 1 : place + SPAN]
    )
    for (one, other), count in met.items():
        # A loop touches its word with both ends, as in jieba.
        graph.add_edge(one, other, weight=2 * count if one == other else count)
    ranks = nx.pagerank(graph, alpha=0.85, max_iter=1000, tol=1e-12)
    largest = max(ranks.values())
    return {term: value / largest for term, value in ranks.items()}


class _Tagged:
    """What jieba's TextRank takes for its segmenter: gives our tokens, each with a tag."""

    def cut(self, tokens: Sequence[str]) -> Iterator[Any]:
        from jieba.posseg import pair

        return (pair(token, _tag(token)) for token in tokens)


@lru_cache(maxsize=1)
def _ranker_class() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its sources trip warnings of newer Pythons
        from jieba.analyse import TextRank
    return TextRank


@lru_cache(maxsize=100_000)
def _tag(token: str) -> str:
    """Part of speech of a token: that of its last part, in jieba's dictionary or by its HMM."""
    if not _HAN.search(token):
        return _NOT_CHINESE
    return str(list(_tagger().cut(token))[-1].flag)


@lru_cache(maxsize=1)
def _tagger() -> Any:
    """Make a tagger on our own segmenter, which writes no cache file and logs nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from jieba.posseg import POSTokenizer
    _text.tokenize("词")  # loads the segmenter
    return POSTokenizer(_text._SEGMENTER)
