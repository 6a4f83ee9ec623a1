"""BEIR archives through ir_datasets: fetched once, kept, given up in time, refused when damaged."""

import contextlib
import hashlib
import importlib.util
import io
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from causalrag.datasets import archives
from causalrag.datasets.beir import beir, beir_qrels

DATA = Path(os.environ.get("CAUSALRAG_DATA") or "absent") / "beir"
HEADER = b"query-id\tcorpus-id\tscore"
needs_ir_datasets = pytest.mark.skipif(
    importlib.util.find_spec("ir_datasets") is None, reason="the package ir_datasets is absent"
)
OFFICIAL = {
    "arguana": "8ad3e3c2a5867cdced806d6503f29b99",
    "nfcorpus": "a89dba18a62ef92f7d323ec890a0d38d",
}
QRELS = HEADER + b"\n1\t007\t2\n1\td-2\t0\n\xe6\x9f\xa5\t9\t1\n"
ROWS = [["1", "007", 2], ["1", "d-2", 0], ["查", "9", 1]]


def zipped(members):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, data in members.items():
            archive.writestr(member, data)
    return out.getvalue()


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Give the empty folder of ir_datasets, behind a proxy that refuses every connection."""
    monkeypatch.delenv("CAUSALRAG_DATA", raising=False)
    monkeypatch.setenv("IR_DATASETS_HOME", str(tmp_path))
    with socket.socket() as closed:  # bound and not listening
        closed.bind(("127.0.0.1", 0))
        set_proxy(monkeypatch, closed.getsockname()[1])
        yield tmp_path


def set_proxy(monkeypatch, port):
    for scheme in ("http", "https", "all"):
        for variable in (f"{scheme}_proxy", f"{scheme}_proxy".upper()):
            monkeypatch.setenv(variable, f"http://127.0.0.1:{port}")
    for variable in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(variable, raising=False)


def lay(home, data, name="arguana"):
    folder = home / "beir" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "source.zip").write_bytes(data)
    return folder


def run(code):
    command = [sys.executable, "-c", f"from causalrag.datasets import beir_qrels\n{code}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@needs_ir_datasets
@pytest.mark.parametrize(
    ("name", "split"), [("arguana", "test"), ("nfcorpus", "test"), ("nfcorpus", "dev")]
)
def test_ir_datasets_gives_the_rows_of_the_archive_and_keeps_them(home, monkeypatch, name, split):
    if not (DATA / f"{name}.zip").is_file():
        pytest.skip(f"CAUSALRAG_DATA names no folder with beir/{name}.zip")
    downloads = home / "downloads"
    downloads.mkdir()
    shutil.copy(DATA / f"{name}.zip", downloads / OFFICIAL[name])
    # Below this size ir_datasets does not look in that folder.
    monkeypatch.setenv("IR_DATASETS_SMALL_FILE_SIZE", "0")
    fetched = beir_qrels(name, split)
    shutil.rmtree(downloads)
    again = beir_qrels(name, split)
    data = beir(name, split)
    monkeypatch.setenv("CAUSALRAG_DATA", str(DATA.parent))
    expected = beir_qrels(name, split)
    theirs = beir(name, split)
    assert (data.corpus, data.queries, data.qrels) == (theirs.corpus, theirs.queries, theirs.qrels)
    assert len(expected) > 1000
    for frame in (fetched, again):
        assert frame.equals(expected)
        assert (frame.dtypes == expected.dtypes).all()


@needs_ir_datasets
def test_a_kept_archive_is_read_without_a_word_and_without_an_import_here(home):
    lay(home, zipped({"arguana/qrels/test.tsv": QRELS.replace(b"\n", b"\r\n") + b"\n1\t007\t2"}))
    code = "import sys; print(beir_qrels('arguana').values.tolist(), 'ir_datasets' in sys.modules)"
    ran = run(code)
    assert (ran.stdout.strip(), ran.stderr) == (f"{ROWS} False", "")
    lay(home, zipped({"webis-touche2020/qrels/test.tsv": QRELS}), "webis-touche2020/v2")
    assert beir_qrels("webis-touche2020").values.tolist() == ROWS


@needs_ir_datasets
def test_a_data_folder_that_is_set_decides_even_when_ir_datasets_has_the_archive(home, monkeypatch):
    lay(home, zipped({"arguana/qrels/test.tsv": QRELS}))
    monkeypatch.setenv("CAUSALRAG_DATA", str(home))
    with pytest.raises(FileNotFoundError, match=r"arguana\.zip does not exist"):
        beir_qrels("arguana")


@needs_ir_datasets
@pytest.mark.parametrize(
    ("data", "message"),
    [
        (QRELS + b"1\tb", "line 5: expected query, document and grade"),
        (QRELS + b"1\t\xff\t1\n", "line 5: not UTF-8"),
        (QRELS + b"1\t007\t1\n", "line 5: 1 007 has two grades"),
        (b"<html>not found</html>\n", "line 1: expected query, document and grade"),
        (HEADER + b"\n", "holds no judgment"),
        (b"", "holds no judgment"),
    ],
)
def test_a_kept_archive_with_a_line_that_is_no_judgment_is_refused(home, data, message):
    lay(home, zipped({"arguana/qrels/test.tsv": data}))
    with pytest.raises(ValueError, match=rf"source\.zip:arguana/qrels/test\.tsv.*{message}"):
        beir_qrels("arguana")


@needs_ir_datasets
def test_a_kept_archive_that_is_damaged_is_refused_and_names_the_folder_to_delete(home):
    body = HEADER + b"".join(b"\n%d\t%d\t1" % (i * 7919, i) for i in range(2000))
    whole = zipped({"arguana/qrels/test.tsv": body})
    middle = len(whole) // 2
    damaged = whole[:middle] + bytes(200) + whole[middle + 200 :]
    for broken in (whole[:middle], damaged, b""):
        folder = lay(home, broken)
        with pytest.raises(ValueError, match=f"cannot be read: .*delete the folder {folder} to"):
            beir_qrels("arguana")
    shutil.rmtree(folder)
    lay(home, whole)
    assert len(beir_qrels("arguana")) == 2000


@needs_ir_datasets
@pytest.mark.parametrize(
    ("name", "split", "message"),
    [
        ("nope", "test", "no BEIR data set 'nope'; it has: arguana, climate-fever"),
        ("arguana", "dev", "arguana has no split 'dev'; it has: test"),
        ("nfcorpus", "all", "nfcorpus has no split 'all'; it has: dev, test, train"),
        ("webis-touche2020", "v2", "no split 'v2'; it has: test"),
    ],
)
def test_an_unknown_name_or_split_lists_those_of_ir_datasets(home, name, split, message):
    with pytest.raises(ValueError, match=message):
        beir_qrels(name, split)


@needs_ir_datasets
def test_without_a_network_one_short_error_comes_within_seconds(home):
    start = time.monotonic()
    ran = run(
        "try:\n    beir_qrels('scifact')\nexcept FileNotFoundError as error:\n    print(error)"
    )
    assert time.monotonic() - start < 10
    assert ran.stderr == ""
    (line,) = ran.stdout.splitlines()
    assert line.startswith("ir_datasets could not fetch scifact (ConnectionRefusedError: ")
    assert "set CAUSALRAG_DATA to the folder that holds beir/scifact.zip" in line
    assert not [p for p in home.rglob("*") if p.is_file()]


@needs_ir_datasets
def test_a_folder_that_ir_datasets_cannot_make_is_named(home, monkeypatch):
    (home / "file").write_bytes(b"")
    monkeypatch.setenv("IR_DATASETS_HOME", str(home / "file" / "folder"))
    with pytest.raises(
        FileNotFoundError, match=r"could not fetch .*Error: .*folder.*CAUSALRAG_DATA"
    ):
        beir_qrels("scifact")


@needs_ir_datasets
@pytest.mark.parametrize("drip", [b"", b"x"], ids=["silent", "one byte at a time"])
def test_a_network_that_hangs_is_given_up(home, monkeypatch, drip):
    monkeypatch.setattr(archives, "_PATIENCE", 1.0)
    done = threading.Event()

    def hold(server):
        connection, _ = server.accept()
        with connection, contextlib.suppress(OSError):
            while not done.wait(0.3) and time.monotonic() < start + 15:
                connection.send(drip)  # no time-out of a socket ends this one

    with socket.create_server(("127.0.0.1", 0)) as server:
        set_proxy(monkeypatch, server.getsockname()[1])
        start = time.monotonic()
        threading.Thread(target=hold, args=(server,), daemon=True).start()
        with pytest.raises(
            FileNotFoundError, match=r"could not fetch .*\((TimeoutError|not a byte)"
        ):
            beir_qrels("scifact")
        done.set()
    assert time.monotonic() - start < 8


@pytest.mark.parametrize("blocker", ["sys.modules['ir_datasets'] = None", "block()"])
def test_without_ir_datasets_the_error_gives_both_remedies(home, blocker):
    ran = run(
        f"""
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "ir_datasets":
            raise ModuleNotFoundError(name)
