"""Every page passes axe without a serious or critical finding, on a desktop and on a phone."""

from __future__ import annotations

import pytest
from built_site import PAGES
from test_book import open_all

pytestmark = pytest.mark.browser

SERIOUS = ("serious", "critical")
VIEWS = {
    "desktop, light": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"},
    "phone, dark": {"viewport": {"width": 400, "height": 800}, "color_scheme": "dark"},
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("page_name", PAGES)
def test_axe_finds_nothing_serious(visit, page_name, view):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page = visit(page_name, **VIEWS[view]).page
    open_all(page)
    page.wait_for_timeout(300)  # what overflows is marked after a pause (scrollers.js)
    found = axe.run(page).response["violations"]
    told = [
        f"{one['id']} ({one['impact']}): {node['target']}"
        for one in found
        if one["impact"] in SERIOUS
        for node in one["nodes"][:3]
    ]
    assert told == []
