"""Weighted keywords kw(.) of section 3.1, and the extractors that take them from a text.

The paper leaves the extractor open: TF-IDF (its own choice, section 4.4), TextRank, KeyBERT or a
language model. Each has ``document(text)`` and ``query(text)``, gives `Keywords` in the spelling of
`causalrag.text.tokenize`, and is loaded without any heavy package until it is used.
"""

from __future__ import annotations

from causalrag.keywords.base import FullExtractor, KeywordExtractor, Keywords, as_extractor
from causalrag.keywords.keybert import KeyBertKeywords
from causalrag.keywords.llm import LLMKeywords
from causalrag.keywords.textrank import TextRankKeywords
from causalrag.keywords.tfidf import TfidfKeywords

__all__ = [
    "FullExtractor",
    "KeyBertKeywords",
    "KeywordExtractor",
    "Keywords",
    "LLMKeywords",
    "TextRankKeywords",
    "TfidfKeywords",
    "as_extractor",
]
