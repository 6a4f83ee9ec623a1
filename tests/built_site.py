"""The built site and a browser to visit it with, for the tests of pages.

``$CAUSALRAG_SITE`` names another site than ``book/_build/html``. Without a built book or without
Chromium the tests skip and say so; with ``CAUSALRAG_REQUIRE_BROWSER=1`` a skip is a failure.
"""

from __future__ import annotations

import functools
import http.server
import os
import re
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import pytest

ROOT = Path(__file__).resolve().parent.parent
SITE = Path(os.environ.get("CAUSALRAG_SITE") or ROOT / "book" / "_build" / "html")
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
ELSEWHERE = re.compile(r"^(?:https?|wss?)://(?!127\.0\.0\.1[:/])")
SCHEMES = ("file", "http")


def pages() -> list[str]:
    """Pages for readers: not the theme's own templates, nor the redirect at the root."""
    if not (SITE / "index.html").is_file():
        return []
    found = (path.relative_to(SITE).as_posix() for path in SITE.rglob("*.html"))
    return sorted(
        p for p in found if not p.startswith(("_static/", "_sources/")) and p != "index.html"
    )


PAGES = pages()
CHAPTERS = [page for page in PAGES if page.startswith("notebooks/")]


def cannot_run(reason: str) -> NoReturn:
    if os.environ.get("CAUSALRAG_REQUIRE_BROWSER") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


def need_site() -> None:
    """Skip, or fail, where no book was built."""
    if not CHAPTERS:
        cannot_run(f"no built book in {SITE}: run `make book`")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    need_site()
    executable = next(filter(None, map(shutil.which, BROWSERS)), None)
    if executable is None:
        cannot_run(f"none of {', '.join(BROWSERS)} on the path")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        cannot_run("playwright is not installed: run `make env`")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=executable, args=FLAGS)
        yield running
        running.close()


@pytest.fixture(scope="session")
def addresses() -> Iterator[dict[str, str]]:
    """Where the site is found: as files, and through a server on the loopback interface."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(SITE))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield {"file": SITE.resolve().as_uri(), "http": f"http://127.0.0.1:{server.server_port}"}
        server.shutdown()


@dataclass
class Visitor:
    """A fresh browser profile that lets nothing out and notes what went wrong."""

    page: Any
    errors: list[str] = field(default_factory=list)


@pytest.fixture
def visit(browser, addresses):
    """Return a function that opens a page of the site and returns its visitor."""
    contexts = []

    def visit(address: str, scheme: str = "http", **options: Any) -> Visitor:
        context = browser.new_context(**options)
        context.set_default_timeout(20_000)
        contexts.append(context)
        visitor = Visitor(context.new_page())
        note = visitor.errors.append

        def refuse(route: Any) -> None:
            note(f"request to another host: {route.request.url}")
            route.abort()

        context.route(ELSEWHERE, refuse)
        page = visitor.page
        page.on("console", lambda m: note(f"console: {m.text}") if m.type == "error" else None)
        page.on("pageerror", lambda error: note(f"script: {error}"))
        page.on("requestfailed", lambda r: note(f"not loaded: {r.url} {r.failure}"))
        page.on("response", lambda r: note(f"{r.status}: {r.url}") if r.status >= 400 else None)
        page.goto(f"{addresses[scheme]}/{address}")
        if address != "index.html":  # which leaves at once
            page.evaluate("window.MathJax?.startup?.promise")
        return visitor

    yield visit
    for context in contexts:
        context.close()
