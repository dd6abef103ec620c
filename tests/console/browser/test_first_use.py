"""The first use of the embedded default, as `make run` starts it on a new machine."""

from __future__ import annotations

import subprocess
import sys

from playwright.sync_api import expect

from tests.console.browser.conftest import Visit
from tests.console.browser.embedded_server import EmbeddedServer


def test_from_the_first_start_to_the_first_table(visit: Visit, embedded: EmbeddedServer) -> None:
    """Sign in by the printed address, run the code that the empty warehouse shows, see the table, open all pages."""
    visitor = visit(server=embedded)
    page = visitor.page
    visitor.context.grant_permissions(["clipboard-read", "clipboard-write"])

    page.goto(embedded.printed_address())
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    expect(page.get_by_text("Authentication is off.")).to_be_visible()
    page.get_by_role("link", name="local", exact=True).click()
    page.get_by_role("navigation", name="Tabs").get_by_role("link", name="Contents").click()
    expect(page.get_by_role("heading", name="Create the first table")).to_be_visible()
    page.get_by_role("button", name="Copy PyIceberg, Create a table").click()
    expect(page.locator(".ik-toast")).to_have_text("Copied")
    program = page.evaluate("navigator.clipboard.readText()")

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert '"Rome","Oslo","Lima"' in done.stdout

    page.reload()
    contents = page.get_by_role("region", name="Contents")
    contents.get_by_role("link", name="demo").click()
    contents.get_by_role("link", name="cities").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("cities")
    expect(page.get_by_role("heading", name="Read this table")).to_be_visible()
    expect(page.get_by_role("row", name="city string")).to_be_visible()
    page.get_by_role("link", name="Snapshots").click()
    expect(page.get_by_role("row", name="append")).to_have_count(1)

    statuses = visitor.follow_links()
    assert set(statuses.values()) == {200}, statuses
    assert len(statuses) > 30
