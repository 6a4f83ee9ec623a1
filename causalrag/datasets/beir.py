"""BEIR's relevance judgments, from an archive on disk or fetched by ir_datasets.

Only the judgments are read here; corpora and queries are not.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


def beir_qrels(name: str, split: str = "test") -> pd.DataFrame:
    """Read the relevance judgments of a BEIR data set.

    With ``CAUSALRAG_DATA`` set, the archive in that folder decides. Without it, the package
    ir_datasets (extra ``beir``) fetches the archive once, checks its md5 sum and keeps it in
    ``$IR_DATASETS_HOME``, by default ``~/.ir_datasets``: 2 to 4 MB for arguana, nfcorpus and
    scifact, but up to 1 GB for others (msmarco, fever).

    Parameters
    ----------
    name : str
        Such as ``"scifact"``: the archive ``$CAUSALRAG_DATA/beir/scifact.zip``, or BEIR's own.
    split : str, default "test"
        The member ``scifact/qrels/test.tsv``.

    Returns
    -------
    DataFrame
        Columns query_id, doc_id (str) and grade (int), one row per judgment, in file order.

    Raises
    ------
    FileNotFoundError
        If ``CAUSALRAG_DATA`` is set and the archive is not there; if it is not set and ir_datasets
        is not installed or cannot fetch the archive. Without a network that takes 10 s at most.
    ValueError
        If the name or the split is unknown, the archive is damaged or has a member that points out
        of its folder, a line is not a judgment, there is no judgment, or a pair has two grades.
    """
    if not re.fullmatch(r"[A-Za-z0-9][\w-]*", name):
        raise ValueError(f"{name!r} is not the name of a data set, such as 'scifact'")
    root = os.environ.get("CAUSALRAG_DATA", "")
    if not root:
        return _fetched_qrels(name, split)
    path = _beir_archive(Path(root), name)
    member = f"{name}/qrels/{split}.tsv"
    try:
        with zipfile.ZipFile(path) as archive:
            members = [_checked_member(item, path) for item in archive.namelist()]
            if member not in members:
                pattern = re.compile(rf"{re.escape(name)}/qrels/(.+)\.tsv")
                splits = [m[1] for m in map(pattern.fullmatch, members) if m]
                raise ValueError(
                    f"{path} has no split {split!r}; it has: {', '.join(sorted(splits)) or 'none'}"
                )
            data = archive.read(member)
    # RuntimeError: an encrypted member, or a compression this Python lacks.
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        raise ValueError(f"{path} cannot be read: {error}; fetch it again") from error
    return _parse_qrels(data, f"{path}:{member}")


def _beir_archive(root: Path, name: str) -> Path:
    path = root / "beir" / f"{name}.zip"
    if not path.is_file():
        there = sorted(p.stem for p in path.parent.glob("*.zip"))
        raise FileNotFoundError(
            f"{path} does not exist (archives there: {', '.join(there) or 'none'}); set "
            f"CAUSALRAG_DATA to the folder that holds beir/{name}.zip"
        )
    return path


def _checked_member(member: str, archive: Path) -> str:
    parts = PurePosixPath(member.replace("\\", "/")).parts
    if not parts or parts[0] == "/" or ":" in parts[0] or ".." in parts:
        raise ValueError(f"{archive} is refused: its member {member!r} points out of its folder")
    return member


def _parse_qrels(data: bytes, source: str) -> pd.DataFrame:
    def judgments() -> Iterator[tuple[str, str, str, int]]:
        for number, raw in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
            where = f"{source}, line {number}"
            fields = raw.decode("utf-8", "replace").strip("\r").split("\t")
            if fields == [""] or (number == 1 and fields[0] == "query-id"):
                continue
            if len(fields) != 3 or not all(fields) or not re.fullmatch(r"-?\d+", fields[2]):
                raise ValueError(f"{where}: expected query, document and grade: {raw!r}")
            yield where, fields[0], fields[1], int(fields[2])

    return _qrels_frame(judgments(), source)


def _qrels_frame(judgments: Iterable[tuple[str, str, str, int]], source: str) -> pd.DataFrame:
    """Tabulate (place, query, document, grade); a judgment repeated as it is counts once."""
    import pandas as pd

    rows: dict[tuple[str, str], int] = {}
    for where, query, document, grade in judgments:
        if rows.setdefault((query, document), grade) != grade:
            raise ValueError(f"{where}: {query} {document} has two grades")
    if not rows:
        raise ValueError(f"{source} holds no judgment")
    columns = ["query_id", "doc_id", "grade"]
    frame = pd.DataFrame([(q, d, g) for (q, d), g in rows.items()], columns=columns)
    return frame.astype({"grade": "int64"})


# --- BEIR through ir_datasets -------------------------------------------------------------------

# Seconds a server may be silent. A connection is given up after as many; whatever else hangs (the
# look-up of a host's name has no timeout) is stopped after twice as many.
_PATIENCE = 5.0

# A program of its own, so that its log and progress bars reach no notebook, its settings touch no
# other user of ir_datasets in this process, and a download that hangs can be stopped.
_IR_DATASETS = """
import json, sys
import ir_datasets

