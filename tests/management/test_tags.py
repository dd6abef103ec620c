"""Tags on objects: set, change and remove them, with permissions and errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest

from catalog.selectors import tagged_objects
from icekeeper.kernel.names import name_key
from storage.models import Warehouse
from storage.services.warehouses import create_warehouse
from tenancy.actor import INTERNAL
from tenancy.authz.actions import SEEN_BY, Can
from tenancy.authz.securables import add_securable
from tenancy.models import Project, Securable, Server, TagAttachment, TagDefinition
from tenancy.models.securable import ObjectRef
from tenancy.selectors import tags as tag_selectors
from tenancy.selectors.projects import get_project
from tests.harness.fingerprint import Fingerprint
from tests.harness.wsgi_client import ApiClient, Response
from tests.management.warehouse_request_fixtures import refuse
from tests.tag_fixtures import ALL, NO_ONE, define, good, management, put, shown

pytestmark = pytest.mark.django_db
MISSING = {
    "namespace": "NoSuchNamespaceException",
    "table": "NoSuchTableException",
    "view": "NoSuchViewException",
    "generic-table": "NoSuchGenericTableException",
}

Everything = Callable[[], Fingerprint]


@pytest.fixture
def api(warehouse: Warehouse) -> ApiClient:
    return ApiClient(f"/management/v1/warehouse/{warehouse.pk}")


@pytest.fixture
def other_project(bootstrapped: None) -> Project:
    project = Project.objects.create(id="other", name="Other", name_key=name_key("Other"))
    server = Server.objects.get()
    add_securable(Securable.Type.PROJECT, project.pk, parent=ObjectRef(Securable.Type.SERVER, server.server_id))
    return project


# --- set, change, remove ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ALL)
def test_a_tag_is_set_changed_and_removed(api: ApiClient, things: dict[str, str], kind: str) -> None:
    definition = define("PII")
    target = things[kind]
    assert shown(api, target) == []
    applied = put(api, target, "low")
    assert applied.keys() == {"tag-definition-id", "name", "value", "applied-at"}
    assert (applied["tag-definition-id"], applied["name"], applied["value"]) == (definition, "PII", "low")
    [tag] = good(api.get(f"{target}/tags"))["tags"]
    assert tag == {
        "tag-definition-id": definition,
        "name": "PII",
        "value": "low",
        "source": "manual",
        "created-at": applied["applied-at"],
    }
    assert put(api, target, "low") == applied  # unchanged
    changed = put(api, target, "High")
    assert changed["applied-at"] > applied["applied-at"]
    [now] = good(api.get(f"{target}/tags"))["tags"]
    assert now == tag | {"value": "High", "updated-at": changed["applied-at"]}
    assert shown(api, target, effective="true") == [("PII", "High", None)]
    assert TagAttachment.objects.count() == 1
    for name in ("pii", "PII"):  # the second time it does not exist
        assert good(api.delete(f"{target}/tags/{name}")) is None
    assert shown(api, target) == []
    assert not TagAttachment.objects.exists()


def test_each_target_carries_its_own(api: ApiClient, things: dict[str, str]) -> None:
    define()
    for kind, target in things.items():
        put(api, target, kind)
    for kind, target in things.items():
        assert shown(api, target) == [("pii", kind, None)]
    good(api.delete(f"{things['table']}/tags/pii"))
    assert shown(api, things["column"]) == [("pii", "column", None)]
    assert TagAttachment.objects.count() == len(ALL) - 1


def test_a_marker_has_no_value(api: ApiClient, things: dict[str, str], everything: Everything) -> None:
    define("certified", "marker")
    target = f"{things['table']}/tags/certified"
    before = everything()
    for value in ("", "x", "true"):
        assert api.put(target, {"value": value}).refused(400, "InvalidTagValue", "marker")
    assert everything() == before
    for body in ({}, {"value": None}):
        assert good(api.put(target, body)).keys() == {"tag-definition-id", "name", "applied-at"}
    assert shown(api, things["table"]) == [("certified", None, None)]


def test_values_that_are_refused(api: ApiClient, things: dict[str, str], everything: Everything) -> None:
    define("free")
    define("one.of", "enumerated", **{"allowed-values": ["low", "High"]})
    put(api, things["table"], "kept", "free")
    before = everything()
    for name in ("free", "one.of"):
        target = f"{things['table']}/tags/{name}"
        for body in ({}, {"value": None}):
            assert api.put(target, body).refused(400, "InvalidTagValue", "needs one")
        for value in ("", " ", "v" * 257, "a\nb", "a\u202eb", "a\u200b"):
            assert api.put(target, {"value": value}).refused(400, "InvalidTagValue")
        for wrong in (1, True, ["x"], {"a": 1}, "a\u0000"):
            assert api.put(target, {"value": wrong}).refused(400, "BadRequestException", "value")
        for raw in (b"[]", b"null", b"{", b'{"value": "\\ud800"}', b"\xff", b'{"value":"a","value":"b"}'):
            assert api.put(target, raw=raw).refused(400, "BadRequestException")
    for value in ("LOW", "high", "low ", "medium", "\uff4cow"):
        assert api.put(f"{things['table']}/tags/one.of", {"value": value}).refused(400, "InvalidTagValue", "allows")
    assert everything() == before
    assert put(api, things["table"], "High", "one.of")["value"] == "High"
    assert put(api, things["table"], " \u4f60\U0001f4a9' --" + "v" * 249, "free")["value"].endswith("v")


def test_a_value_that_is_added_later_may_be_used(api: ApiClient, things: dict[str, str]) -> None:
    definition = define("one.of", "enumerated", **{"allowed-values": ["low"]})
    target = f"{things['view']}/tags/one.of"
    assert api.put(target, {"value": "high"}).refused(400, "InvalidTagValue")
    body = {"name": "one.of", "scope": ALL, "add-allowed-values": ["high"]}
    assert management.post(f"/tag-definition/{definition}", body).status == 200
    assert good(api.put(target, {"value": "high"}))["value"] == "high"


@pytest.mark.parametrize("kind", ALL)
def test_a_definition_applies_to_its_scope_only(
    api: ApiClient, things: dict[str, str], kind: str, everything: Everything
) -> None:
    others = [each for each in ALL if each != kind]
    definition = define(scope=others)
    before = everything()
    assert api.put(f"{things[kind]}/tags/pii", {"value": "x"}).refused(400, "TagScopeNotAllowed", f"not for {kind}")
    assert everything() == before
    for each in others:
        put(api, things[each])
    assert management.post(f"/tag-definition/{definition}", {"name": "pii", "scope": ALL}).status == 200
    put(api, things[kind])


def test_a_tag_keeps_its_targets_when_it_is_renamed(api: ApiClient, things: dict[str, str]) -> None:
    definition = define()
    put(api, things["table"])
    assert management.post(f"/tag-definition/{definition}", {"name": "privacy", "scope": ALL}).status == 200
    assert shown(api, things["table"]) == [("privacy", "x", None)]
    assert api.delete(f"{things['table']}/tags/pii").refused(404, "TagDefinitionNameNotFound", "pii")
    assert api.delete(f"{things['table']}/tags/PRIVACY").status == 204


# --- names and ids in paths ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize(
    "name", ["other", "a%0Ab", "%E2%80%AE", "x' OR 1=1 --", "%F0%9F%92%A9", "n" * 3000, "pii%2F", "%25"]
)
def test_a_tag_of_no_such_name(
    api: ApiClient, things: dict[str, str], kind: str, name: str, everything: Everything
) -> None:
    define()
    target = f"{things[kind]}/tags/{quote(name, safe='%')}"
    before = everything()
    for response in (api.put(target, {"value": "x"}), api.delete(target)):
        assert response.refused(404, "TagDefinitionNameNotFound")
    assert everything() == before


def test_names_with_anything_in_them(api: ApiClient, things: dict[str, str]) -> None:
    for name in ("a/b", "100 %", "'; --", "\u4f60.\u597d", "a+b"):
        define(name)
        target = f"{things['table']}/tags/{quote(name, safe='')}"
        assert good(api.put(target, {"value": "x"}))["name"] == name
        assert api.delete(target).status == 204


@pytest.mark.parametrize("kind", MISSING)
@pytest.mark.parametrize("wrong", [NO_ONE, "x", f"%7B{NO_ONE}%7D", "%00", "a%2Fb", "' OR 1=1", "i" * 3000])
def test_unknown_objects(api: ApiClient, things: dict[str, str], kind: str, wrong: str, everything: Everything) -> None:
    define()
    target = f"/{kind}/{quote(wrong, safe='%')}"
    before = everything()
    one = f"{target}/tags/pii"
    for response in (api.get(f"{target}/tags"), api.put(one, {"value": "x"}), api.delete(one)):
        if wrong == "%00":
            assert response.refused(400, "BadRequestException", "NUL")
        else:
            assert response.refused(404, MISSING[kind])
    assert everything() == before


def test_one_kind_is_not_another(api: ApiClient, things: dict[str, str], everything: Everything) -> None:
    define()
    before = everything()
    for kind, wire_type in MISSING.items():
        for other in MISSING:
            if kind != other:
                target = f"/{kind}/{things[other].rpartition('/')[2]}/tags"
                for response in (
                    api.get(target),
                    api.put(f"{target}/pii", {"value": "x"}),
                    api.delete(f"{target}/pii"),
                ):
                    assert response.refused(404, wire_type)
    assert api.get(f"/table/{NO_ONE}/column-tags").refused(404, "NoSuchTableException")
    assert api.get(f"{things['view'].replace('/view/', '/table/')}/column-tags").refused(404, "NoSuchTableException")
    assert everything() == before


@pytest.mark.parametrize("warehouse_id", [NO_ONE, "x", "%7B", "w" * 2000])
def test_no_such_warehouse(api: ApiClient, things: dict[str, str], warehouse_id: str, everything: Everything) -> None:
    define()
    elsewhere = ApiClient(f"/management/v1/warehouse/{warehouse_id}")
    before = everything()
    for target in [*things.values(), f"/namespace/{NO_ONE}"]:
        for response in (
            elsewhere.get(f"{target}/tags"),
            elsewhere.put(f"{target}/tags/pii", {"value": "x"}),
            elsewhere.delete(f"{target}/tags/pii"),
        ):
            assert response.refused(404, "NoSuchWarehouseException")
    assert elsewhere.get(f"{things['table']}/column-tags").refused(404, "NoSuchWarehouseException")
    assert everything() == before


def test_objects_of_another_warehouse(
    api: ApiClient, things: dict[str, str], storage_root: Any, everything: Everything
) -> None:
    define()
    profile = {"type": "local", "path": str(storage_root / "second")}
    second = create_warehouse(actor=INTERNAL, project=get_project(None), name="second", storage_profile=profile)
    elsewhere = ApiClient(f"/management/v1/warehouse/{second.pk}")
    before = everything()
    for kind, wire_type in MISSING.items():
        assert elsewhere.put(f"{things[kind]}/tags/pii", {"value": "x"}).refused(404, wire_type)
        assert elsewhere.get(f"{things[kind]}/tags").refused(404, wire_type)
    assert everything() == before


def test_targets_and_tags_of_another_project(
    api: ApiClient, things: dict[str, str], other_project: Project, everything: Everything
) -> None:
    define()
    there = {"x-project-id": "other"}
    body = {"name": "theirs", "scope": ALL, "value-kind": "marker"}
    assert management.post("/tag-definition", body, **there).status == 201
    before = everything()
    for target in things.values():
        assert api.get(f"{target}/tags", **there).refused(404, "NoSuchWarehouseException")
        for name in ("pii", "theirs"):
            response = api.put(f"{target}/tags/{name}", {"value": "x"}, **there)
            assert response.refused(404, "NoSuchWarehouseException")
            assert api.delete(f"{target}/tags/{name}", **there).refused(404, "NoSuchWarehouseException")
        assert api.put(f"{target}/tags/theirs", {}).refused(404, "TagDefinitionNameNotFound")
        assert api.delete(f"{target}/tags/theirs").refused(404, "TagDefinitionNameNotFound")
    assert api.get(f"{things['table']}/column-tags", **there).refused(404, "NoSuchWarehouseException")
    assert everything() == before


# --- permissions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ALL)
def test_checked_permissions(
    api: ApiClient, things: dict[str, str], kind: str, monkeypatch: pytest.MonkeyPatch, everything: Everything
) -> None:
    define()
    put(api, things[kind])
    before = everything()
    target, asked_of = f"{things[kind]}/tags", "table" if kind == "column" else kind
    acts: list[tuple[Callable[[], Response], list[Can]]] = [
        (lambda: api.get(target), [Can.GET_METADATA]),
        (lambda: api.get(f"{target}?effective=true"), [Can.GET_METADATA]),
        (lambda: api.put(f"{target}/pii", {"value": "y"}), [Can.MANAGE_TAGS, Can.APPLY]),
        (lambda: api.delete(f"{target}/pii"), [Can.MANAGE_TAGS, Can.REMOVE]),
    ]
    for act, needed in acts:
        for number, refused in enumerate(needed):
            refusing = refuse(monkeypatch, *[each for each in Can if each != refused])
            asked = list(zip(needed, [asked_of, "tag"], strict=False))
            if refused is SEEN_BY[Securable.Type(asked[number][1])]:
                assert act().refused(404, act().error["type"])
            else:
                kind_of_error = "".join(part.title() for part in asked[number][1].split("-"))
                assert act().refused(403, f"{kind_of_error}ActionForbidden", refused.value)
            assert [each for each in dict.fromkeys(refusing.asked) if each in asked] == asked[: number + 1]
    assert everything() == before
    refuse(monkeypatch, Can.GET_METADATA)
    assert shown(api, things[kind]) == [("pii", "x", None)]  # permission on the definition is not needed
    refuse(monkeypatch, Can.MANAGE_TAGS, Can.REMOVE)
    good(api.delete(f"{target}/pii"))
    refuse(monkeypatch, Can.MANAGE_TAGS, Can.APPLY)
    put(api, things[kind])


def test_column_tags_need_permissions_on_the_table(
    api: ApiClient, things: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing = refuse(monkeypatch)
    assert api.get(f"{things['table']}/column-tags").refused(404, "NoSuchWarehouseException")
    assert set(refusing.asked) == {
        (Can.GET_METADATA, "table"),
        (Can.USE, "warehouse"),
        (Can.READ_GRANTS, "warehouse"),
    }
    refusing = refuse(monkeypatch, Can.GET_METADATA)
    assert api.put(f"{things['table']}/column/no/tags/pii", {}).refused(403, "TableActionForbidden", "manage_tags")
    assert refusing.asked[0] == (Can.MANAGE_TAGS, "table")


@pytest.mark.parametrize("kind", ["warehouse", *MISSING])
def test_an_error_may_look_like_a_missing_target(
    api: ApiClient, things: dict[str, str], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error passed as `missing=` equals the response for an unknown object."""

    def hiding(actor: Any, action: Can, securable_type: Any, object_id: object, *, missing: Any = None) -> None:
        raise missing

    monkeypatch.setattr(tagged_objects, "require_permission", hiding)
    hidden = api.get(f"{things[kind]}/tags").error
    monkeypatch.undo()
    target = api.base.rpartition("/")[2] if kind == "warehouse" else things[kind].rpartition("/")[2]
    unknown = ApiClient(f"/management/v1/warehouse/{NO_ONE}") if kind == "warehouse" else api
    missing = unknown.get(f"{things[kind].replace(target, NO_ONE)}/tags").error
    assert (hidden["type"], hidden["message"]) == (missing["type"], missing["message"].replace(NO_ONE, target))


def test_an_error_may_look_like_a_missing_tag(
    api: ApiClient, things: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def hiding(actor: Any, action: Can, securable_type: Any, object_id: object, *, missing: Any = None) -> None:
        raise missing

    definition = define()
    monkeypatch.setattr(tag_selectors, "require_permission", hiding)
    target = f"{things['view']}/tags/pii"
    hidden = [api.put(target, {"value": "x"}), api.delete(target)]
    TagDefinition.objects.filter(pk=definition).delete()
    missing = [api.put(target, {"value": "x"}), api.delete(target)]
    assert [each.error["message"] for each in hidden] == [each.error["message"] for each in missing]
    assert all(each.refused(404, "TagDefinitionNameNotFound") for each in hidden)