def block():
    sys.meta_path.insert(0, Blocker())
{blocker}
try:
    beir_qrels("scifact")
except FileNotFoundError as error:
    print(error)
"""
    )
    assert ran.stderr == ""
    (line,) = ran.stdout.splitlines()
    assert "set CAUSALRAG_DATA to the folder that holds beir/scifact.zip" in line
    assert 'pip install "causalrag[beir]"' in line


@pytest.fixture
def served(home, monkeypatch):
    """Serve an archive to a copy of ir_datasets that has a local address for it.

    The handler's `answer` says how: whole, cut (shorter than announced), short (nothing announced,
    so only the md5 sum tells), stalled, slow, or an error page.
    """
    lines = (b"%d\t%s\t1\n" % (i, os.urandom(40).hex().encode()) for i in range(4000))
    whole = zipped({"arguana/qrels/test.tsv": QRELS + b"".join(lines)})
    done = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        answer = "whole"

        def do_GET(self):
            self.send_response(404 if self.answer == "error page" else 200)
            if self.answer in ("whole", "slow", "cut", "stalled"):
                self.send_header("Content-Length", str(len(whole)))
            self.end_headers()
            if self.answer == "slow":
                step = len(whole) // 10
                for start in range(0, len(whole), step):
                    self.wfile.write(whole[start : start + step])
                    done.wait(0.3)
            elif self.answer == "error page":
                self.wfile.write(b"<html>not found</html>")
            else:
                self.wfile.write(whole if self.answer == "whole" else whole[:-9])
            if self.answer == "stalled":
                done.wait(20)

        def log_message(self, *args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        source = Path(importlib.util.find_spec("ir_datasets").origin).parent
        copy = home / "site" / "ir_datasets"
        shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
        listing = copy / "etc" / "downloads.json"
        entries = json.loads(listing.read_bytes())
        entries["beir"]["arguana"] |= {
            "url": f"http://127.0.0.1:{server.server_port}/arguana.zip",
            "expected_md5": hashlib.md5(whole).hexdigest(),
        }
        listing.write_text(json.dumps(entries))
        monkeypatch.setenv("PYTHONPATH", str(home / "site"))
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.setattr(archives, "_PATIENCE", 1.0)
        yield Handler
        done.set()
        server.shutdown()


@needs_ir_datasets
@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("cut", "IncompleteRead"),
        ("short", "HashVerificationError: Expected md5"),
        ("error page", "HashVerificationError: Expected md5"),
        ("stalled", "TimeoutError|not a byte"),
    ],
)
def test_nothing_of_a_download_that_failed_is_read_later(served, home, answer, message):
    served.answer = answer
    with pytest.raises(FileNotFoundError, match=rf"could not fetch .*\(({message})"):
        beir_qrels("arguana")
    folder = home / "beir" / "arguana"
    kept = {path.name for path in folder.iterdir()}
    assert kept <= {"source.zip.tmp"}
    # What a killed process may leave behind:
    for name in ("source.zip.tmp", "test.qrels.tmp0"):
        (folder / name).write_bytes(QRELS)
    served.answer = "whole"
    frame = beir_qrels("arguana")
    assert frame.values.tolist()[:3] == ROWS
    assert len(frame) == 4003


@needs_ir_datasets
def test_a_slow_download_is_not_given_up_and_is_made_once(served):
    served.answer = "slow"  # 3 s in all, three times the patience
    assert len(beir_qrels("arguana")) == 4003
    served.answer = "error page"
    assert len(beir_qrels("arguana")) == 4003
