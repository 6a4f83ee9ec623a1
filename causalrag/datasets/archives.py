"""BEIR's archives: found in a folder on disk or fetched by ir_datasets, and read in memory.

Nothing is extracted: a member is read whole, with its checksum, or refused. What the members mean
is in `beir`.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple


class Archive(NamedTuple):
    """Where an archive lies, the name of the folder inside, and what to do when it is damaged."""

    path: Path
    name: str
    remedy: str


def locate(name: str, split: str) -> Archive:
    """Find the archive of a data set; `beir_qrels` says where, and what is raised."""
    if not re.fullmatch(r"[A-Za-z0-9][\w-]*", name):
        raise ValueError(f"{name!r} is not the name of a data set, such as 'scifact'")
    root = os.environ.get("CAUSALRAG_DATA", "")
    if not root:
        return _fetched(name, split)
    path = Path(root) / "beir" / f"{name}.zip"
    if not path.is_file():
        there = sorted(p.stem for p in path.parent.glob("*.zip"))
        raise FileNotFoundError(
            f"{path} does not exist (archives there: {', '.join(there) or 'none'}); set "
            f"CAUSALRAG_DATA to the folder that holds beir/{name}.zip"
        )
    return Archive(path, name, "fetch it again")


def read_members(archive: Archive, wanted: list[tuple[str, ...]]) -> list[tuple[str, bytes]]:
    """Read members of an archive.

    Parameters
    ----------
    archive : Archive
        From `locate`.
    wanted : list of tuple of str
        For each member the names that it may have, below the archive's folder. A name that ends in
        ``.gz`` is unpacked.

    Returns
    -------
    list of (str, bytes)
        Name and content, in the order of `wanted`.

    Raises
    ------
    ValueError
        If the archive or a member is damaged, a member points out of its folder, or wanted ones are
        absent: all of them are named.
    """
    with opened(archive) as (file, members):
        names = [
            next((n for n in options if f"{archive.name}/{n}" in members), "") for options in wanted
        ]
        if absent := [options[0] for options, name in zip(wanted, names, strict=True) if not name]:
            raise ValueError(_absent(archive, members, absent))
        return [
            (name, _unpacked(archive, name, file.read(f"{archive.name}/{name}"))) for name in names
        ]


def _absent(archive: Archive, members: list[str], absent: list[str]) -> str:
    splits = [re.fullmatch(r"qrels/(.+)\.tsv", name) for name in absent]
    if len(absent) == 1 and (asked := splits[0]):
        pattern = re.compile(rf"{re.escape(archive.name)}/qrels/(.+)\.tsv")
        splits_there = sorted(m[1] for m in map(pattern.fullmatch, members) if m)
        listed = ", ".join(splits_there) or "none"
        return f"{archive.path} has no split {asked[1]!r}; it has: {listed}"
    lacking = ", ".join(f"{archive.name}/{name}" for name in absent)
    there = ", ".join(members[:8]) or "nothing"
    return f"{archive.path} has no {lacking}; it has: {there}; {archive.remedy}"


@contextmanager
def opened(archive: Archive) -> Iterator[tuple[zipfile.ZipFile, list[str]]]:
    """Open the archive; whatever shows on reading that it is damaged becomes one ValueError."""
    try:
        with zipfile.ZipFile(archive.path) as file:
            members = [_checked_member(name, archive.path) for name in file.namelist()]
            yield file, members
    # RuntimeError: an encrypted member, or a compression this Python lacks.
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        raise ValueError(f"{archive.path} cannot be read: {error}; {archive.remedy}") from error


def _unpacked(archive: Archive, name: str, data: bytes) -> bytes:
    if not name.endswith(".gz"):
        return data
    try:
        return gzip.decompress(data)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(
            f"{archive.path}:{archive.name}/{name} is damaged or cut short: {error}; "
            f"{archive.remedy}"
        ) from error


def _checked_member(member: str, archive: Path) -> str:
    parts = PurePosixPath(member.replace("\\", "/")).parts
    if not parts or parts[0] == "/" or ":" in parts[0] or ".." in parts:
        raise ValueError(f"{archive} is refused: its member {member!r} points out of its folder")
    return member


# --- ir_datasets ---------------------------------------------------------------------------------

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
home = ir_datasets.util.home_path() / "beir"
print("fetching", file=sys.stderr, flush=True)  # from this line on silence counts
try:  # fetches the archive, if it is not there, and checks it
    path = ir_datasets.util.DownloadConfig.context("beir", home)[base].path()
except (OSError, RuntimeError, ValueError) as error:
    answer(fetch=cause(error))
answer(path=str(path))
"""


def _fetched(name: str, split: str) -> Archive:
    try:
        installed = importlib.util.find_spec("ir_datasets") is not None
    except ImportError:
        installed = False
    if not installed:
        raise FileNotFoundError(
            f"no archive of {name}: set CAUSALRAG_DATA to the folder that holds "
            f'beir/{name}.zip, or fetch it with ir_datasets: pip install "causalrag[beir]"'
        )
    answer = _ask_ir_datasets(name, split)
    if "unknown" in answer:
        raise ValueError(answer["unknown"])
    if "fetch" in answer:
        raise FileNotFoundError(
            f"ir_datasets could not fetch {name} ({answer['fetch']}): try again "
            f"with a network, or set CAUSALRAG_DATA to the folder that holds beir/{name}.zip"
        )
    path = Path(answer["path"])
    return Archive(path, name, f"delete the folder {path.parent} to fetch it again")


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
