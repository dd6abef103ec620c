"""Every address of the console is opened by four kinds of users, and shows what the APIs return to the same user."""

from __future__ import annotations

from urllib.parse import urlsplit
from uuid import UUID

import pytest
from django.db import transaction
from django.urls import resolve

from catalog.models import ChangeRule, Tabular
from catalog.selectors.change_rules import RuleScope
from catalog.services.change_rules import RuleContent, create_change_rule
from events.models import DeadLetter
from events.services.sinks import SinkSettings, create_sink
from icekeeper.kernel.clock import now
from management.admin.headers import CONTENT_SECURITY_POLICY
from management.admin.urls import urlpatterns
from management.endpoint_statistics import CallCount, CallKey, record_calls
from tasks.models import Task
from tenancy.actor import INTERNAL
from tenancy.audit.collector import collector
from tenancy.audit.rule_findings import FindingResult, RuleFinding, record_rule_finding
from tenancy.models import OutboxEvent, Securable, User
from tenancy.models.securable import ObjectRef
from tenancy.services.access_tokens import create_token
from tests.console.conftest import Open
from tests.console.rights_pages import ListPage, Objects, SentForm, list_pages, pages_with_actions, sent_forms
from tests.console.sign_in.browser import Browser, Page
from tests.console.test_rights import USERS, Ids, grants, ids, pages_and_calls, pages_of_changes  # noqa: F401 - fixtures
from tests.events.event_fixtures import publish_everything
from tests.harness.named_callers import CallerClient

pytestmark = pytest.mark.django_db(databases="__all__")

SOME_ID = str(UUID(int=7))
NO_IDS = Ids(SOME_ID, "p", SOME_ID, SOME_ID, *({"open": SOME_ID, "closed": SOME_ID} for _ in range(3)))
NO_OBJECTS = Objects(
    "p", SOME_ID, SOME_ID, SOME_ID, SOME_ID, {"open.b": SOME_ID}, {"open.b": SOME_ID}, SOME_ID, SOME_ID,
    SOME_ID, f"icekeeper~{SOME_ID}", SOME_ID, SOME_ID, SOME_ID, "1", "1", SOME_ID,
)  # fmt: skip


def test_every_address_is_compared() -> None:
    """A page that is new must be in one of the lists of `test_rights` or `rights_pages`."""
    addresses = [
        *pages_and_calls(NO_IDS), *pages_of_changes(NO_IDS), *pages_with_actions(NO_OBJECTS),
        *(each.address for each in list_pages(NO_OBJECTS)), *(each.address for each in sent_forms(NO_OBJECTS)),
    ]  # fmt: skip
    compared = {resolve(urlsplit(each).path).url_name for each in addresses}
    assert {each.name for each in urlpatterns} == compared


WEBHOOK = {"type": "webhook", "url": "https://127.0.0.1:9/"}
MARKUP = "<img src=x onerror=alert(1)>\"'{{7*7}}"


def check_page(page: Page) -> None:
    """Texts of users are no markup, no cache keeps the page, and no other site frames it."""
    if page.header("Content-Type").startswith("text/html"):
        assert "<img src=x" not in page.text
        assert f"'{7 * 7}" not in page.text
    assert page.header("X-Content-Type-Options") == "nosniff"
    assert page.header("Cache-Control") == "private, no-store"
    assert page.header("X-Frame-Options") == "DENY"
    assert page.header("Content-Security-Policy") == CONTENT_SECURITY_POLICY


