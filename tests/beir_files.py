"""Writes a small data set as BEIR's archives lay it out."""

import json
import zipfile


def write_beir(folder, name, documents, queries, judged):
    """Write ``beir/NAME.zip`` under a folder.

    Documents and queries are mappings, judgments lines of query, document and grade, tab between.
    """
    path = folder / "beir" / f"{name}.zip"
    path.parent.mkdir(parents=True, exist_ok=True)
    members = {
        "corpus.jsonl": map(json.dumps, documents),
        "queries.jsonl": map(json.dumps, queries),
        "qrels/test.tsv": ["query-id\tcorpus-id\tscore", *judged],
    }
    with zipfile.ZipFile(path, "w") as archive:
        for member, lines in members.items():
            archive.writestr(f"{name}/{member}", "\n".join(lines))
    return path
