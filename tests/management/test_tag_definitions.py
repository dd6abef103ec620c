"""Tag definitions: create, extend, search and delete, separated by project."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from urllib.parse import quote

import pytest

from icekeeper.kernel.db.sql import as_uuid
from icekeeper.kernel.ids import parse_id
from icekeeper.kernel.names import name_key
from tenancy.authz import port
from tenancy.authz.actions import Can
from tenancy.authz.securables import add_securable
from tenancy.models import Grant, Project, Securable, Server, TagAttachment, TagDefinition
from tenancy.models.securable import ObjectRef
from tenancy.selectors import tags
from tenancy.services.tags import MAX_ALLOWED_VALUES
from tests.harness.fingerprint import Fingerprint
from tests.harness.threads import at_once
from tests.harness.wsgi_client import ApiClient
from tests.management.warehouse_request_fixtures import call_as, refuse

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("bootstrapped"), pytest.mark.both_databases]
in_threads = pytest.mark.django_db(transaction=True, serialized_rollback=True)

api = ApiClient("/management/v1")
PROJECT = "00000000-0000-0000-0000-000000000000"
MISSING = "0198e0f4-3f6e-7c31-8c7d-000000000000"
MARKER = {"scope": ["table"], "value-kind": "marker"}
HOSTILE = ["a%0Ab", "%E2%80%AE", "..%2F..%2Fetc", "x' OR 1=1 --", "%F0%9F%92%A9", "a" * 3000, "%2F", "urn:uuid:x"]

Everything = Callable[[], Fingerprint]


@pytest.fixture
def other_project(bootstrapped: None) -> Project:
    project = Project.objects.create(id="other", name="Other", name_key=name_key("Other"))
    server = Server.objects.get()
    add_securable(Securable.Type.PROJECT, project.pk, parent=ObjectRef(Securable.Type.SERVER, server.server_id))
    return project


def build(name: str = "certified", **more: Any) -> dict[str, Any]:
    response = api.post("/tag-definition", {"name": name, **MARKER, **more})
    assert response.status == 201, response.body
    created: dict[str, Any] = response.json()
    return created


def enumerated(name: str = "pii", *values: str, **more: Any) -> dict[str, Any]:
    return build(name, **{"value-kind": "enumerated", "allowed-values": list(values or ("low", "high"))}, **more)


def listed(target: str = "/tag-definition") -> list[str]:
    response = api.get(target)
    assert response.status == 200, response.body
    return [each["name"] for each in response.json()["tag-definitions"]]


# --- create -----------------------------------------------------------------------------------------------------------


def test_a_definition_is_created_and_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    call_as(monkeypatch, "oidc~alice")
    created = enumerated("PII.class", "low", "high", "low", description="How\nbad", scope=["column", "table", "column"])
    assert parse_id(created["id"]) is not None
    assert {key: value for key, value in created.items() if key != "created-at"} == {
        "id": created["id"],
        "name": "PII.class",
        "description": "How\nbad",
        "scope": ["table", "column"],
        "value-kind": "enumerated",
        "allowed-values": ["low", "high"],
    }
    assert api.get(f"/tag-definition/{created['id']}").json() == created
    assert api.get(f"/tag-definition/{created['id'].upper()}").json() == created
    del created["allowed-values"]  # only one of them has it
    assert api.get("/tag-definition").json() == {"tag-definitions": [created]}
    securable = Securable.objects.get(type="tag")
    assert (securable.object_id, securable.parent_id) == (created["id"], f"project:{PROJECT}")
    grant = Grant.objects.get()
    assert (grant.securable_id, grant.user_id, grant.privilege) == (securable.pk, "oidc~alice", "ownership")


@pytest.mark.parametrize("kind", ["marker", "free-text"])
def test_other_kinds_have_no_allowed_values(kind: str, everything: Everything) -> None:
    for values in ({}, {"allowed-values": None}, {"allowed-values": []}):
        created = build(f"t{len(listed())}", **{"value-kind": kind}, **values)
        assert created["value-kind"] == kind
        assert created.keys() == {"id", "name", "scope", "value-kind", "created-at"}
    before = everything()
    body = {"name": "x", "scope": ["table"], "value-kind": kind, "allowed-values": ["a"]}
    assert api.post("/tag-definition", body).refused(400, "InvalidTagDefinition", "allowed-values")
    assert everything() == before


@pytest.mark.parametrize(
    ("change", "wire_type", "text"),
    [
        ({"scope": []}, "InvalidTagDefinition", "scope"),
        ({"scope": ["cluster"]}, "BadRequestException", "scope"),
        ({"scope": "table"}, "BadRequestException", "scope"),
        ({"scope": None}, "BadRequestException", "scope"),
        ({"value-kind": "number"}, "BadRequestException", "value-kind"),
        ({"value-kind": None}, "BadRequestException", "value-kind"),
        ({"value-kind": "enumerated"}, "InvalidTagDefinition", "allowed-values"),
        ({"value-kind": "enumerated", "allowed-values": []}, "InvalidTagDefinition", "allowed-values"),
        ({"value-kind": "enumerated", "allowed-values": ["a", ""]}, "InvalidTagValue", "allowed value 2"),
        ({"value-kind": "enumerated", "allowed-values": [" "]}, "InvalidTagValue", "empty"),
        ({"value-kind": "enumerated", "allowed-values": ["v" * 257]}, "InvalidTagValue", "256"),
        ({"value-kind": "enumerated", "allowed-values": ["a\u0000"]}, "BadRequestException", "Null characters"),
        ({"value-kind": "enumerated", "allowed-values": ["a\u202eb"]}, "InvalidTagValue", "U+202E"),
        ({"value-kind": "enumerated", "allowed-values": [1]}, "BadRequestException", "allowed-values"),
        ({"value-kind": "enumerated", "allowed-values": {"a": 1}}, "BadRequestException", "allowed-values"),
        (
            {"value-kind": "enumerated", "allowed-values": [str(n) for n in range(MAX_ALLOWED_VALUES + 1)]},
            "InvalidTagDefinition",
            "at most 1000",
        ),
        ({"description": "d" * 4097}, "BadRequestException", "description"),
        ({"description": "a\u0000b"}, "BadRequestException", "description"),
        ({"description": 5}, "BadRequestException", "description"),
        ({"name": None}, "BadRequestException", "name"),
        ({"name": 5}, "BadRequestException", "name"),
    ],
)
def test_bodies_that_are_refused(change: dict[str, Any], wire_type: str, text: str, everything: Everything) -> None:
    before = everything()
    response = api.post("/tag-definition", {"name": "x", **MARKER, **change})
    assert response.refused(400, wire_type, text)
    assert everything() == before


BAD_NAMES = {
    "": "InvalidTagName",
    " ": "InvalidTagName",
    " a": "InvalidTagName",
    "a\u00a0": "InvalidTagName",
    "n" * 257: "InvalidTagName",
    "\ufdfa" * 200: "InvalidTagName",
    "a\u0000b": "BadRequestException",
    "a\nb": "InvalidTagName",
    "a\u202eb": "InvalidTagName",
    "a\u200b": "InvalidTagName",
    ".": "InvalidTagName",
    "..": "InvalidTagName",
    ".a": "InvalidTagName",
    "a.": "InvalidTagName",
    "a..b": "InvalidTagName",
    "a\uff0e\uff0eb": "InvalidTagName",
    "a\u2025b": "InvalidTagName",
    "system.a": "ReservedTagNamespace",
    "System.a": "ReservedTagNamespace",
    "lakekeeper.a.b": "ReservedTagNamespace",
    "\uff53ystem.a": "ReservedTagNamespace",
    "lakekeeper\uff0ea": "ReservedTagNamespace",
}


@pytest.mark.parametrize("name", BAD_NAMES, ids=ascii)
def test_names_that_are_refused(name: str, everything: Everything) -> None:
    created = build()
    before = everything()
    assert api.post("/tag-definition", {"name": name, **MARKER}).refused(400, BAD_NAMES[name])
    assert api.post(f"/tag-definition/{created['id']}", {"name": name, "scope": ["table"]}).refused(
        400, BAD_NAMES[name]
    )
    assert everything() == before


@pytest.mark.parametrize(
    "name", ["n" * 256, "a.b.c", "a/b", "système", "system", "systems.a", "100 %", "'; --", "\u4f60"]
)
def test_valid_names(name: str) -> None:
    assert build(name)["name"] == name
    assert listed(f"/tag-definition?name={quote(name, safe='')}") == [name]


def test_names_are_unique_per_project(other_project: Project, everything: Everything) -> None:
    build("Straße")
    other = build("other")["id"]
    before = everything()
    for name in ("STRASSE", "strasse", "\uff53traße"):
        assert api.post("/tag-definition", {"name": name, **MARKER}).refused(409, "TagNameAlreadyExists", name)
        response = api.post(f"/tag-definition/{other}", {"name": name, "scope": ["table"]})
        assert response.refused(409, "TagNameAlreadyExists", name)
    assert everything() == before
    body = {"name": "Straße", **MARKER}
    assert api.post("/tag-definition", body, **{"x-project-id": "other"}).status == 201


@in_threads
def test_concurrent_creations_of_a_name() -> None:
    responses = at_once(*[partial(api.post, "/tag-definition", {"name": name, **MARKER}) for name in ("a", "A")] * 3)
    assert sorted(response.status for response in responses) == [201] + [409] * 5
    assert all(response.refused(409, "TagNameAlreadyExists") for response in responses if response.status == 409)
    assert (TagDefinition.objects.count(), Securable.objects.filter(type="tag").count()) == (1, 1)


# --- update -----------------------------------------------------------------------------------------------------------


def test_a_definition_is_widened() -> None:
    created = enumerated("pii", description="d")
    target = f"/tag-definition/{created['id']}"
    body = {"name": "PII", "scope": ["warehouse", "table"], "add-allowed-values": ["high", "medium"]}
    response = api.post(target, body)
    assert response.status == 200, response.body
    changed = response.json()
    assert (changed["name"], changed["scope"]) == ("PII", ["warehouse", "table"])
    assert changed["allowed-values"] == ["low", "high", "medium"]
    assert "description" not in changed
    assert changed["updated-at"] > changed["created-at"] == created["created-at"]
    assert api.get(target).json() == changed
    again = api.post(target, body).json()
    assert again | {"updated-at": ""} == changed | {"updated-at": ""}
    assert listed("/tag-definition?name=pii") == ["PII"]


@pytest.mark.parametrize(
    ("change", "wire_type"),
    [
        ({"scope": ["column"]}, "TagScopeNarrowed"),  # its scope includes tables, too
        ({"scope": ["warehouse", "column"]}, "TagScopeNarrowed"),
        ({"scope": []}, "InvalidTagDefinition"),
        ({"add-allowed-values": ["x"]}, "InvalidTagDefinition"),
        ({"scope": ["cluster"]}, "BadRequestException"),
        ({"description": "a\u0000b"}, "BadRequestException"),
        ({"name": None}, "BadRequestException"),
    ],
)
def test_updates_that_are_refused(change: dict[str, Any], wire_type: str, everything: Everything) -> None:
    created = build(scope=["table", "column"])
    before = everything()
    body = {"name": "certified", "scope": ["table", "column"], **change}
    assert api.post(f"/tag-definition/{created['id']}", body).refused(400, wire_type)
    assert everything() == before


def test_values_are_added_up_to_a_bound(everything: Everything) -> None:
    created = enumerated("n", *(str(number) for number in range(MAX_ALLOWED_VALUES)))
    before = everything()
    target, body = f"/tag-definition/{created['id']}", {"name": "n", "scope": ["table"]}
    response = api.post(target, body | {"add-allowed-values": ["one more"]})
    assert response.refused(400, "InvalidTagDefinition", "at most 1000")
    response = api.post(target, body | {"add-allowed-values": ["0", ""]})
    assert response.refused(400, "InvalidTagValue", "allowed value 2")
    assert everything() == before
    assert api.post(target, body | {"add-allowed-values": ["0", "999"]}).json()["allowed-values"][-1] == "999"


@in_threads
def test_values_that_are_added_at_once_are_all_there() -> None:
    created = enumerated()
    body = {"name": "pii", "scope": ["table"]}
    acts = [
        partial(api.post, f"/tag-definition/{created['id']}", body | {"add-allowed-values": [value]})
        for value in "abcd"
    ]
    assert [response.status for response in at_once(*acts)] == [200] * 4
    assert sorted(api.get(f"/tag-definition/{created['id']}").json()["allowed-values"]) == [*"abcd", "high", "low"]


def test_reserved_definitions_cannot_be_changed(everything: Everything) -> None:
    created = build()["id"]
    TagDefinition.objects.update(name="system.x", name_key="system.x")
    before = everything()
    body = {"name": "x", "scope": ["table"]}
    assert api.post(f"/tag-definition/{created}", body).refused(400, "ReservedTagNamespace")
    assert api.delete(f"/tag-definition/{created}").refused(400, "ReservedTagNamespace")
    assert everything() == before


# --- delete -----------------------------------------------------------------------------------------------------------


def test_a_definition_is_deleted_with_its_grants(monkeypatch: pytest.MonkeyPatch) -> None:
    call_as(monkeypatch, "oidc~alice")
    target = f"/tag-definition/{build()['id']}"
    assert api.delete(target).status == 204
    assert not TagDefinition.objects.exists()
    assert not Grant.objects.exists()
    assert not Securable.objects.filter(type="tag").exists()
    for response in (api.delete(target), api.get(target)):
        assert response.refused(404, "TagDefinitionIdNotFound")
    build()  # its name is free again


def test_a_project_is_deleted_with_its_definitions(other_project: Project) -> None:
    kept = build()["id"]
    assert api.post("/tag-definition", {"name": "other tag", **MARKER}, **{"x-project-id": "other"}).status == 201
    assert api.delete("/project/other").status == 204
    assert [str(each.pk) for each in TagDefinition.objects.all()] == [kept]
    assert [each.object_id for each in Securable.objects.filter(type="tag")] == [kept]


def test_definitions_that_the_database_reports_as_in_use(
    monkeypatch: pytest.MonkeyPatch, everything: Everything
) -> None:
    """As when it was attached right after the check."""
    created = build()["id"]
    project = Securable.objects.get(type="project")
    TagAttachment.objects.create(
        definition_id=created, securable=project, created_at=TagDefinition.objects.get().created_at
    )
    before = everything()
    assert api.delete(f"/tag-definition/{created}").refused(409, "TagDefinitionInUse", "certified")
    assert everything() == before


# --- list and search --------------------------------------------------------------------------------------------------


def test_pages_of_definitions() -> None:
    names = [build(name)["name"] for name in "cabed"]
    seen, token = [], ""
    while True:
        body = api.get(f"/tag-definition?pageSize=2&pageToken={token}").json()
        seen += [each["name"] for each in body["tag-definitions"]]
        if "next-page-token" not in body:
            break
        token = body["next-page-token"]
    assert seen == names == listed()
    assert api.get(f"/tag-definition?name=a&pageToken={token}").refused(400, "InvalidPaginationToken")
    assert api.get(f"/tag-definition?pageToken={token}", **{"x-project-id": PROJECT}).status == 200
    for wrong in ("pageToken=x", f"pageToken={quote('€')}"):
        assert api.get(f"/tag-definition?{wrong}").refused(400, "InvalidPaginationToken")
    for wrong in ("0", "-1", "x", "1" * 30):
        assert api.get(f"/tag-definition?pageSize={wrong}").refused(400, "BadRequestException", "pageSize")


def test_one_is_found_by_its_name() -> None:
    build("Certified")
    build("certified.by")
    for name in ("certified", "CERTIFIED", "%EF%BD%83ertified"):
        assert api.get(f"/tag-definition?name={name}&pageSize=1").json()["tag-definitions"][0]["name"] == "Certified"
        assert "next-page-token" not in api.get(f"/tag-definition?name={name}&pageSize=1").json()
    for name in ("certifie", "", "certified%0A", "%25", "x" * 3000):
        assert listed(f"/tag-definition?name={name}") == []


@pytest.mark.parametrize("wrong", [MISSING, "x", f"%7B{MISSING}%7D", *HOSTILE])
def test_unknown_definitions(wrong: str, everything: Everything) -> None:
    build()
    before = everything()
    body = {"name": "x", "scope": ["table"]}
    target = f"/tag-definition/{quote(wrong, safe='%')}"
    for response in (api.get(target), api.post(target, body), api.delete(target), api.get(f"{target}/attachments")):
        assert response.refused(404, "TagDefinitionIdNotFound")
    assert api.get(f"{target}%00").refused(400, "BadRequestException", "NUL")
    assert everything() == before


def test_definitions_of_another_project_are_not_found(other_project: Project, everything: Everything) -> None:
    target = f"/tag-definition/{build()['id']}"
    elsewhere = {"x-project-id": "other"}
    before = everything()
    assert api.get("/tag-definition", **elsewhere).json() == {"tag-definitions": []}
    assert api.get("/tag-definition?name=certified", **elsewhere).json() == {"tag-definitions": []}
    for response in (
        api.get(target, **elsewhere),
        api.post(target, {"name": "x", "scope": ["table"]}, **elsewhere),
        api.delete(target, **elsewhere),
        api.get(f"{target}/attachments", **elsewhere),
    ):
        assert response.refused(404, "TagDefinitionIdNotFound", "project other")
    nowhere = {"x-project-id": "nowhere"}
    for response in (
        api.get("/tag-definition", **nowhere),
        api.post("/tag-definition", {"name": "x", **MARKER}, **nowhere),
    ):
        assert response.refused(404, "ProjectNotFound")
    assert everything() == before


# --- permissions ------------------------------------------------------------------------------------------------------


def test_each_permission_is_checked(monkeypatch: pytest.MonkeyPatch, everything: Everything) -> None:
    target = f"/tag-definition/{build()['id']}"
    before = everything()
    refusing = refuse(monkeypatch, Can.READ)
    for act, asked in (
        (lambda: api.post("/tag-definition", {"name": "x", **MARKER}), (Can.CREATE_TAG, "project")),
        (lambda: api.post(target, {"name": "x", "scope": ["table"]}), (Can.UPDATE, "tag")),
        (lambda: api.delete(target), (Can.DELETE, "tag")),
        (lambda: api.get(f"{target}/attachments"), (Can.READ_ATTACHMENTS, "tag")),
    ):
        refusing.asked.clear()
        assert act().refused(403, f"{asked[1].title()}ActionForbidden")
        assert refusing.asked[0] == asked
    refuse(monkeypatch)
    assert api.get(target).refused(404, "TagDefinitionIdNotFound")
    assert api.get("/tag-definition").refused(403, "ProjectActionForbidden", "list_tags")
    assert everything() == before


def test_an_error_may_look_like_a_missing_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error passed as `missing=` equals the response for an unknown definition."""
    target = f"/tag-definition/{build()['id']}"
    reported: list[Any] = []

    def hiding(actor: Any, action: Can, securable_type: Any, object_id: object, *, missing: Any = None) -> None:
        reported.append((action, str(as_uuid(object_id))))
        raise missing

    monkeypatch.setattr(tags, "require_permission", hiding)
    hidden = api.get(target).error["message"]
    TagDefinition.objects.all().delete()
    assert api.get(target).error["message"] == hidden
    assert reported == [(Can.READ, target.rpartition("/")[2])]