def answer(**fields):
    print(json.dumps(fields))
    sys.exit()

def cause(error):
    while error.__context__:
        error = error.__context__
    return f"{type(error).__name__}: {error}"

name, split = sys.argv[1:]
ids = {i.removeprefix("beir/") for i in ir_datasets.registry if i.startswith("beir/")}
# The archive that BEIR hands out under this name is the second version.
base = "webis-touche2020/v2" if name == "webis-touche2020" else name
splits = {s: f"{base}/{s}" for s in ("dev", "test", "train") if f"{base}/{s}" in ids}
if base in ids and not splits:
    splits = {"test": base}
if not splits:
    names = sorted(i for i in ids if "/" not in i)
    answer(unknown=f"ir_datasets has no BEIR data set {name!r}; it has: {', '.join(names)}")
if split not in splits:
    answer(unknown=f"{name} has no split {split!r}; it has: {', '.join(splits)}")
dataset = ir_datasets.load(f"beir/{splits[split]}")
folder = str(ir_datasets.util.home_path() / "beir" / base)
try:
    dataset.qrels_path()  # fetches the archive, checks it and takes the judgments out
except (OSError, RuntimeError, ValueError) as error:
    answer(fetch=cause(error))
except Exception as error:
    answer(damaged=cause(error), folder=folder)
try:
    rows = [(q.query_id, q.doc_id, q.relevance) for q in dataset.qrels_iter()]
except Exception as error:
    answer(damaged=cause(error), folder=folder)
answer(rows=rows, folder=folder)
"""


def _fetched_qrels(name: str, split: str) -> pd.DataFrame:
    try:
        installed = importlib.util.find_spec("ir_datasets") is not None
    except ImportError:
        installed = False
    if not installed:
        raise FileNotFoundError(
            f"no judgments of {name}: set CAUSALRAG_DATA to the folder that holds "
            f'beir/{name}.zip, or fetch them with ir_datasets: pip install "causalrag[beir]"'
        )
    answer = _ask_ir_datasets(name, split)
    if "unknown" in answer:
        raise ValueError(answer["unknown"])
    if "fetch" in answer:
        raise FileNotFoundError(
            f"ir_datasets could not fetch the judgments of {name} ({answer['fetch']}): try again "
            f"with a network, or set CAUSALRAG_DATA to the folder that holds beir/{name}.zip"
        )
    source = f"{answer['folder']}, split {split}"
    if "damaged" in answer:
        raise ValueError(
            f"{source} cannot be read: {answer['damaged']}; delete that folder to fetch it again"
        )
    rows = enumerate(answer["rows"], start=1)
    return _qrels_frame(((f"{source}, judgment {n}", q, d, g) for n, (q, d, g) in rows), source)


def _ask_ir_datasets(name: str, split: str) -> dict[str, Any]:
    """Run `_IR_DATASETS`; give its answer, or why there is none under the key ``fetch``."""
    settings = {
        "IR_DATASETS_DL_TRIES": "1",
        "IR_DATASETS_DL_403_TRIES": "1",
        "IR_DATASETS_DL_TIMEOUT": str(_PATIENCE),
        "IR_DATASETS_DL_DISABLE_PBAR": "false",  # the bar grows the log: a sign of life
        "TQDM_DISABLE": "",
    }
    # -P: a file in the working directory must not stand in for a package.
    command = [sys.executable, "-P", "-c", _IR_DATASETS, name, split]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as log:
        child = subprocess.Popen(  # noqa: S603
            command, env=os.environ | settings, stdin=subprocess.DEVNULL, stdout=out, stderr=log
        )
        try:
            heard = -1
            while child.poll() is None:
                try:
                    child.wait(_PATIENCE)
                except subprocess.TimeoutExpired:
                    size = os.fstat(log.fileno()).st_size
                    if heard == size > 0:  # before the first line it only imports
                        return {"fetch": f"not a byte in {_PATIENCE:g} s"}
                    heard = size
        # Whatever ends the wait, an interrupt of the kernel too, ends the download.
        finally:
            child.kill()
            child.wait()
        told = out if child.returncode == 0 else log
        told.seek(0)
        last = told.read().decode("utf-8", "replace").rstrip().rpartition("\n")[2]
    answer: dict[str, Any] = json.loads(last) if told is out else {"fetch": last}
    return answer
