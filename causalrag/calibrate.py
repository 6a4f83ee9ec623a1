"""An absorption threshold for any encoder, from its own cosines of words that have no relation.

A threshold of 0.6 separates words under one encoder and separates nothing under another, whose
cosines all lie near 1. `tau_for` reads the threshold off an encoder: the quantile of its cosines
between different words of a general list. Nothing about a query, a document or an answer is used.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from causalrag.encoders import EncoderAdapter, load_encoder

__all__ = ["LANGUAGES", "QUANTILE", "language", "tau_for", "word_list"]

LANGUAGES = ("en", "zh")
# An unrelated document keyword meets ten query keywords; with this quantile one of them absorbs it
# with a probability of about 5%.
QUANTILE = 1 - 0.05 / 10

_HAN = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff]")
_KNOWN: dict[tuple[str, str, float], float] = {}


def language(query: str) -> str:
    """Give the word list's language for a query: "zh" if it has a Chinese character, else "en"."""
    return "zh" if _HAN.search(query) else "en"


@cache
def word_list(lang: str) -> tuple[str, ...]:
    """Give the packaged general words of a language, some 500 of everyday and professional life.

    Raises
    ------
    ValueError
        If the language is unknown.
    """
    if lang not in LANGUAGES:
        raise ValueError(f"unknown lang {lang!r}; known: {', '.join(LANGUAGES)}")
    path = Path(__file__).parent / "data" / f"terms_{lang}.txt"
    return tuple(path.read_text(encoding="utf-8").split())


def tau_for(
    encoder: Any,
    terms: Iterable[str] | None = None,
    quantile: float = QUANTILE,
    lang: str = "en",
) -> float:
    """Calibrate the absorption threshold of an encoder.

    Parameters
    ----------
    encoder : Encoder, str or any object that `load_encoder` accepts
        Encodes the terms, in the role "term".
    terms : iterable of str, optional
        At least two different words without a common subject; by default `word_list` of `lang`.
    quantile : float
        In (0, 1).
    lang : {"en", "zh"}
        Which packaged list; ignored if `terms` is given. An encoder that does not read the language
        gives cosines that mean nothing.

    Returns
    -------
    float
        That quantile of the cosines of all pairs of different terms, in [-1, 1]. At 1 only equal
        words are absorbed: an encoder that gives every word the same vector gets that.

    Raises
    ------
    ValueError
        If there are fewer than two different terms with content, `quantile` is outside (0, 1), the
        language is unknown, or the encoder gives a term a zero vector.
    TypeError
        If `terms` is one string, or holds something that is no string.
    """
    if not 0 < quantile < 1:
        raise ValueError(f"quantile is {quantile}; it is a share in (0, 1)")
    if isinstance(terms, str):
        raise TypeError(f"terms must be a list of words, got {terms!r:.40}")
    given = list(word_list(lang) if terms is None else terms)
    for term in given:
        if not isinstance(term, str):
            raise TypeError(f"a term must be a string, got {term!r:.40}")
    words = sorted({term for term in given if term.strip()})
    if len(words) < 2:
        raise ValueError(f"calibration needs at least two different terms, got {words}")
    adapter = load_encoder(encoder)
    key = (adapter.fingerprint, hashlib.sha256("\n".join(words).encode()).hexdigest(), quantile)
    if key not in _KNOWN:
        _KNOWN[key] = _quantile(adapter, words, quantile)
    return _KNOWN[key]


def _quantile(encoder: EncoderAdapter, words: list[str], quantile: float) -> float:
    vectors = encoder.encode(words, "term").astype(np.float64)
    if not vectors.any(axis=1).all():
        word = words[int(np.argmin(vectors.any(axis=1)))]
        raise ValueError(f"the encoder {encoder.name!r} gives a zero vector for the term {word!r}")
    cosines = (vectors @ vectors.T)[np.triu_indices(len(words), 1)]
    # Six digits: the last ones of a float32 cosine depend on the batch.
    return min(1.0, max(-1.0, round(float(np.quantile(cosines, quantile)), 6)))