class OnlySome(port.AllowAll):
    """Allow to read the named definitions, and to list nothing."""

    def __init__(self, *readable: str) -> None:
        self.readable = readable
        self.batches = 0

    def decide(self, actor: Any, questions: Sequence[port.PermissionCheck]) -> list[bool]:
        self.batches += any(action == Can.READ for action, _ in questions)
        return [action == Can.READ and str(ref[1]) in self.readable for action, ref in questions]


def test_without_permission_to_list_readable_definitions_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    created = [build(f"t{number}")["id"] for number in range(7)]
    some = OnlySome(created[1], created[3], created[6])
    monkeypatch.setattr("tenancy.authz.port.authorizer", lambda: some)
    monkeypatch.setattr(tags, "BATCH", 3)
    assert listed() == ["t1", "t3", "t6"]
    assert some.batches == 3
    first = api.get("/tag-definition?pageSize=2").json()
    assert [each["name"] for each in first["tag-definitions"]] == ["t1", "t3"]
    second = api.get(f"/tag-definition?pageSize=2&pageToken={first['next-page-token']}").json()
    assert [each["name"] for each in second["tag-definitions"]] == ["t6"]
    assert listed("/tag-definition?name=T3") == ["t3"]
    hidden, missing = (api.get(f"/tag-definition?name={name}") for name in ("t2", "nothing"))
    assert hidden.refused(403, "ProjectActionForbidden", "list_tags")
    assert hidden.error["message"] == missing.error["message"]
    some.readable = ()
    assert api.get("/tag-definition").refused(403, "ProjectActionForbidden", "list_tags")
