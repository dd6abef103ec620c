"""A real server with a catalog in it, four users, Keycloak, MinIO, and a real browser for each test."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from urllib.parse import urljoin

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect, sync_playwright

from tests.console.browser.console_server import ConsoleServer, User
from tests.console.browser.embedded_server import EmbeddedServer
from tests.harness.run_environment import RunEnvironment
from tests.parts import chromium
from tests.parts.keycloak import Keycloak
from tests.parts.minio import Minio
from tests.parts.server import CatalogServer

expect.set_options(timeout=15_000)

FAILURES = Path(__file__).resolve().parents[3] / "build" / "browser"
"""Pictures of pages on which a test failed."""


STORES = {
    "LAKEKEEPER__PG_ENCRYPTION_KEY": "browser-encryption-key-0123456789abcdef",
    "ICEKEEPER__STORAGE__ALLOW_PRIVATE_ENDPOINTS": "true",
    "ICEKEEPER__STORAGE__ALLOW_HTTP_ENDPOINTS": "true",
    "LAKEKEEPER__TASK_POLL_INTERVAL": "1s",
}
"""Settings of the console's server for MinIO on this machine, and for purges that start soon."""


class Parts:
    """Keycloak and MinIO, which start at the same time, each only if a selected test has its mark.

    The threads that start them live until the end of the run, as the processes end with them.
    """

    def __init__(self, home: Path, *, names: set[str]) -> None:
        self.keycloak, self.minio = Keycloak(home / "keycloak"), Minio(home / "minio")
        self._threads = ThreadPoolExecutor(max_workers=2)
        self._all: dict[str, Keycloak | Minio] = {"keycloak": self.keycloak, "minio": self.minio}
        self._starting = {
            name: self._threads.submit(part.__enter__) for name, part in self._all.items() if name in names
        }

    def has(self, name: str) -> bool:
        """Wait until the part runs; return False if no test needs it. Raises `PartError` if it did not start."""
        return name in self._starting and self._starting[name].result() is not None

    def stop(self) -> None:
        for name, starting in self._starting.items():
            if starting.exception() is None:
                self._all[name].__exit__()
        self._threads.shutdown()


@pytest.fixture(scope="session")
def parts(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Parts]:
    names = {mark.args[0] for item in request.session.items for mark in item.iter_markers("part")}
    parts = Parts(tmp_path_factory.mktemp("parts"), names=names)
    yield parts
    parts.stop()


@pytest.fixture(scope="session")
def console(
    tmp_path_factory: pytest.TempPathFactory, run_environment: RunEnvironment, parts: Parts
) -> Iterator[ConsoleServer]:
    """The console over a catalog whose names, properties and texts carry markup; users sign in at Keycloak, too."""
    home = tmp_path_factory.mktemp("console")
    url = run_environment.own_database("console_in_a_browser")
    further = dict(STORES)
    if parts.has("keycloak"):
        further |= {
            "LAKEKEEPER__OPENID_PROVIDER_URI": parts.keycloak.issuer(),
            "LAKEKEEPER__OPENID_AUDIENCE": "icekeeper",
            "LAKEKEEPER__UI__OPENID_CLIENT_ID": "console",
            "ICEKEEPER__CONSOLE__PROVIDERS__OIDC__NAME": "Keycloak",
        }
    with ConsoleServer(home, database_url=url, further=further) as server:
        server.fill()
        yield server


@pytest.fixture
def console_on_sqlite(tmp_path: Path) -> Iterator[ConsoleServer]:
    """The same catalog on the embedded database."""
    with ConsoleServer(tmp_path, database_url=None, further=STORES) as server:
        server.fill()
        yield server


@pytest.fixture(scope="session")
def minio(parts: Parts) -> Minio:
    assert parts.has("minio")
    return parts.minio


@pytest.fixture(scope="session")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    """What `make run` starts on a new machine."""
    with EmbeddedServer(tmp_path_factory.mktemp("embedded")) as server:
        yield server


@pytest.fixture(scope="session")
def chromium_browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        program = chromium.find_program()
        assert program is not None
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


