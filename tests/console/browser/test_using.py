"""Use of the console: by mouse and keyboard, with and without its script."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.console.browser.conftest import Visit
from tests.console.browser.console_server import HOSTILE_NAME, ConsoleServer, User
from tests.console.browser.test_pages import barriers


def test_a_one_time_address_signs_in_once(visit: Visit, console: ConsoleServer) -> None:
    visitor = visit()
    address = console.one_time_address(User.INSTANCE_ADMIN)
    visitor.page.goto(address)
    visitor.page.get_by_role("button", name="Sign in").click()
    expect(visitor.page.get_by_role("heading", name="Overview", level=1)).to_be_visible()
    visitor.page.locator(".ik-user-menu > summary").click()
    visitor.page.get_by_role("button", name="Sign out").click()
    assert visitor.open(address.removeprefix(console.base_url)) == 403
    expect(visitor.page.get_by_role("button", name="Sign in")).to_have_count(0)


def test_a_deep_link_leads_to_its_page_after_the_sign_in(visit: Visit, console: ConsoleServer) -> None:
    visitor = visit()
    visitor.open(f"/ui/warehouse/{console.ids['warehouse']}/table/{console.ids['table']}/schema/")
    assert "/ui/sign-in/" in visitor.page.url
    visitor.page.get_by_text("access token", exact=False).first.click()
    visitor.page.get_by_label(re.compile("token", re.IGNORECASE)).fill(console.token(User.INSTANCE_ADMIN))
    visitor.page.get_by_role("button", name=re.compile("token", re.IGNORECASE)).click()
    expect(visitor.page.get_by_role("heading", name="lines", level=1)).to_be_visible()
    assert visitor.page.url.endswith("/schema/")


def test_the_tree_by_keyboard(visit: Visit, console: ConsoleServer) -> None:
    visitor = visit(User.INSTANCE_ADMIN)
    visitor.open("/ui/catalog/")
    page = visitor.page
    page.get_by_role("treeitem", name="lake").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("treeitem", name="sales")).to_be_visible()
    page.get_by_role("treeitem", name="sales").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("treeitem", name="orders")).to_be_visible()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("treeitem", name="lines")).to_be_visible()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="lines", level=1)).to_be_visible()
    expect(page.get_by_role("treeitem", name="lines")).to_have_attribute("aria-selected", "true")


def test_a_large_level_of_the_tree_is_filtered(visit: Visit, console: ConsoleServer) -> None:
    console.add_namespaces("many", [*(f"n{number:03}" for number in range(101)), HOSTILE_NAME])
    visitor = visit(User.INSTANCE_ADMIN)
    visitor.open(f"/ui/warehouse/{console.warehouse_id}/")
    page = visitor.page
    page.get_by_role("treeitem", name="many").focus()
    page.keyboard.press("ArrowRight")
    field = page.get_by_role("tree").get_by_role("searchbox")
    field.fill("07")
    expect(page.get_by_role("treeitem", name="n070")).to_be_visible()
    expect(page.get_by_role("treeitem", name="n007")).to_be_visible()
    expect(page.get_by_role("treeitem", name="n001")).to_have_count(0)
    assert barriers(visitor) == []
    field.fill(HOSTILE_NAME.upper())
    expect(page.get_by_role("treeitem", name=HOSTILE_NAME)).to_have_count(2)
    expect(page.get_by_role("treeitem", name="n070")).to_have_count(0)
    field.fill("none of these")
    expect(page.get_by_text("No names match")).to_be_visible()
    field.fill("")
    expect(page.get_by_role("treeitem", name="n050")).to_be_visible()
    expect(field).to_be_focused()
    field.press("ArrowDown")
    expect(page.locator("a[role=treeitem]:focus")).to_have_count(1)
    page.keyboard.press("ArrowUp")
    expect(field).to_be_focused()
    page.get_by_role("treeitem", name="Load 100 more").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("treeitem", name="n100")).to_be_visible()
    expect(page.locator("a[role=treeitem]:focus")).to_have_count(1)
    expect(field).to_have_count(1)
    console.drop_namespace("many")


def test_search_by_keyboard(visit: Visit) -> None:
    visitor = visit(User.INSTANCE_ADMIN)
    visitor.open("/ui/")
    page = visitor.page
    page.keyboard.press("Control+k")
    page.keyboard.type("lines")
    expect(page.locator(".ik-palette-results a").first).to_contain_text("lines")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="lines", level=1)).to_be_visible()


def test_shortcuts_of_single_keys(visit: Visit) -> None:
    visitor = visit(User.INSTANCE_ADMIN)
    visitor.open("/ui/")
    page = visitor.page
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keyboard shortcuts")
    expect(dialog.get_by_role("link", name="Tasks")).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    page.keyboard.press("g")
    page.keyboard.press("c")
    expect(page.get_by_role("heading", name="Catalog", level=1)).to_be_visible()
    page.keyboard.press("/")
    expect(page.get_by_role("dialog", name="Search")).to_be_visible()
    page.keyboard.type("?g")
    expect(page.get_by_role("searchbox").first).to_have_value("?g")
    page.keyboard.press("Escape")
    visitor.open("/ui/profile/")
    page.get_by_role("button", name="Switch off").click()
    page.get_by_text("Shortcuts of a single key are off in this browser").wait_for()
    page.keyboard.press("g")
    page.keyboard.press("o")
    expect(page.get_by_role("heading", name="Profile", exact=False)).to_be_visible()
    page.keyboard.press("Control+k")
    expect(page.get_by_role("dialog", name="Search")).to_be_visible()


def test_search_finds_only_what_the_user_may_see(visit: Visit) -> None:
    visitor = visit(User.WITHOUT_GRANTS)
    visitor.open("/ui/search/?q=lines")
    expect(visitor.page.get_by_text("Nothing that you may see")).to_be_visible()
    assert "sales" not in visitor.page.content()


def test_hostile_names_are_text(visit: Visit, console: ConsoleServer) -> None:
    visitor = visit(User.INSTANCE_ADMIN)
    visitor.open(f"/ui/warehouse/{console.ids['warehouse']}/table/{console.ids['hostile table']}/")
    expect(visitor.page.get_by_role("heading", level=1)).to_have_text(HOSTILE_NAME)
    assert visitor.page.locator("img[src=x]").count() == 0


def test_the_skip_link_is_the_first_stop(visit: Visit) -> None:
    visitor = visit(User.INSTANCE_ADMIN)
    visitor.open("/ui/")
    visitor.page.keyboard.press("Tab")
    expect(visitor.page.get_by_text("Skip to content")).to_be_focused()
    visitor.page.keyboard.press("Enter")
    expect(visitor.page.locator("#ik-main")).to_be_focused()


def test_the_theme_is_kept(visit: Visit) -> None:
    visitor = visit(User.INSTANCE_ADMIN)
    visitor.open("/ui/")
    visitor.page.locator(".ik-user-menu > summary").click()
    visitor.page.get_by_role("button", name="Dark").click()
    visitor.open("/ui/catalog/")
    expect(visitor.page.locator("html")).to_have_class(re.compile(r"\bdark\b"))


def test_snapshots_are_compared(visit: Visit, console: ConsoleServer) -> None:
    visitor = visit(User.INSTANCE_ADMIN)
    visitor.open(f"/ui/warehouse/{console.ids['warehouse']}/table/{console.ids['table']}/snapshots/")
    for box in visitor.page.get_by_role("checkbox").all()[:2]:
        box.check()
    visitor.page.get_by_role("button", name="Compare 2 snapshots").click()
    expect(visitor.page.get_by_role("heading", name="Comparison")).to_be_visible()
    expect(visitor.page.get_by_role("row", name="Rows 3 6")).to_be_visible()


def test_a_token_is_created_and_copied(visit: Visit) -> None:
    visitor = visit(User.DATA_ENGINEER)
    visitor.context.grant_permissions(["clipboard-read", "clipboard-write"])
    visitor.open("/ui/")
    page = visitor.page
    page.locator(".ik-user-menu > summary").click()
    page.get_by_role("link", name="Profile and sessions").click()
    page.get_by_text("Create a token").click()
    page.get_by_label("Name").fill(HOSTILE_NAME)
    page.get_by_role("button", name="Create token").click()
    expect(page.get_by_role("heading", name="The new token")).to_contain_text(HOSTILE_NAME)
    page.get_by_role("button", name="Copy the token").click()
    expect(page.locator(".ik-toast")).to_have_text("Copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert re.fullmatch(r"ikp_[0-9A-Za-z]{22}_[0-9A-Za-z]{49}", copied)
    visitor.open("/ui/profile/")
    assert copied not in page.content()


def test_a_member_is_added_without_a_script(visit: Visit, console: ConsoleServer) -> None:
    visitor = visit(User.PROJECT_ADMIN)
    context = visitor.context.browser.new_context(
        storage_state=visitor.context.storage_state(), java_script_enabled=False
    )
    page = context.new_page()
    page.goto(f"{console.base_url}/ui/role/{console.ids['role']}/")
    page.get_by_role("searchbox", name="Name, email address or id").fill("engineer")
    page.get_by_role("button", name="Find").click()
    page.get_by_role("button", name="Add engineer").click()
    expect(page.get_by_role("status")).to_contain_text("engineer is a member")
    expect(page.get_by_role("link", name="engineer", exact=True)).to_be_visible()
    page.get_by_role("button", name="Remove engineer").click()
    expect(page.get_by_role("link", name="engineer", exact=True)).to_have_count(0)
    context.close()


def test_times_are_in_the_zone_of_the_reader(visit: Visit, console: ConsoleServer) -> None:
    """A field shows and takes the time of the reader's zone, which is 5:30 ahead, and the server gets UTC."""
    visitor = visit(User.INSTANCE_ADMIN)
    context = visitor.context.browser.new_context(
        storage_state=visitor.context.storage_state(), timezone_id="Asia/Kolkata", base_url=console.base_url
    )
    page = context.new_page()
    page.goto("/ui/audit/?start=2026-11-01T00:00")
    field = page.get_by_label("From (Asia/Calcutta)").or_(page.get_by_label("From (Asia/Kolkata)"))
    expect(field).to_have_value("2026-11-01T05:30")
    field.fill("2026-11-02T05:30")
    page.get_by_role("button", name="Filter").click()
    page.wait_for_url("**start=2026-11-02T00%3A00**")
    expect(field).to_have_value("2026-11-02T05:30")
    context.close()


def test_rows_are_read(visit: Visit, console: ConsoleServer) -> None:
    visitor = visit(User.DATA_ENGINEER, phone=True)
    visitor.open(f"/ui/warehouse/{console.ids['warehouse']}/table/{console.ids['table']}/preview/")
    page = visitor.page
    page.get_by_role("button", name="Read 100 rows").click()
    expect(page.get_by_role("cell", name="Oslo").first).to_be_visible(timeout=30_000)
    expect(page.get_by_role("heading", name="Columns")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert barriers(visitor) == []


def test_files_are_read_by_the_worker(visit: Visit, console: ConsoleServer) -> None:
    visitor = visit(User.DATA_ENGINEER)
    visitor.open(f"/ui/warehouse/{console.ids['warehouse']}/table/{console.ids['table']}/files/")
    page = visitor.page
    page.get_by_role("button", name="Read the files").click()
    chart = page.get_by_role("img", name=re.compile("2 data files by size; the target is 512"))
    expect(chart).to_be_visible()
    expect(page.get_by_role("heading", name="Partitions")).to_be_visible()
    page.get_by_role("navigation").get_by_role("link", name="Health").click()
    expect(page.get_by_text("What is good")).to_be_visible()
    assert barriers(visitor) == []
