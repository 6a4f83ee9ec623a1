"""The case study's part of `make results`: the casebook and the laws, by each encoder.

For each collection and encoder one Parquet file per table, all of one run. Vectors of documents,
queries and terms come from the cache, so that a run that is stopped encodes nothing twice; what
else it did takes a minute or two. The tables themselves are made in `case_methods`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import case_methods as methods
import pandas as pd
import provenance as origin
from provenance import SETTINGS, say

import causalrag as cr
from causalrag import results
from causalrag.embeddings import EmbeddingCache
from causalrag.results.cases import PARTS, case_checksums, case_path

# Parts of the library that only this part of the results depends on.
ALSO = ("chunks.py", "datasets/casebook.py", "datasets/laws.py", "gate/statistics.py")


class Places(Protocol):
    """Where results and vectors lie."""

    output: Path
    embeddings: Path


def make_cases(
    encoders: Sequence[tuple[str, Any]],
    places: Places,
    force: bool,
    languages: Mapping[str, Collection[str]] | None = None,
) -> None:
    """Make the tables of the casebook and of the laws with every encoder that reads Chinese.

    Parameters
    ----------
    encoders
        Each the source that names it in a command, and the loaded encoder.
    places
        Folders; the results go to ``case_study`` in the first.
    force
        Make anew what is there.
    languages
        What an encoder reads, by its name, where that is not every language.
    """
    study = cr.datasets.case_study()
    try:
        laws = cr.datasets.laws()
    except FileNotFoundError as error:
        laws = None
        say(f"laws: not made ({error})")
    for source, encoder in encoders:
        reads = (languages or {}).get(encoder.name)
        if reads is not None and "zh" not in reads:
            say(f"case study, {encoder.name}: it does not read Chinese ({', '.join(reads)})")
            continue
        maker = _Maker(study, source, encoder, places, force)
        maker.make_casebook()
        if laws is not None:
            maker.make_laws(laws)


class _Maker:
    """Makes the results of one encoder."""

    def __init__(self, study: Any, source: str, encoder: Any, places: Places, force: bool) -> None:
        self.study, self.source, self.encoder, self.force = study, source, encoder, force
        self.folder = places.output / "case_study"
        self.cache = EmbeddingCache(places.embeddings, encoder)
        self._collection: methods.Collection | None = None

    def make_casebook(self) -> None:
        """Store the casebook's tables, unless they are there."""
        about = self._about("casebook", case_checksums(self.study))
        if self._is_done("casebook", about):
            return
        told, queries = self._told("casebook"), self.study.queries
        tables = methods.ranked_tables(self._casebook(), queries, told)
        tables["density"] = methods.density_table(self._casebook(), queries)
        self._store("casebook", about, tables)

    def make_laws(self, laws: Sequence[Any]) -> None:
        """Store the laws' tables, unless they are there."""
        about = self._about("laws", case_checksums(self.study, laws))
        if self._is_done("laws", about):
            return
        told, queries = self._told("laws"), self.study.queries
        collection = methods.Collection.make("laws", laws, self.cache, told)
        tables = methods.ranked_tables(collection, queries, told)
        tables["density"] = methods.density_table(collection, queries)
        tables["growth"] = methods.growth_table(
            self._casebook(), collection, self.study.target.id, queries
        )
        tables["vectors"] = methods.vector_table(collection)
        self._store("laws", about, tables)

    def _casebook(self) -> methods.Collection:
        if self._collection is None:
            self._collection = methods.Collection.make(
                "casebook", self.study.documents, self.cache, self._told("casebook")
            )
        return self._collection

    def _told(self, name: str) -> str:
        return f"{name}, {self.encoder.name}"

    def _about(self, name: str, checksums: dict[str, str]) -> dict[str, Any]:
        settings: dict[str, Any] = {
            **SETTINGS,
            "methods": list(methods.METHODS),
            "idf": "all documents of the collection",
            "candidates": "the documents most similar to the query",
            "windows": list(methods.WINDOWS[name]),
            "ties": "in the first stage's order, there in the documents' order",
            "chunks": {**methods.CHUNKS, "pooling": "mean of unit vectors, at unit length"},
        }
        if name == "laws":
            settings["growth"] = {
                "first": "the casebook",
                "sizes": list(methods.SIZES),
                "orders": methods.ORDERS,
                "seed": methods.SEED,
            }
        return origin.provenance(
            f"make results ENCODERS={origin.shown(self.source, self.encoder.name)}",
            {"name": name, "sha256": checksums},
            {
                "name": self.encoder.name,
                "kind": "encoder",
                "fingerprint": self.encoder.fingerprint,
            },
            settings,
            origin.versions(ALSO, [Path(methods.__file__)]),
        )

    def _is_done(self, name: str, about: dict[str, Any]) -> bool:
        paths = [case_path(self.folder, name, self.encoder.name, table) for table in PARTS[name]]
        done = not self.force and all(origin.is_current(path, about) for path in paths)
        if done:
            say(f"{self._told(name)}: is there already; FORCE=1 makes it anew")
        return done

    def _store(self, name: str, about: dict[str, Any], tables: dict[str, pd.DataFrame]) -> None:
        for table in PARTS[name]:
            path = case_path(self.folder, name, self.encoder.name, table)
            results.save_parquet(path, f"case_{table}", about, tables[table])
        rows = sum(map(len, tables.values()))
        say(f"{self._told(name)}: stored {rows} rows in {self.folder.name}/")