LINKS = "a[href]:not([download]):not([href*='format='])"

ID = re.compile(r"(?<=[/:])[0-9a-f-]{36}(?=[/:])|(?<=/user/)[^/]+")

FAILED: dict[str, bool] = {}
"""Whether a test has failed so far, by its id."""


class Visitor:
    """A user with a browser of their own: `page`, and the `complaints` of the browser so far.

    Pages of Keycloak, at `keycloak_url`, may be opened and are not examined.
    """

    def __init__(self, context: BrowserContext, console: CatalogServer, keycloak_url: str) -> None:
        self.console, self.context, self.keycloak_url = console, context, keycloak_url
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

    def sign_in_at_keycloak(self, user: str) -> None:
        """Sign in from the sign-in page of the console, as a user of Keycloak's realm."""
        self.open("/ui/")
        self.page.get_by_role("link", name="Sign in with Keycloak").click()
        self.page.get_by_label("Username").fill(user)
        self.page.get_by_label("Password", exact=True).fill(f"{user}-password")
        self.page.get_by_role("button", name="Sign In").click()
        self.page.wait_for_url("**/ui/")

    def go_to(self, entry: str) -> None:
        """Open an entry of the sidebar."""
        self.page.get_by_role("navigation", name="Main").get_by_role("link", name=entry, exact=True).click()
        expect(self.page.get_by_role("heading", level=1)).to_have_text(entry)

    def reload_until(self, shown: Locator) -> None:
        """Load the page again until it shows something that the server does in the background."""
        for _ in range(50):
            with suppress(AssertionError):
                expect(shown).to_be_visible(timeout=300)
                return
            self.page.reload()
        expect(shown).to_be_visible()

    def follow_links(self) -> dict[str, int]:
        """Open a page of each kind to which links lead from the overview, and return their statuses by path.

        Pages whose addresses differ only in ids or in the query are of one kind. No download is opened.
        """
        found: dict[str, int] = {}
        waiting, kinds = ["/ui/"], set[str]()
        while waiting:
            target = waiting.pop()
            path = target.partition("?")[0]
            if (kind := ID.sub("*", path)) in kinds:
                continue
            kinds.add(kind)
            found[path] = self.open(target)
            for link in self.page.locator(LINKS).evaluate_all("links => links.map(each => each.getAttribute('href'))"):
                linked = urljoin(self.page.url, link).removeprefix(self.console.base_url).partition("#")[0]
                if linked.startswith("/ui/"):
                    waiting.append(linked)
        return found

    def _note_message(self, message: object) -> None:
        text, kind = getattr(message, "text", ""), getattr(message, "type", "")
        if self.page.url.startswith(self.keycloak_url):
            return
        # A page with an error status is itself reported as a resource that failed to load.
        if kind in {"error", "warning"} and "Failed to load resource" not in text:
            self.complaints.append(f"{kind}: {text}")

    def _note_request(self, request: object) -> None:
        url = getattr(request, "url", "")
        if not url.startswith((self.console.base_url, self.keycloak_url, "data:")):
            self.foreign_requests.append(url)


Visit = Callable[..., Visitor]


@pytest.fixture
def visit(
    chromium_browser: Browser, console: ConsoleServer, parts: Parts, request: pytest.FixtureRequest
) -> Iterator[Visit]:
    """Return a function that opens a browser: `visit(user, dark=True, phone=True)`; without a user it is signed out.

    `server` is another server than the console's.
    """
    contexts: list[BrowserContext] = []
    visitors: list[Visitor] = []

    def open_browser(
        user: User | None = None, *, dark: bool = False, phone: bool = False, server: CatalogServer = console
    ) -> Visitor:
        state = None
        if user is not None:
            assert isinstance(server, ConsoleServer)
            state = server.signed_in(user, chromium_browser)
        context = chromium_browser.new_context(
            viewport={"width": 390, "height": 844} if phone else {"width": 1440, "height": 900},
            color_scheme="dark" if dark else "light",
            storage_state=state,
        )
        context.set_default_timeout(15_000)
        contexts.append(context)
        visitors.append(Visitor(context, server, parts.keycloak.base_url))
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
