"""Journeys about access, with users of Keycloak: grant to a team, explain a denial, review access, rotate a token."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
import requests
from playwright.sync_api import Locator, Page, expect

from tests.console.browser.conftest import Parts, Visit
from tests.console.browser.console_server import HOSTILE_NAME, MARKUP, ConsoleServer, User

pytestmark = pytest.mark.part("keycloak")

TEAM = "finance <b>&amp;\u05e6\u05d5\u05d5\u05ea"  # in Hebrew letters, from right to left
READ = "/catalog/v1/{warehouse}/namespaces/sales%1Forders/tables/lines"


def choose_principal(field: Locator, text: str, name: str) -> None:
    """Type into a principal picker, and choose by keyboard the suggestion that begins with the name."""
    field.press_sequentially(text)
    expect(field.page.get_by_role("option", name=name)).to_be_visible()
    field.press("ArrowDown")
    field.press("Enter")
    expect(field).to_have_value(name)


def read_by(console: ConsoleServer, token: str) -> int:
    """Return the status of a load of the table `lines` with a token."""
    path = READ.format(warehouse=console.warehouse_id)
    headers = {"Authorization": f"Bearer {token}"}
    return requests.get(console.base_url + path, headers=headers, timeout=30).status_code


def open_lines(page: Page) -> None:
    """Open the table `lines` by the search box."""
    page.keyboard.press("Control+k")
    page.keyboard.type("lines")
    expect(page.locator(".ik-palette-results a").first).to_contain_text("lines")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("lines")


def test_a_team_gets_access(visit: Visit, console: ConsoleServer) -> None:
    """Bob, who has no access, is added to a role that gets a grant, and sees the table."""
    bob, admin = visit(), visit(User.PROJECT_ADMIN)
    bob.sign_in_at_keycloak("bob")
    expect(bob.page.get_by_role("heading", name="You have no access yet")).to_be_visible()
    assert "lines" not in bob.page.content()

    page = admin.page
    admin.open("/ui/")
    admin.go_to("Roles")
    page.get_by_text("Create a role").click()
    page.get_by_label("Name", exact=True).fill(TEAM)
    page.get_by_role("button", name="Create role").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(TEAM)
    page.get_by_role("searchbox", name="Name, email address or id").fill("baker")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Add Bob Baker").click()
    expect(page.get_by_role("status").first).to_contain_text("Bob Baker is a member")

    admin.go_to("Catalog")
    page.get_by_role("link", name="lake", exact=True).last.click()
    page.get_by_role("region", name="Contents").get_by_role("link", name="sales").click()
    page.get_by_role("link", name="Access", exact=True).click()
    form = page.get_by_role("form", name="New grant")
    choose_principal(form.get_by_role("combobox", name="Principal"), "finance", TEAM)
    form.get_by_label("Privilege").select_option("select")
    form.get_by_role("button", name="Preview effect").click()
    expect(page.get_by_text("Bob Baker")).to_be_visible()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("status").first).to_contain_text("select on namespace sales granted to")
    expect(page.get_by_role("row").filter(has_text=TEAM)).to_contain_text("select")

    bob.page.reload()
    expect(bob.page.get_by_role("heading", name="You have no access yet")).to_have_count(0)
    open_lines(bob.page)
    bob.page.get_by_role("link", name="Access", exact=True).click()
    expect(bob.page.get_by_role("list", name="Allowed to you")).to_contain_text("read data")
    expect(bob.page.get_by_role("button", name="Grant")).to_have_count(0)


def test_a_denial_is_explained_and_cured(visit: Visit, console: ConsoleServer, parts: Parts) -> None:
    token = parts.keycloak.sign_in("ben")
    console.register(token)
    assert read_by(console, token) == 404
    visitor = visit(User.PROJECT_ADMIN)
    visitor.open("/ui/")
    page = visitor.page
    open_lines(page)
    page.get_by_role("link", name="Access", exact=True).click()

    def explain() -> Locator:
        box = page.locator("#explain")
        choose_principal(box.get_by_role("combobox", name="Principal"), "ben", "Ben Brown")
        box.get_by_label("Action").select_option(label="read data")
        box.get_by_role("button", name="Explain").click()
        return page.locator("#explain")

    explained = explain()
    expect(explained).to_contain_text("Denied Ben Brown cannot read data")
    expect(explained).to_contain_text("Any one of these grants would allow it")
    cures = explained.get_by_role("listitem").filter(has_text="select").filter(has_text="namespace sales")
    cures.get_by_role("link").first.click()
    form = page.get_by_role("form", name="New grant")
    expect(form.get_by_role("combobox", name="Principal")).to_have_value("Ben Brown")
    expect(form.get_by_label("Privilege")).to_have_value("select")
    form.get_by_role("button", name="Grant", exact=True).click()
    expect(page.get_by_role("status").first).to_contain_text("granted to Ben Brown")

    open_lines(page)
    page.get_by_role("link", name="Access", exact=True).click()
    explained = explain()
    expect(explained).to_contain_text("Allowed Ben Brown can read data because Ben Brown has select on")
    assert read_by(console, token) == 200


def test_access_is_reviewed_and_exported(visit: Visit, tmp_path: Path) -> None:
    visitor = visit(User.PROJECT_ADMIN)
    visitor.open("/ui/")
    visitor.go_to("Access review")
    page = visitor.page
    choose_principal(page.get_by_role("combobox", name="Principal"), "engineer", "engineer")
    page.get_by_role("button", name="Show").first.click()
    review = page.get_by_role("region", name="Access review")
    expect(review.get_by_role("row").filter(has_text="sales")).to_contain_text("select")
    page.get_by_role("link", name="Objects of a warehouse").click()
    page.get_by_role("main").get_by_role("link", name="lake", exact=True).click()
    expect(review.get_by_role("row").filter(has_text="lines")).to_contain_text("select")
    with page.expect_download() as started:
        page.get_by_role("link", name="CSV").click()
    file = tmp_path / "review.csv"
    started.value.save_as(file)
    rows = {row["object_name"]: row for row in csv.DictReader(io.StringIO(file.read_text()))}
    assert "select" in rows["lake / sales / orders / lines"]["privileges"].split()
    assert HOSTILE_NAME not in str(rows)


def test_a_token_of_a_service_account_is_rotated(visit: Visit, console: ConsoleServer) -> None:
    visitor = visit(User.INSTANCE_ADMIN)
    visitor.open("/ui/")
    visitor.go_to("Service accounts")
    page = visitor.page
    page.get_by_text("Create a service account").click()
    page.get_by_label("Name", exact=True).fill(f"nightly {MARKUP}")
    page.get_by_role("button", name="Create service account").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"nightly {MARKUP}")
    page.get_by_text("Create a token", exact=True).click()
    page.get_by_label("Name", exact=True).fill("loader")
    page.get_by_role("button", name="Create token").click()

    def shown_token() -> str:
        text = page.locator(".ik-secret").inner_text()
        return text.split()[0]

    old = shown_token()
    console.grant_to_caller(old, f"warehouse/{console.warehouse_id}", "select")
    assert read_by(console, old) == 200
    page.get_by_role("button", name="Rotate loader").click()
    expect(page.get_by_role("heading", name="The new token")).to_be_visible()
    new = shown_token()
    assert new != old
    assert [read_by(console, each) for each in (old, new)] == [200, 200], "the old one is valid for an hour"
    page.get_by_role("row").filter(has_text="replaced").get_by_role("link", name="Revoke… loader").click()
    page.get_by_role("button", name="Revoke").click()
    expect(page.get_by_role("status").first).to_contain_text("is revoked")
    assert [read_by(console, each) for each in (old, new)] == [401, 200]
    assert new not in page.content()
