"""Stored results of the case study: ranks, scores, keywords and densities, and the laws' vectors.

`read_cases` gives them as tables, `local_laws` the laws that they were made from, where this
machine has them. Nothing here ranks.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from causalrag.results.kinds import TABLES
from causalrag.results.parquet import load_parquet

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from causalrag.datasets import CaseStudy, Law

# The tables of each collection, each a file named by collection, encoder and table.
PARTS = {
    "casebook": ("ranks", "candidates", "terms", "density"),
    "laws": ("ranks", "candidates", "terms", "density", "growth", "vectors"),
}
_SAME_RUN = ("corpus", "model", "settings", "versions")


class LawVectors(NamedTuple):
    """The pooled vectors of all laws by one encoder.

    Attributes
    ----------
    ids, titles : tuple of str
        Of the n laws, in the order of `datasets.laws`.
    vectors : (n, h) float32 array
        Unit rows. Stored in half precision: a cosine is known to about 1e-4.
    """

    ids: tuple[str, ...]
    titles: tuple[str, ...]
    vectors: NDArray[np.float32]


class CaseResults(NamedTuple):
    """What `read_cases` found; a table without rows where nothing is stored.

    Attributes
    ----------
    ranks : DataFrame
        ``query_id``, ``window``, ``method``, ``doc_id``, ``rank``: each query's documents by every
        method, re-ranked within the first stage's `window` best.
    candidates : DataFrame
        ``query_id``, ``doc_id``, ``title``, ``base``, ``causal_exact``, ``causal``,
        ``has_residual_exact``, ``has_residual``, ``overlap``, ``shared_weight``,
        ``excess_repetition``: the widest window, best first.
    terms : DataFrame
        ``query_id``, ``doc_id``, ``set`` ("A" or "B"), ``term``, ``weight``, ``absorbed_by`` and
        ``cosine`` (for A), ``contribution`` to the causal score (for B): the keywords of each
        candidate under semantic absorption, heaviest first within A and B.
    density : DataFrame
        ``query_id``, ``doc_id``, ``similarity``, and of the content tokens in title and headings,
        and in the body, the number of the query's keywords (``heading_hits``, ``body_hits``) and of
        all (``heading_tokens``, ``body_tokens``): every document of the collection.
    growth : DataFrame
        ``query_id``, ``order``, ``size``, ``rank``: the target's rank under similarity among the
        casebook and the first laws of a random order, `size` documents in all.
    vectors : dict of str to LawVectors
        By encoder.
    provenance : dict
        Collection → encoder → the provenance, as in `Stored`.

    The tables begin with the columns ``collection`` ("casebook" or "laws") and ``encoder``.
    """

    ranks: pd.DataFrame
    candidates: pd.DataFrame
    terms: pd.DataFrame
    density: pd.DataFrame
    growth: pd.DataFrame
    vectors: dict[str, LawVectors]
    provenance: dict[str, dict[str, Mapping[str, Any]]]


def read_cases(folder: str | PathLike[str], encoders: Collection[str] | None = None) -> CaseResults:
    """Read what `make results` stored for the case study.

    Parameters
    ----------
    folder
        Holds the ``.parquet`` files; may hold none.
    encoders : collection of str, optional
        Names to read; by default all.

    Returns
    -------
    CaseResults
        In the order of the file names, then of the files.

    Raises
    ------
    FileNotFoundError
        If there is no such folder.
    ValueError
        As `load_parquet`; if a file is of another kind or name, if the files of a collection and
        encoder are not all there or come from different runs, or if they were made from another
        casebook than the packaged one. The message names the command that renews them.
    ImportError
        If pyarrow is not installed; the message holds the install line.
    """
    place = Path(folder)
    if not place.is_dir():
        raise FileNotFoundError(f"there is no folder {place}; make it with: make results")
    found: dict[str, list[pd.DataFrame]] = {name: [] for name in PARTS["laws"]}
    provenance: dict[str, dict[str, Mapping[str, Any]]] = {}
    vectors = {}
    for collection, named in _stored(place):
        about, tables = _load_run(place, collection, named)
        encoder = about["model"]["name"]
        if encoders is not None and encoder not in encoders:
            continue
        provenance.setdefault(collection, {})[encoder] = about
        if "vectors" in tables:
            vectors[encoder] = _vectors(tables.pop("vectors"))
        for name, table in tables.items():
            found[name].append(table.assign(collection=collection, encoder=encoder))
    joined = {
        name: _joined(parts, ["collection", "encoder", *TABLES[f"case_{name}"][name]])
        for name, parts in found.items()
        if name != "vectors"
    }
    return CaseResults(**joined, vectors=vectors, provenance=provenance)


def case_path(folder: str | PathLike[str], collection: str, encoder: str, table: str) -> Path:
    """Give the file of one table, ``{collection}-{encoder}-{table}.parquet``."""
    named = re.sub(r"[^A-Za-z0-9._-]+", "-", encoder)
    return Path(folder) / f"{collection}-{named}-{table}.parquet"


def case_checksums(study: CaseStudy, laws: Iterable[Law] | None = None) -> dict[str, str]:
    """Give the SHA-256 of the content of the casebook, and of the laws where they are given.

    Parameters
    ----------
    study : CaseStudy
        As from `datasets.case_study`.
    laws : iterable of Law, optional
        As from `datasets.laws`.

    Returns
    -------
    dict of str to str
        ``documents``, ``queries`` and, with laws, ``laws``, in hexadecimal. Roles and glosses do
        not count: no rank depends on them.
    """
    parts = {
        "documents": _digest(
            [d.id, d.title, *(part for s in d.sections for part in (s.heading, s.text))]
            for d in study.documents
        ),
        "queries": _digest([query.id, query.query] for query in study.queries),
    }
    if laws is not None:
        parts["laws"] = _digest([law.id, law.title, law.text] for law in laws)
    return parts


def local_laws(provenance: Mapping[str, Any]) -> tuple[Law, ...] | None:
    """Give the laws that a result was made from, where this machine has their archive.

    Parameters
    ----------
    provenance : mapping
        A stored result's, as in `CaseResults.provenance` under ``"laws"``.

    Returns
    -------
    tuple of Law or None
        None if ``$CAUSALRAG_DATA`` has no archive of laws.

    Raises
    ------
    ValueError
        If the archive is damaged, or holds other laws than the result was made from. The message
        names the command that renews the result.
    """
    from causalrag.datasets import laws

    try:
        found = laws()
    except FileNotFoundError:
        return None
    if _digest([law.id, law.title, law.text] for law in found) != (
        provenance["corpus"]["sha256"].get("laws")
    ):
        raise ValueError(
            "the stored results were made from other laws than the archive on this machine holds; "
            f"renew them with: {provenance['command']} FORCE=1"
        )
    return found


def _stored(place: Path) -> list[tuple[str, str]]:
    """Find the collections and encoders that have a file, as the files name them."""
    pairs = {}
    for path in sorted(place.glob("*.parquet")):
        collection, _, rest = path.stem.partition("-")
        encoder, _, table = rest.rpartition("-")
        if not encoder or table not in PARTS.get(collection, ()):
            raise ValueError(f"{path} is no table of the case study; move it")
        pairs[collection, encoder] = True
    return list(pairs)


def _load_run(
    place: Path, collection: str, encoder: str
) -> tuple[Mapping[str, Any], dict[str, pd.DataFrame]]:
    tables: dict[str, pd.DataFrame] = {}
    first: Mapping[str, Any] = {}
    for name in PARTS[collection]:
        path = case_path(place, collection, encoder, name)
        stored = load_parquet(path)
        about = stored.provenance
        renew = f"renew it with: {about['command']} FORCE=1"
        if stored.kind != f"case_{name}":
            raise ValueError(f"{path} holds the kind {stored.kind!r}, not case_{name}; {renew}")
        first = first or about
        if any(about[key] != first[key] for key in _SAME_RUN):
            raise ValueError(f"{path} comes from another run than the files beside it; {renew}")
        tables[name] = stored.tables[name]
    _check_casebook(place / f"{collection}-{encoder}", first)
    return first, tables


def _check_casebook(path: Path, about: Mapping[str, Any]) -> None:
    """Refuse results of other texts; those of the laws are seen where the laws are read."""
    from causalrag.datasets import case_study

    now = case_checksums(case_study())
    if other := [part for part in now if now[part] != about["corpus"]["sha256"].get(part)]:
        raise ValueError(
            f"{path}-*.parquet were made from other {' and '.join(other)} than the casebook now "
            f"has; renew them with: {about['command']} FORCE=1"
        )


def _digest(records: Iterable[list[str]]) -> str:
    content = json.dumps(list(records), ensure_ascii=False)
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()


def _vectors(table: pd.DataFrame) -> LawVectors:
    import numpy as np

    rows = np.stack(table["vector"].tolist()).astype(np.float64)
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    unit = np.divide(rows, length, out=np.zeros_like(rows), where=length > 0)
    return LawVectors(tuple(table["doc_id"]), tuple(table["title"]), unit.astype(np.float32))


def _joined(tables: list[pd.DataFrame], columns: list[str]) -> pd.DataFrame:
    import pandas as pd

    if not tables:
        return pd.DataFrame({column: [] for column in columns})
    return pd.concat(tables, ignore_index=True)[columns]
