"""A real server with a catalog in it, four users, and a real browser for each test."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests.console.browser.console_server import ConsoleServer, User
from tests.harness.run_environment import RunEnvironment
from tests.parts import chromium

FAILURES = Path(__file__).resolve().parents[3] / "build" / "browser"
"""Pictures of pages on which a test failed."""


@pytest.fixture(scope="session")
def console(tmp_path_factory: pytest.TempPathFactory, run_environment: RunEnvironment) -> Iterator[ConsoleServer]:
    """The console over a catalog whose names, properties and texts carry markup."""
    home = tmp_path_factory.mktemp("console")
    with ConsoleServer(home, database_url=run_environment.own_database("console_in_a_browser")) as server:
        server.fill()
        yield server


@pytest.fixture(scope="session")
def chromium_browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        program = chromium.find_program()
        assert program is not None
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


FAILED: dict[str, bool] = {}
"""Whether a test has failed so far, by its id."""


class Visitor:
    """A user with a browser of their own: `page`, and the `complaints` of the browser so far."""

    def __init__(self, context: BrowserContext, console: ConsoleServer) -> None:
        self.console, self.context = console, context
        self.page: Page = context.new_page()
        self.complaints: list[str] = []
        self.foreign_requests: list[str] = []
        self.page.on("console", self._note_message)
        self.page.on("pageerror", lambda error: self.complaints.append(f"script error: {error}"))
        self.page.on("dialog", lambda dialog: self.complaints.append(f"dialog: {dialog.message}"))
        self.page.on("request", self._note_request)

    def open(self, path: str) -> int:
        """Open an address of the console and wait until nothing loads; return the status."""
        response = self.page.goto(self.console.base_url + path)
        assert response is not None
        if self.page.locator("[data-tree-src]").count():
            self.page.locator("[role=tree]").wait_for(state="attached")
        return response.status

    def sign_in(self, user: User) -> None:
        self.page.goto(self.console.one_time_address(user))
        self.page.get_by_role("button", name="Sign in").click()
        self.page.wait_for_url("**/ui/**")

    def _note_message(self, message: object) -> None:
        text, kind = getattr(message, "text", ""), getattr(message, "type", "")
        # A page with an error status is itself reported as a resource that failed to load.
        if kind in {"error", "warning"} and "Failed to load resource" not in text:
            self.complaints.append(f"{kind}: {text}")

    def _note_request(self, request: object) -> None:
        url = getattr(request, "url", "")
        if not url.startswith((self.console.base_url, "data:")):
            self.foreign_requests.append(url)


@pytest.fixture
def visit(
    chromium_browser: Browser, console: ConsoleServer, request: pytest.FixtureRequest
) -> Iterator[Callable[..., Visitor]]:
    """Return a function that opens a browser: `visit(user, dark=True, phone=True)`; without a user it is signed out."""
    contexts: list[BrowserContext] = []
    visitors: list[Visitor] = []

    def open_browser(user: User | None = None, *, dark: bool = False, phone: bool = False) -> Visitor:
        context = chromium_browser.new_context(
            viewport={"width": 390, "height": 844} if phone else {"width": 1440, "height": 900},
            color_scheme="dark" if dark else "light",
            storage_state=None if user is None else console.signed_in(user, chromium_browser),
        )
        context.set_default_timeout(15_000)
        contexts.append(context)
        visitors.append(Visitor(context, console))
        return visitors[-1]

    yield open_browser
    failed = FAILED.get(request.node.nodeid, False)
    for number, visitor in enumerate(visitors):
        if failed:
            FAILURES.mkdir(parents=True, exist_ok=True)
            name = "".join(letter if letter.isalnum() else "_" for letter in request.node.name)[:80]
            visitor.page.screenshot(path=FAILURES / f"{name}-{number}.png", full_page=True)
    for context in contexts:
        context.close()
    for visitor in visitors:
        assert visitor.complaints == []
        assert visitor.foreign_requests == []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    FAILED[item.nodeid] = FAILED.get(item.nodeid, False) or report.failed
    return report
