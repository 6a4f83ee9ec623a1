"""Every test is offline: what would reach for another host is refused at once."""

from __future__ import annotations

import os

import pytest
from built_site import addresses, browser, visit  # noqa: F401  (fixtures of the browser tests)


@pytest.fixture(autouse=True, scope="session")
def offline(tmp_path_factory):
    """Give this process and its children a proxy that nobody serves, and no downloads."""
    closed = "http://127.0.0.1:9"
    settings = {
        "http_proxy": closed,
        "https_proxy": closed,
        "no_proxy": "127.0.0.1,localhost",
        "HF_HUB_OFFLINE": "1",
        "IR_DATASETS_HOME": str(tmp_path_factory.mktemp("ir_datasets")),
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            for spelling in {name, name.upper()} if "proxy" in name else {name}:
                patch.setitem(os.environ, spelling, value)
        yield
