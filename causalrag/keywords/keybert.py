"""KeyBERT keywords: the words of a text that lie nearest to the whole text, by our encoder.

The package `keybert` (extra ``keybert``) does the extraction; the words are those of
`causalrag.text.tokenize` and the vectors those of any encoder of `causalrag.encoders`. Its phrases,
its diversity settings and its own models are not used.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

from causalrag.encoders import Role, encode_terms, load_encoder
from causalrag.keywords.base import Keywords, UniformIdf, checked_count, heaviest
from causalrag.text import tokenize


class KeyBertKeywords(UniformIdf):
    """KeyBERT keywords: the terms of a text with the highest cosine to the text itself.

    Parameters
    ----------
    encoder : Encoder, str or any object that `load_encoder` accepts
        Encodes the text, in its role of document or query, and the words, in the role of terms.
    top_document, top_query : int
        Most keywords of a document and of a query (section 4.4: 15 and 10).

    Raises
    ------
    ImportError
        If the package is missing or broken; the message holds the install line.
    TypeError, ValueError
        If a cut is not an integer of at least 1, or the encoder is refused by `load_encoder`.

    Notes
    -----
    The weight is the cosine of the word and the text, to four decimals as KeyBERT gives it. A word
    whose cosine is then not positive is dropped: a weight must be positive. How often a word occurs
    plays no part. A text without content has no keywords and is not encoded. Equal weights are
    ordered by the term (code points).
    """

    def __init__(self, encoder: object, top_document: int = 15, top_query: int = 10) -> None:
        self.top_document = checked_count("top_document", top_document)
        self.top_query = checked_count("top_query", top_query)
        self.encoder = load_encoder(encoder)
        self._model = _load_model(self.encoder)

    def __repr__(self) -> str:
        return f"<KeyBertKeywords: encoder {self.encoder.name}>"

    def document(self, text: str) -> Keywords:
        """Keywords K_d of a document: its `top_document` heaviest terms."""
        return self._extract(text, "document", self.top_document)

    def query(self, text: str) -> Keywords:
        """Keywords K_q of a query: its `top_query` heaviest terms."""
        return self._extract(text, "query", self.top_query)

    def _extract(self, text: str, role: Role, top: int) -> Keywords:
        terms = set(tokenize(text))
        if not terms:
            return Keywords()
        from sklearn.feature_extraction.text import CountVectorizer

        found = self._model.extract_keywords(
            text,
            # All of them: KeyBERT's own cut leaves ties to the sorting algorithm.
            top_n=len(terms),
            vectorizer=CountVectorizer(analyzer=tokenize),
            doc_embeddings=self.encoder.encode([text], role),
        )
        return heaviest({str(term): float(cosine) for term, cosine in found if cosine > 0}, top)


def _load_model(encoder: object) -> Any:
    """Make a KeyBERT whose words are encoded by `encoder`, each once per process."""
    try:
        with warnings.catch_warnings():  # its import silences FutureWarning for the whole process
            keybert = import_module("keybert")
            backend = import_module("keybert.backend")
    # It imports torch, and a broken torch fails with more than ImportError.
    except (ImportError, AttributeError, RuntimeError, OSError) as error:
        raise ImportError(
            f"KeyBertKeywords needs the extra 'keybert' (importing keybert failed: {error}). "
            'Install it with: pip install "causalrag[keybert]"'
        ) from error

    class Terms(backend.BaseEmbedder):  # type: ignore[name-defined, misc]
        def embed(self, documents: Any, verbose: bool = False) -> Any:
            return encode_terms(encoder, [str(word) for word in documents])

    return keybert.KeyBERT(model=Terms())
