"""Rules about changes in the console: list, page, forms, findings, evaluation, and changes that a rule rejects."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from django.http import QueryDict

from catalog.models import ChangeRule, Tabular
from catalog.selectors.change_rules import RuleScope
from management.admin.change_rules.rule_fields import FIELDS, read_configuration, read_secret
from management.admin.configuration_fields import shown_fields
from storage.models import Warehouse
from storage.secrets.stores import read_secret as stored_secret
from tenancy.actor import Actor
from tenancy.models import AuditRecord, Securable
from tenancy.models.securable import ObjectRef
from tests.approval.conftest import CreateRule, create_rule  # noqa: F401 - a fixture
from tests.authz.tree_fixtures import give
from tests.console.conftest import Open
from tests.console.operations.test_event_sinks import main_text
from tests.console.sign_in.browser import Browser, Page
from tests.console.test_rights import Ids, grants, ids  # noqa: F401 - fixtures
from tests.harness.fingerprint import Fingerprint
from tests.harness.named_callers import CallerClient
from tests.management.warehouse_request_fixtures import keep_secrets

pytestmark = [pytest.mark.django_db(databases="__all__"), pytest.mark.both_databases]

Everything = Callable[[], Fingerprint]
T = Securable.Type
FORM = {"action": "save", "name": "no drops", "mode": "enforce", "on-failure": "deny", "enabled": "true"}
PROTECTED: dict[str, Any] = {"object-tag": "pii"}
SIGNING = "whsec_" + "czNjcjN0" * 5


@pytest.fixture
def lead(grants: None, open_as: Open, monkeypatch: pytest.MonkeyPatch) -> Browser:  # noqa: F811
    """An administrator of the project."""
    keep_secrets(monkeypatch)
    return open_as("lead")


def at(rule: ChangeRule, page: str = "") -> str:
    return f"/ui/change-rule/{rule.pk}/{page}"


def send(browser: Browser, scope: str, kind: str, **fields: Any) -> Page:
    return browser.post(f"/ui/change-rule/add/?kind={kind}", FORM | {"scope": scope} | fields)


# --- list and page ----------------------------------------------------------------------------------------------------


def test_the_list_shows_where_rules_apply(
    lead: Browser, warehouse: Warehouse, create_rule: CreateRule, ids: Ids  # noqa: F811
) -> None:  # fmt: skip
    create_rule("protected", PROTECTED, name="everywhere", scope=RuleScope(T.PROJECT, ids.project))
    create_rule("naming", {"table": ["a"]}, name="spelling", mode="dry-run")
    namespace = RuleScope(T.NAMESPACE, ids.open, warehouse.pk)
    create_rule("retention-floor", {"keep-refs": True}, name="history", scope=namespace, is_enabled=False)
    text = main_text(lead.get("/ui/change-rule/"))
    for row in (
        r"everywhere enforced Protection by tags project ",
        f"spelling dry run Names warehouse {warehouse.name} ",
        "history disabled Retention of snapshots namespace open ",
    ):
        assert row in text
    filtered = main_text(lead.get("/ui/change-rule/?state=dry-run&kind=naming"))
    assert "spelling" in filtered
    assert "history" not in filtered
    assert "No rules match" in main_text(lead.get("/ui/change-rule/?state=disabled&kind=naming"))
    for bad in ("state=on", "kind=x"):
        assert lead.get(f"/ui/change-rule/?{bad}").status == 400
    of_table = main_text(lead.get(f"/ui/change-rule/?object=table:{warehouse.pk}:{ids.tables['open']}"))
    assert all(name in of_table for name in ("everywhere", "spelling", "history")), "inherited ones, too"
    other = main_text(lead.get(f"/ui/change-rule/?object=namespace:{warehouse.pk}:{ids.closed}"))
    assert "spelling" in other
    assert "history" not in other


@pytest.mark.parametrize(
    "key",
    ["table:x", "table", "namespace:1:2", "role:" + str(uuid4()), "tag:x", "server:x", f"table:{uuid4()}:{uuid4()}"],
)
def test_keys_of_no_object_with_rules_are_not_found(lead: Browser, key: str) -> None:
    for page in ("", "findings/", "add/"):
        assert lead.get(f"/ui/change-rule/{page}?object={key}").status == 404


def test_objects_lead_to_their_rules(
    lead: Browser, warehouse: Warehouse, ids: Ids, open_as: Open  # noqa: F811
) -> None:  # fmt: skip
    base, engineer = f"/ui/warehouse/{warehouse.pk}", open_as("engineer")
    for page, key in (
        (f"{base}/", f"warehouse:{warehouse.pk}"),
        (f"{base}/namespace/{ids.open}/", f"namespace:{warehouse.pk}:{ids.open}"),
        (f"{base}/table/{ids.tables['open']}/", f"table:{warehouse.pk}:{ids.tables['open']}"),
    ):
        link = f'href="/ui/change-rule/?object={key.replace(":", "%3A")}"'
        assert link in lead.get(page).text
        assert link not in engineer.get(page).text
        assert "No rule that you manage applies to this object." in main_text(
            lead.get(f"/ui/change-rule/?object={key}")
        )


def test_the_page_shows_the_rule(lead: Browser, warehouse: Warehouse, create_rule: CreateRule) -> None:  # noqa: F811
    rule = create_rule("protected", PROTECTED, name="<b>pii</b>")
    page = lead.get(at(rule))
    assert "<b>pii" not in page.text
    text = main_text(page)
    assert f"Applies to warehouse {warehouse.name} and what is in it" in text
    assert '"object-tag": "pii"' in text
    assert "The audit trail has no change that violated the rule." in text


def test_a_rule_is_hidden_like_an_unknown_one(
    lead: Browser, create_rule: CreateRule, open_as: Open  # noqa: F811
) -> None:  # fmt: skip
    rule, guest = create_rule("protected", PROTECTED), open_as("guest")
    for page in ("", "edit/", "evaluate/", "delete/"):
        hidden = guest.get(at(rule, page))
        assert hidden.status == 404
        assert lead.get(f"/ui/change-rule/{uuid4()}/{page}").status == 404
    assert guest.post(at(rule), {"action": "disable", "version": "1"}).status == 404
    assert guest.get("/ui/change-rule/add/").status == 403
    assert guest.get("/ui/change-rule/findings/").status == 403
    assert main_text(guest.get("/ui/change-rule/")).count("protected") == 0


def test_a_user_who_manages_the_rules_of_a_hidden_warehouse(
    lead: Browser, warehouse: Warehouse, open_as: Open, create_rule: CreateRule  # noqa: F811
) -> None:  # fmt: skip
    rule, manager = create_rule("protected", PROTECTED, name="tagged"), open_as("manager")
    give("manage_rules", ObjectRef(T.WAREHOUSE, warehouse.pk), Actor(user_id="oidc~manager"))
    assert manager.get(f"/ui/warehouse/{warehouse.pk}/").status == 404
    page = manager.get(f"/ui/change-rule/?object=warehouse:{warehouse.pk}")
    assert "tagged" in main_text(page)
    assert warehouse.name not in page.text.partition("<form")[0], "the name of a hidden object"
    assert send(manager, f"warehouse:{warehouse.pk}", "protected", **PROTECTED).status == 302
    assert manager.post(at(rule), {"action": "disable", "version": "1"}).status == 302
    assert "tagged" in main_text(manager.get("/ui/change-rule/"))
    assert "/ui/change-rule/add/" not in manager.get("/ui/change-rule/").text
    assert "You see no server, project or warehouse" in manager.get("/ui/change-rule/add/").text


def test_a_rule_is_switched(lead: Browser, create_rule: CreateRule) -> None:  # noqa: F811
    rule = create_rule("protected", PROTECTED)
    for version, (action, state) in enumerate(
        [
            ("dry_run", ("dry-run", True)), ("enforce", ("enforce", True)), ("disable", ("enforce", False)),
            ("enable", ("enforce", True)),
        ],
        start=1,
    ):  # fmt: skip
        assert lead.post(at(rule), {"action": action, "version": str(version)}).status == 302
        row = ChangeRule.objects.get()
        assert (row.mode, row.is_enabled) == state
        assert row.configuration == PROTECTED
    outdated = lead.post(at(rule), {"action": "disable", "version": "1"})
    assert outdated.status == 409
    assert "The rule was changed meanwhile" in main_text(outdated)
    assert ChangeRule.objects.get().is_enabled
    for bad in ("", "x", "-1"):
        assert lead.post(at(rule), {"action": "disable", "version": bad}).status == 400


def test_a_rule_is_deleted_after_a_question(lead: Browser, create_rule: CreateRule) -> None:  # noqa: F811
    rule = create_rule("protected", PROTECTED)
    assert "are not checked by it any more" in main_text(lead.get(at(rule, "delete/")))
    assert lead.post(at(rule, "delete/"), {"action": "delete"}).status == 302
    assert not ChangeRule.objects.exists()
    assert AuditRecord.objects.filter(event="change-rule.deleted", actor="oidc~lead").exists()


# --- forms ------------------------------------------------------------------------------------------------------------

KINDS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("schema-compatibility", {"compatibility": "full"}, {"mode": "full"}),
    (
        "protected",
        {"object-tag": " pii ", "object-tag-values": "a\r\n\r\nb", "column-tag": ""},
        {"object-tag": "pii", "object-tag-values": ["a", "b"]},
    ),
    (
        "required-properties",
        {"properties": "owner=team-[a-z]+\r\nowner = ann\r\ncost-center", "objects": ["table", "view"]},
        {"properties": {"owner": ["team-[a-z]+", "ann"], "cost-center": None}, "objects": ["table", "view"]},
    ),
    ("required-properties", {"properties": "a=b=c"}, {"properties": {"a": ["b=c"]}}),
    ("naming", {"table": "[a-z]+\n[0-9]+", "column": "c"}, {"table": ["[a-z]+", "[0-9]+"], "column": ["c"]}),
    ("retention-floor", {"min-age-days": "7", "keep-refs": "true"}, {"min-age-days": 7, "keep-refs": True}),
    (
        "http-hook",
        {
            "url": "https://127.0.0.1:9/",
            "timeout-seconds": "0.5",
            "signing-secrets": SIGNING,
            "headers": "X-Key: s3cr3t",
        },
        {"url": "https://127.0.0.1:9/", "timeout-seconds": 0.5},
    ),
]


@pytest.mark.parametrize(("kind", "fields", "configuration"), KINDS)
def test_each_kind_has_its_form(
    lead: Browser, warehouse: Warehouse, kind: str, fields: dict[str, Any], configuration: dict[str, Any]
) -> None:
    created = send(lead, f"warehouse:{warehouse.pk}", kind, **fields)
    row = ChangeRule.objects.get()
    assert (created.status, created.header("Location")) == (302, at(row)), main_text(created)
    assert (row.name, row.kind, row.configuration, row.mode) == ("no drops", kind, configuration, "enforce")
    assert row.securable_id == f"warehouse:{warehouse.pk}"
    assert f"Change rule no drops applies to warehouse {warehouse.name}." in main_text(lead.get(at(row)))
    edit = lead.get(at(row, "edit/"))
    assert "s3cr3t" not in edit.text
    assert SIGNING not in edit.text
    again = lead.post(
        at(row, "edit/"), FORM | fields | {"version": "1", "name": "renamed", "signing-secrets": "", "headers": ""}
    )
    assert again.status == 302, main_text(again)
    row.refresh_from_db()
    assert (row.name, row.version, row.configuration) == ("renamed", 2, configuration)
    if kind == "http-hook":
        assert row.secret_id is not None
        assert stored_secret(row.secret_id) == {"signing-secrets": [SIGNING], "headers": {"X-Key": "s3cr3t"}}


@pytest.mark.parametrize(("kind", "fields", "configuration"), KINDS)
def test_forms_show_what_is_stored(kind: str, fields: dict[str, Any], configuration: dict[str, Any]) -> None:
    """What an untouched form sends is what is stored."""
    sent = QueryDict(mutable=True)
    for field in shown_fields(FIELDS[kind], configuration, None):
        chosen = [option for option, _text, is_chosen in field["options"] if is_chosen]
        sent.setlist(field["name"], chosen if field["kind"] == "choices" else [field["value"]])
    assert read_configuration(kind, sent) == configuration
    assert read_secret(kind, sent) is None


@pytest.mark.parametrize(
    ("kind", "changed", "message"),
    [
        ("naming", {}, "At least one of table, view"),
        ("naming", {"table": "(a)"}, "Is not a pattern"),
        ("naming", {"table": "a", "name": ""}, "Invalid rule name: must not be empty"),
        ("naming", {"table": "a", "mode": "x"}, "Must be one of the choices"),
        ("naming", {"table": "a", "on-failure": ""}, "Must be one of the choices"),
        ("schema-compatibility", {"compatibility": "x"}, "Input should be 'backward', 'forward' or 'full'"),
        ("protected", {}, "object-tag or column-tag is required"),
        ("required-properties", {"properties": ""}, "Field required"),
        ("required-properties", {"properties": "a\na=b"}, "A name without a pattern allows any value"),
        ("required-properties", {"properties": "a=b\na"}, "A name without a pattern allows any value"),
        ("required-properties", {"properties": "=b"}, "Each line has a name"),
        ("required-properties", {"properties": "a", "objects": ["role"]}, "Input should be 'table'"),
        ("retention-floor", {"min-age-days": "x"}, "Must be a number"),
        ("retention-floor", {"min-age-days": "1.5"}, "Input should be a valid integer"),
        ("http-hook", {"url": ""}, "Field required"),
        ("http-hook", {"url": "ftp://x"}, "URL Must be an http or https address"),
        ("http-hook", {"url": "https://169.254.169.254/"}, "URL Connections to this address are not allowed"),
        ("http-hook", {"url": "https://127.0.0.1:9/", "signing-secrets": "s3cr3t"}, "must be whsec_"),
        ("http-hook", {"url": "https://127.0.0.1:9/", "headers": "s3cr3t"}, "Each line has a name, “:” and a value"),
    ],
)
def test_errors_keep_what_was_entered_but_no_secrets(
    lead: Browser, warehouse: Warehouse, kind: str, changed: dict[str, Any], message: str, everything: Everything
) -> None:
    before = everything()
    page = send(lead, f"warehouse:{warehouse.pk}", kind, **changed)
    assert page.status == 400, main_text(page)
    assert message.lower() in main_text(page).lower()
    assert "s3cr3t" not in page.text
    assert everything() == before


def test_the_kind_is_chosen_with_what_was_entered(lead: Browser, warehouse: Warehouse) -> None:
    page = lead.post("/ui/change-rule/add/?kind=naming", {"action": "show", "name": "lake", "table": "[a-z]+"})
    assert page.status == 200
    assert 'value="lake"' in page.text
    assert "[a-z]+</textarea>" in page.text
    assert 'name="url"' not in page.text
    assert f'<option value="warehouse:{warehouse.pk}">warehouse {warehouse.name}</option>' in page.text
    assert '<option value="server"' not in page.text, "a choice has the permission"
    assert lead.get("/ui/change-rule/add/?kind=x").status == 400


def test_the_address_has_the_object_of_a_new_rule(lead: Browser, warehouse: Warehouse, ids: Ids) -> None:  # noqa: F811
    key = f"table:{warehouse.pk}:{ids.tables['open']}"
    assert f'<option value="{key}" selected>table open.' in lead.get(f"/ui/change-rule/add/?object={key}").text
    assert send(lead, key, "protected", **PROTECTED).status == 302
    table = Tabular.objects.get(uuid=ids.tables["open"])
    assert ChangeRule.objects.get().securable_id == f"table:{table.pk}"
    for unknown in ("", "x", f"table:{warehouse.pk}:{uuid4()}"):
        assert send(lead, unknown, "protected", **PROTECTED).status == 404
    assert send(lead, "server", "protected", **PROTECTED).status == 403
    assert ChangeRule.objects.count() == 1


def test_a_stored_secret_is_not_sent_to_another_server(lead: Browser, warehouse: Warehouse) -> None:
    hook = {"url": "https://127.0.0.1:9/", "headers": "X-Key: s3cr3t"}
    assert send(lead, f"warehouse:{warehouse.pk}", "http-hook", **hook).status == 302
    rule, fields = ChangeRule.objects.get(), FORM | {"headers": "", "version": "1"}
    page = lead.post(at(rule, "edit/"), fields | {"url": "https://127.0.0.1:10/"})
    assert page.status == 400
    assert "Another server needs the secret again" in main_text(page)
    assert ChangeRule.objects.get().configuration == {"url": hook["url"]}


def test_the_secret_is_replaced_and_deleted(lead: Browser, warehouse: Warehouse) -> None:
    hook = {"url": "https://127.0.0.1:9/", "headers": "X-Key: s3cr3t"}
    assert send(lead, f"warehouse:{warehouse.pk}", "http-hook", **hook).status == 302
    rule = ChangeRule.objects.get()
    assert "stored encrypted" in main_text(lead.get(at(rule)))
    fields = FORM | {"url": hook["url"], "headers": "", "signing-secrets": SIGNING, "version": "1"}
    assert lead.post(at(rule, "edit/"), fields).status == 302
    rule.refresh_from_db()
    assert rule.secret_id is not None
    assert stored_secret(rule.secret_id) == {"signing-secrets": [SIGNING], "headers": {}}
    fields |= {"signing-secrets": "", "remove-secret": "true", "version": "2"}
    assert lead.post(at(rule, "edit/"), fields).status == 302
    rule.refresh_from_db()
    assert rule.secret_id is None


def test_a_change_by_another_user_is_not_overwritten(lead: Browser, create_rule: CreateRule) -> None:  # noqa: F811
    rule = create_rule("protected", PROTECTED)
    fields = FORM | PROTECTED | {"version": "1"}
    assert lead.post(at(rule, "edit/"), fields | {"name": "theirs"}).status == 302
    page = lead.post(at(rule, "edit/"), fields | {"name": "mine"})
    assert page.status == 409
    assert "What you entered is still in the form" in main_text(page)
    assert 'name="version" value="2"' in page.text
    assert 'value="mine"' in page.text
    assert ChangeRule.objects.get().name == "theirs"


# --- findings ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def veto(lead: Browser, warehouse: Warehouse, create_rule: CreateRule, ids: Ids) -> ChangeRule:  # noqa: F811
    """A rule that rejected a commit to the table `open.a`."""
    rule = create_rule("required-properties", {"properties": {"owner": ["team-[a-z]+"]}}, name="owners")
    table = CallerClient(f"/catalog/v1/{warehouse.pk}/namespaces/open/tables/a", "lead")
    change = {"action": "set-properties", "updates": {"owner": "ann"}}
    assert table.post("", {"requirements": [], "updates": [change]}).refused(409, "ContractViolation")
    return rule


def test_findings_are_shown_with_their_rule(
    lead: Browser, veto: ChangeRule, warehouse: Warehouse, ids: Ids, open_as: Open  # noqa: F811
) -> None:  # fmt: skip
    reason = "the value of the property 'owner' must match team-[a-z]+"
    table = f"/ui/warehouse/{warehouse.pk}/table/{ids.tables['open']}/"
    for address in (
        "/ui/change-rule/findings/",
        f"/ui/change-rule/findings/?project={ids.project}&result=vetoed",
        f"/ui/change-rule/findings/?object=warehouse:{warehouse.pk}",
        f"/ui/change-rule/findings/?object=namespace:{warehouse.pk}:{ids.open}",
        f"/ui/change-rule/findings/?object=table:{warehouse.pk}:{ids.tables['open']}",
        at(veto),
    ):
        page = lead.get(address)
        assert reason in main_text(page), address
        assert "rejected" in main_text(page)
        assert table in page.text
        assert (at(veto) in page.text.partition("<tbody>")[2]) == (address != at(veto))
    for address in (
        "/ui/change-rule/findings/?result=overridden",
        f"/ui/change-rule/findings/?object=namespace:{warehouse.pk}:{ids.closed}",
    ):
        assert reason not in main_text(lead.get(address))
    assert lead.get("/ui/change-rule/findings/?result=x").status == 400
    assert lead.get("/ui/change-rule/findings/?project=unknown").status == 404
    assert open_as("engineer").get(f"/ui/change-rule/findings/?object=warehouse:{warehouse.pk}").status == 403


def test_findings_have_pages(lead: Browser, veto: ChangeRule) -> None:
    row = AuditRecord.objects.get(event="change.vetoed")
    for _ in range(50):
        row.pk, row.position = uuid4(), None
        row.save(force_insert=True)
    page = lead.get(at(veto))
    assert page.text.count("the value of the property") == 50
    following = page.text.partition('href="?after=')[2].partition('"')[0]
    assert lead.get(f"{at(veto)}?after={following}").text.count("the value of the property") == 1
    assert lead.get(f"{at(veto)}?after=x").status == 400


# --- evaluation -------------------------------------------------------------------------------------------------------


def test_a_rule_is_evaluated_without_a_change(
    lead: Browser, veto: ChangeRule, warehouse: Warehouse, ids: Ids, everything: Everything  # noqa: F811
) -> None:  # fmt: skip
    address = at(veto, "evaluate/")
    assert "Nothing is changed or recorded" in main_text(lead.get(address))
    fields = {"action": "evaluate", "warehouse": str(warehouse.pk), "do": "commit"}
    before = everything()
    for table in ("open.a", ids.tables["open"]):
        good, bad = (
            json.dumps([{"action": "set-properties", "updates": {"owner": owner}}]) for owner in ("team-a", "ann")
        )
        page = lead.post(address, fields | {"table": table, "updates": good})
        assert "The rule allows the change." in main_text(page)
        page = lead.post(address, fields | {"table": table, "updates": bad})
        assert "The rule rejects the change: the value of the property" in main_text(page)
    assert "The rule allows the change." in main_text(lead.post(address, fields | {"table": "open.a", "do": "drop"}))
    assert everything() == before


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"table": "open.x"}, "There is no such table, or you do not see it"),
        ({"table": "\0"}, "There is no such table, or you do not see it"),
        ({"table": ""}, "There is no such table, or you do not see it"),
        ({"table": str(uuid4())}, "There is no such table, or you do not see it"),
        ({"warehouse": "x"}, "Must be one of the choices"),
        ({"do": "rename"}, "Must be one of the choices"),
        ({"updates": "{}"}, "Must be a JSON array of updates"),
        ({"updates": "[" * 5000}, "Malformed JSON"),
        ({"updates": '[{"action": "x"}]'}, "x"),
    ],
)
def test_bad_input_of_an_evaluation(
    lead: Browser, veto: ChangeRule, warehouse: Warehouse, changed: dict[str, str], message: str
) -> None:
    fields = {"action": "evaluate", "warehouse": str(warehouse.pk), "table": "open.a", "do": "commit", "updates": "[]"}
    page = lead.post(at(veto, "evaluate/"), fields | changed)
    assert page.status == 400
    assert message in main_text(page)