@pytest.fixture
def objects(
    grants: None,  # noqa: F811
    ids: Ids,  # noqa: F811
    lake: dict[str, ObjectRef],
    root: CallerClient,
    soft_delete: int,
) -> Objects:
    """Accounts, tags, two dropped tables with their tasks, and a call that is counted; their names are markup."""
    manage, instance = CallerClient("/management/v1", "root"), CallerClient("/management/v1", "instance")
    outer, inner = (
        manage.post("/role", {"name": name + MARKUP, "description": MARKUP}).json()["id"] for name in ("team", "inner")
    )
    members = [{"type": "role", "id": inner}, {"type": "user", "id": "oidc~engineer"}]
    assert manage.post(f"/role/{outer}/members", {"members": members}).status < 300
    marker = {"scope": ["table"], "value-kind": "marker"}
    tag = manage.post("/tag-definition", {"name": "pii", "description": MARKUP, **marker}).json()["id"]
    account = instance.post("/service-account", {"name": MARKUP, "description": MARKUP}).json()["id"]
    token = create_token(actor=INTERNAL, user_id=account, name=MARKUP).row.pk
    for namespace in ("open", "closed"):
        assert root.delete(f"/namespaces/{namespace}/tables/b").status == 204
    dropped = {
        ".".join((*each["namespace"], each["name"])): each["id"]
        for each in manage.get(f"/warehouse/{ids.warehouse}/deleted-tabulars").json()["tabulars"]
    }
    tasks = manage.post(f"/warehouse/{ids.warehouse}/task/list", {}).json()["tasks"]
    of_table = {each["entity"]["table-id"]: each["task-id"] for each in tasks}
    for path in ("/project", f"/warehouse/{ids.warehouse}"):
        assert manage.post(f"{path}/rename", {"new-name": MARKUP}).status == 200
    User.objects.filter(id__in=["oidc~engineer", "oidc~lead"]).update(name=MARKUP, email=MARKUP)
    Task.objects.filter(pk=of_table[dropped["open.b"]]).update(message=MARKUP)
    of_project = Task.objects.create(
        queue=Task.Queue.STATISTICS, project_id=ids.project, entity_type="project", message=MARKUP
    )
    record_calls(
        {CallKey(int(now().timestamp() // 3600), "GET", "catalog/v1/counted", 200, None, None): CallCount(0.0)}
    )
    sink = create_sink(actor=INTERNAL, wanted=SinkSettings(name="<img src=x onerror=alert(1)>", configuration=WEBHOOK))
    publish_everything()
    letter = DeadLetter.objects.create(
        sink=sink,
        position=7,
        event_id=sink.pk,
        type=MARKUP,
        object_key=MARKUP,
        error=MARKUP,
        event='{"name": "<img src=x>"}',
    )
    rule = create_rule_with_finding(ids)
    event = OutboxEvent.objects.filter(warehouse_id=ids.warehouse).order_by("-position")[0]
    return Objects(
        ids.project, ids.warehouse, ids.open, ids.tables["open"], ids.tables["closed"],
        {name: dropped[name] for name in ("open.b", "closed.b")}, {name: of_table[dropped[name]] for name in dropped},
        str(of_project.pk), outer, inner, account, str(token), tag,
        str(sink.pk), str(letter.position), str(event.position), str(rule.pk),
    )  # fmt: skip


def create_rule_with_finding(ids: Ids) -> ChangeRule:  # noqa: F811
    """Create a rule of the warehouse, and a record of a change of the visible table that it rejected."""
    scope = RuleScope(Securable.Type.WAREHOUSE, ids.warehouse)
    content = RuleContent(name=MARKUP, configuration={"properties": {MARKUP: None}}, is_enabled=False)
    rule = create_change_rule(actor=INTERNAL, scope=scope, kind="required-properties", content=content)
    table = Tabular.objects.get(uuid=ids.tables["open"])
    details = {
        "named": MARKUP, "kind": rule.kind, "violation": MARKUP, "warehouse": ids.warehouse, "levels": [MARKUP],
        "uuid": ids.tables["open"],
    }  # fmt: skip
    finding = RuleFinding(
        FindingResult.VETOED, "commit", ObjectRef(Securable.Type.TABLE, table.pk), ids.project, rule.pk, details
    )
    record_rule_finding(actor=INTERNAL, finding=finding)
    collector.write_pending()
    return rule


def test_pages_agree_with_the_apis(objects: Objects, open_as: Open) -> None:
    """Where the APIs deny a list, the page is missing, too, or shows nothing of it."""
    different: list[tuple[object, ...]] = []
    shown = dict.fromkeys(USERS, 0)
    for name in USERS:
        browser = open_as(name)
        for each in list_pages(objects):
            shown[name] += compare_list(name, browser, each, different)
        for address, call in pages_with_actions(objects).items():
            page, expected = browser.get(address), call.status(name)
            check_page(page)
            if (200 if page.status == 302 else page.status) != expected:
                different.append((name, address, page.status, expected))
        for form in sent_forms(objects):
            compare_form(name, browser, form, different)
    assert not different, "\n".join(map(str, different))
    assert shown["instance"] >= shown["lead"] > shown["engineer"] > shown["guest"] == 0


def compare_list(name: str, browser: Browser, each: ListPage, different: list[tuple[object, ...]]) -> int:
    """Note a list that differs from that of the API; return how many of the objects the page shows."""
    page, response = browser.get(each.address), each.call.send(name)
    check_page(page)
    text = page.text.partition('id="ik-main"')[2] or page.text
    shown = {label for label in each.texts if label in text}
    is_listed = response.status == 200
    content = each.read(response.body) if is_listed else ""
    listed = {label for label, found in each.texts.items() if found in content}
    denied = {404} if response.status == 404 and not each.is_of_all_projects else {200, 403, 404}
    if shown != listed or page.status not in ({200} if is_listed else denied):
        different.append((name, each.address, page.status, response.status, shown, listed))
    return len(shown)


def compare_form(name: str, browser: Browser, form: SentForm, different: list[tuple[object, ...]]) -> None:
    """Note a form whose status is not that of the API's call.

    404 and 409 of a form that is allowed: nothing is there to be read, or the form has no digest.
    """
    with transaction.atomic():
        allowed = form.call.status(name)
        transaction.set_rollback(True)
    with transaction.atomic():
        page = browser.post(form.address, form.fields)
        transaction.set_rollback(True)
    check_page(page)
    if form.address == "/ui/access/revoke/" and name == "guest":
        allowed = 404  # of a hidden project, for which the APIs return 403
    if page.status != allowed if allowed in {403, 404} else page.status not in {200, 302, 404, 409}:
        different.append((name, form.address, page.status, allowed))
