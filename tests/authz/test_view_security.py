"""A trusted engine reads through views: with its own permissions, then with those of the owner of each view."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from catalog.models import Tabular, TabularMetadata
from catalog.services.tables.create_view import create_view
from icekeeper.kernel.clock import now
from tenancy.actor import INTERNAL
from tenancy.audit.collector import collector
from tenancy.authz import port
from tenancy.models import AuditRecord, Securable, User
from tenancy.models.securable import ObjectRef
from tests.authz.conftest import good, user
from tests.authz.tree_fixtures import give, role
from tests.authz.view_owner_fixtures import AUDIENCE, OTHER_OWNER, OWNER, VIEW, Lake, engine, through, trust
from tests.harness.fingerprint import Fingerprint
from tests.harness.named_callers import CallerClient
from tests.harness.statement_counts import counting, require_as_recorded
from tests.harness.wsgi_client import Response
from tests.management.warehouse_request_fixtures import use_settings

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

A = "/namespaces/closed/tables/a"
MISSING = "Table does not exist: closed.a"


def looks_missing(response: Response) -> bool:
    """Whether the response equals the one for a missing object, for a caller who sees nothing in the warehouse."""
    if response.error["type"] == "NoSuchWarehouseException":
        return response.refused(404, "NoSuchWarehouseException", "Warehouse does not exist")
    return response.refused(404, "NoSuchTableException") and response.error["message"] == MISSING


def reported(response: Response) -> dict[str, Any]:
    """Return the error, without the id that identifies it in the log."""
    return {name: value for name, value in response.error.items() if name != "stack"}


def test_behind_a_view_with_an_owner_the_owner_reads(world: Lake) -> None:
    trino = world.engine()
    view = world.view("d", "alice")
    world.give("select", view, "trino")
    assert looks_missing(trino.get(A + through("open.d")))
    world.give("select", "closed.a", "alice")
    assert looks_missing(trino.get(A)), "the engine has no rights of its own"
    response = good(trino.get(A + through("open.d")))
    assert response.json()["metadata-location"] == Tabular.objects.get(pk=world.refs["closed.a"][1]).metadata_location
    assert looks_missing(trino.get(A + through("open.v"))), "through another view"
    assert good(trino.get(f"{A}/credentials" + through("open.d"))).json() == {"storage-credentials": []}
    assert trino.get("/namespaces/closed/tables/b" + through("open.d")).refused(404, "NoSuchTableException")


@pytest.mark.parametrize("privilege", [None, "describe"])
def test_the_engine_must_be_allowed_to_select_from_the_view(world: Lake, privilege: str | None) -> None:
    trino, view = world.engine(), world.view("d", "alice")
    world.give("select", "closed.a", "alice", "trino")
    if privilege is not None:
        world.give(privilege, view, "trino")
    refused = trino.get(A + through("open.d"))
    assert looks_missing(refused)
    assert reported(trino.get(A + through("open.nowhere"))) == reported(refused)
    assert reported(trino.get("/namespaces/closed/tables/no" + through("open.d")))["type"] == "NoSuchTableException"
    assert looks_missing(trino.get(A + through("open.a"))), "a table is no view"
    assert good(trino.get(A)).status == 200
    world.give("select", view, "trino")
    assert good(trino.get(A + through("open.d"))).status == 200


def test_behind_a_view_without_owner_the_reader_stays_the_same(world: Lake) -> None:
    trino = world.engine()
    world.give("select", "open.v", "trino")
    world.give("select", "closed.a", "alice")
    assert looks_missing(trino.get(A + through("open.v")))
    world.give("select", "closed.a", "trino")
    assert good(trino.get(A + through("open.v"))).status == 200


def test_each_owner_must_be_allowed_to_select_from_the_next_view(world: Lake) -> None:
    trino, outer, inner = (
        world.engine(),
        world.view("outer", "alice"),
        world.view("inner", "bob", levels=("closed",)),
    )
    chain = through("open.outer", "closed.inner")
    world.give("select", outer, "trino")
    world.give("select", "closed.a", "bob")
    world.give("select", inner, "trino")
    assert looks_missing(trino.get(A + chain)), "alice may not use the inner one"
    world.give("select", inner, "alice")
    assert good(trino.get(A + chain)).status == 200
    assert looks_missing(trino.get(A + through("closed.inner", "open.outer"))), "bob may not use the outer one"
    assert looks_missing(trino.get(A + through("open.outer"))), "alice may not read the table"


def test_a_view_without_owner_leaves_the_owner_of_an_outer_one(world: Lake) -> None:
    trino, outer, inner = world.engine(), world.view("outer", "alice"), world.view("inner")
    world.give("select", outer, "trino")
    world.give("select", inner, "trino")
    world.give("select", "closed.a", "alice")
    assert looks_missing(trino.get(A + through("open.outer", "open.inner"))), "it is alice who must be allowed to"
    world.give("select", inner, "alice")
    assert good(trino.get(A + through("open.outer", "open.inner"))).status == 200
    assert looks_missing(trino.get(A + through("open.inner"))), "without the outer one it is the engine"
    assert good(trino.get(A + through("open.inner", "open.outer", "open.inner"))).status == 200, "in circles, too"


def test_for_others_than_the_engine_views_count_for_nothing(world: Lake) -> None:
    view = world.view("d", "alice")
    world.give("select", "closed.a", "alice")
    others = [
        world.engine("eve", audiences=()),
        world.engine("eve", audiences=("another", f"{AUDIENCE}2", AUDIENCE.upper())),
        world.engine("trino~eve", audiences=()),
    ]
    world.give("select", view, "eve")
    for other in others:
        assert looks_missing(other.get(A + through("open.d")))
    world.give("select", "closed.a", "eve")
    assert good(others[0].get(A + through("open.nowhere"))).json() == good(others[0].get(A)).json()


def test_an_engine_is_known_by_audience_or_subject_of_its_own_provider(
    world: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    trust(monkeypatch, trino=engine(audiences=(), subjects=("robot",)))
    view, by_subject = world.view("d", "alice"), world.engine("robot", audiences=())
    world.give("select", view, "robot")
    world.give("select", "closed.a", "alice")
    assert good(by_subject.get(A + through("open.d"))).status == 200
    assert looks_missing(world.engine("Robot", audiences=()).get(A + through("open.d")))
    assert looks_missing(world.engine("human").get(A + through("open.d"))), "the audience is none of its"
    foreign = engine(subjects=("robot",)).model_copy(update={"identities": {"idp-2": engine().identities["oidc"]}})
    trust(monkeypatch, trino=foreign)
    assert looks_missing(by_subject.get(A + through("open.d"))), "of another provider"
    trust(monkeypatch)
    assert looks_missing(by_subject.get(A + through("open.d"))), "no engine is trusted"


def test_an_owner_has_nothing_of_the_engine(world: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the roles of the engine's token, nor its instance administrator rights, nor a role that it assumes."""
    given, view = role("r", source="engines"), world.view("d", "alice")
    give("select", world.refs["closed.a"], user("x"), to=given)
    world.give("describe", world.refs["open"], "alice")  # alice exists
    use_settings(monkeypatch, instance_admins=["oidc~trino", "oidc~alice"])
    trino = world.engine(roles=("engines",))
    world.give("select", view, "trino")
    assert good(trino.get(A)).status == 200
    assert looks_missing(trino.get(A + through("open.d"))), "alice administrates only with her own token"
    own = role("own")
    give("ownership", ObjectRef(Securable.Type.ROLE, own.pk), user("trino"))
    give("select", view, user("trino"), to=own)
    assumed = {"x-assume-role": str(own.pk)}
    assert looks_missing(trino.get(A + through("open.d"), **assumed))
    world.give("select", "closed.a", "alice")
    assert good(trino.get(A + through("open.d"), **assumed)).status == 200
    assert looks_missing(trino.get(A, **assumed)), "the assumed role itself may not"


def test_an_owner_has_the_roles_that_are_kept_here(world: Lake) -> None:
    trino, view, readers = world.engine(), world.view("d", "alice"), role("readers")
    world.give("select", view, "trino")
    give("select", world.refs["closed.a"], user("alice"), through=readers, to=readers)
    assert good(trino.get(A + through("open.d"))).status == 200


@pytest.mark.parametrize("change", [{"is_active": False}, {"deleted_at": now()}])
def test_a_locked_out_owner_has_no_rights(world: Lake, change: dict[str, Any]) -> None:
    trino, view = world.engine(), world.view("d", "alice")
    world.give("select", view, "trino")
    world.give("select", "closed.a", "alice", "trino")
    assert good(trino.get(A + through("open.d"))).status == 200
    User.objects.filter(pk="oidc~alice").update(**change)
    assert looks_missing(trino.get(A + through("open.d")))


@pytest.mark.parametrize("owner", ["unknown-user", "oidc~alice", "Alice", "' OR 1=1 --", "kubernetes~x"])
def test_an_unknown_owner_has_no_rights(world: Lake, owner: str, monkeypatch: pytest.MonkeyPatch) -> None:
    trino, view = world.engine(), world.view("d", owner)
    world.give("select", view, "trino")
    world.give("select", "closed.a", "alice", "trino")
    assert looks_missing(trino.get(A + through("open.d")))
    use_settings(monkeypatch, authz_backend="allowall")
    port.authorizer.cache_clear()
    assert looks_missing(trino.get(A + through("open.d"))), "not even where every user may do everything"


@pytest.mark.parametrize("owner", ["", "  ", "a\x00b", "a\u202eb", "x" * 128, "é" * 64, "x" * 100_000])
def test_invalid_owners_are_reported_to_users_of_the_view(world: Lake, owner: str) -> None:
    trino, view = world.engine(), world.view("d", owner)
    world.give("select", "closed.a", "trino")
    assert looks_missing(trino.get(A + through("open.d"))), "the view is hidden"
    world.give("select", view, "trino")
    assert trino.get(A + through("open.d")).refused(403, "AuthzBadRequest", "open.d")


def test_a_view_may_have_one_owner_only(world: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    trust(monkeypatch, trino=engine(), other=engine(owner_property=OTHER_OWNER, audiences=("other",)))
    both = world.engine("both", audiences=(AUDIENCE, "other"))
    view, agreed = (
        world.view("d", "alice", **{OTHER_OWNER: "bob"}),
        world.view("e", "alice", **{OTHER_OWNER: "alice"}),
    )
    for one in (view, agreed):
        world.give("select", one, "both", "trino", "other")
    world.give("select", "closed.a", "alice")
    assert both.get(A + through("open.d")).refused(403, "AuthzBadRequest", "several owners")
    assert good(both.get(A + through("open.e"))).status == 200
    assert good(world.engine().get(A + through("open.d"))).status == 200
    assert looks_missing(world.engine("other", audiences=("other",)).get(A + through("open.d"))), "of bob"


def test_views_and_generic_tables_are_read_through_views(world: Lake) -> None:
    trino, view = world.engine(), world.view("d", "alice")
    generic = CallerClient(trino.base.replace("/catalog", "/lakekeeper"), "trino")
    world.give("select", view, "trino")
    at_view, at_generic = "/namespaces/closed/views/v", "/namespaces/closed/generic-tables/g"
    for target, asked in ((at_view, trino), (at_generic, generic), (f"{at_generic}/credentials", generic)):
        assert asked.get(target).status == 404
        assert reported(asked.get(target + through("open.d"))) == reported(asked.get(target))
    world.give("describe", "closed.v", "alice")
    world.give("select", "closed.g", "alice")
    assert good(trino.get(at_view + through("open.d"))).json()["metadata"]["format-version"] == 1
    assert good(generic.get(at_generic + through("open.d"))).json()["table"]["name"] == "g"
    assert good(generic.get(f"{at_generic}/credentials" + through("open.d"))).json() == {"storage-credentials": []}
    assert generic.get(at_generic + through(*["open.d"] * 11)).refused(400, "ReferencedByDepthExceeded")


def test_credentials_are_denied_to_an_owner_who_only_sees_the_table(world: Lake) -> None:
    trino, view = world.engine(), world.view("d", "alice")
    world.give("select", view, "trino")
    world.give("describe", "closed.a", "alice")
    response = trino.get(f"{A}/credentials" + through("open.d"))
    assert response.refused(403, "TableActionForbidden", "oidc~alice (owner of a view that oidc~trino reads) may not")
    assert good(trino.get(A + through("open.d"))).status == 200


def test_the_audit_trail_shows_who_read_and_as_whom(world: Lake) -> None:
    outer, inner, own = world.view("outer", "alice"), world.view("inner", "bob"), role("own")
    trino = world.engine()
    give("ownership", ObjectRef(Securable.Type.ROLE, own.pk), user("trino"))
    give("select", outer, user("trino"), to=own)
    assumed = {"x-assume-role": str(own.pk)}
    AuditRecord.objects.all().delete()

    def denied() -> list[tuple[Any, ...]]:
        assert looks_missing(trino.get(A + through("open.outer", "open.inner"), **assumed))
        collector.write_due()
        rows = AuditRecord.objects.filter(event="access.denied").order_by("pk")
        reported = [
            (row.actor, row.assumed_role, row.action, row.object_id, row.reason, json.loads(row.details))
            for row in rows
        ]
        rows.delete()
        return reported

    def error(on: ObjectRef, action: str, reason: str, owner: str) -> list[tuple[Any, ...]]:
        return [("oidc~trino", own.pk, action, str(on[1]), reason, {"read_as": f"oidc~{owner}"})]

    assert denied() == error(outer, "select", "OwnerNotActive", "alice")
    world.give("describe", "open.v", "alice")
    assert denied() == error(inner, "select", "CannotSeeResource", "alice")
    world.give("describe", inner, "alice")
    assert denied() == error(inner, "select", "ActionForbidden", "alice")
    world.give("select", inner, "alice")
    assert denied() == error(inner, "select", "OwnerNotActive", "bob")
    world.give("describe", "open.v", "bob")
    assert denied() == error(world.refs["closed.a"], "get_metadata", "CannotSeeResource", "bob")


def test_access_through_views_is_another_response(world: Lake) -> None:
    trino, d, e = world.engine(), world.view("d", "alice"), world.view("e", "bob")
    for view in (d, e):
        world.give("select", view, "trino")
    world.give("select", "closed.a", "alice", "bob", "trino")
    queries = ("", through("open.d"), through("open.e"))
    tags = [good(trino.get(A + query)).headers["ETag"] for query in queries]
    assert len(set(tags)) == 3
    for query, own in zip(queries, tags, strict=True):
        assert [trino.get(A + query, **{"if-none-match": tag}).status for tag in tags] == [
            304 if tag == own else 200 for tag in tags
        ]
    world.give("select", "open.v", "trino")
    assert good(trino.get(A + through("open.v"))).headers["ETag"] == tags[0], "with the caller's own rights"


def test_a_view_whose_text_is_only_in_a_file_names_no_owner(world: Lake) -> None:
    """Every user with write access to the store can change the file."""
    trino, view = world.engine(), world.view("d", "alice")
    world.give("select", view, "trino")
    world.give("select", "closed.a", "alice", "trino")
    assert good(trino.get(A + through("open.d"))).status == 200
    TabularMetadata.objects.filter(pk=view[1]).update(document=None)
    assert trino.get(A + through("open.d")).refused(403, "AuthzBadRequest", "The owner of view open.d is unknown")


def test_views_are_kept_in_the_database_whatever_their_size(world: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    use_settings(monkeypatch, metadata_inline_limit=0)
    trino, view = world.engine(), world.view("d", "alice")
    world.give("select", view, "trino")
    world.give("modify", view, "trino")
    world.give("select", "closed.a", "alice")
    assert good(trino.get(A + through("open.d"))).status == 200
    updates = [{"action": "set-properties", "updates": {"k": "v"}}]
    good(trino.post("/namespaces/open/views/d", {"updates": updates}))
    assert TabularMetadata.objects.get(pk=view[1]).document is not None
    assert good(trino.get(A + through("open.d"))).status == 200


def test_an_inactive_warehouse_has_no_views(world: Lake) -> None:
    trino, view = world.engine(), world.view("d", "alice")
    world.give("select", view, "trino")
    type(world.warehouse).objects.update(status="inactive")
    for query in (through("open.d"), through("open.nowhere"), ""):
        assert trino.get(A + query).refused(404, "NoSuchWarehouseException")


@pytest.mark.usefixtures("soft_delete")
def test_a_dropped_view_gives_no_access(world: Lake, everything: Callable[[], Fingerprint]) -> None:
    trino, view = world.engine(), world.view("d", "alice")
    world.give("select", view, "trino")
    world.give("select", "closed.a", "alice", "trino")
    assert good(trino.get(A + through("open.d"))).status == 200
    good(CallerClient(trino.base, "root").delete("/namespaces/open/views/d"))
    before = everything()
    assert looks_missing(trino.get(A + through("open.d")))
    assert everything() == before


def test_what_reading_through_views_costs(world: Lake) -> None:
    """One statement for the views, one for their owners, and for each reader the statements of one check."""
    trino = world.engine()
    chain = [f"d{number}" for number in range(10)]
    readers = ["trino", *(f"owner{number}" for number in range(10))]
    views = [world.view(name, owner) for name, owner in zip(chain, readers[1:], strict=True)]
    plain = [world.view(f"i{number}") for number in range(10)]
    for view, reader in zip(views, readers, strict=False):
        world.give("select", view, reader)
    for view in plain:
        world.give("select", view, "trino")
    world.give("select", "closed.a", "owner9", "trino", "owner0")
    calls = {
        "load": A,
        "load_through_a_view": A + through("open.i0"),
        "load_through_ten_views": A + through(*(f"open.i{number}" for number in range(10))),
        "load_through_an_owner": A + through("open.d0"),
        "load_through_ten_owners": A + through(*(f"open.{name}" for name in chain)),
        "load_through_ten_owners_again": A + through(*(f"open.{name}" for name in chain)),
        "load_through_a_missing_view": A + through("open.nowhere"),
    }
    counted = {}
    good(trino.get(A))
    for name, target in calls.items():
        with counting() as seen:
            response = trino.get(target)
        assert response.status == (404 if "missing" in name else 200), (name, response.body)
        counted[name] = dict(sorted(seen.items()))
    require_as_recorded("views", counted)


def test_an_engine_without_views_reads_with_its_own_rights(world: Lake) -> None:
    """A value that cannot be parsed is no chain."""
    trino, view = world.engine(), world.view("d", "alice")
    world.give("select", view, "trino")
    world.give("select", "closed.a", "alice")
    for value in ("", ",", "d", "open%1F", "%1Fd", "open%1Fd,", "open%1Fd,,open%1Fd", "%FF%1Fd", "open.d", "open/d"):
        assert looks_missing(trino.get(f"{A}?referenced-by={value}")), value
    twice = "referenced-by=open%1Fd"
    assert looks_missing(trino.get(f"{A}?{twice}&{twice}"))
    for query in (twice, f"snapshots=refs&{twice}", "Referenced-by=x&referenced%2Dby=open%1fd", "&&" + twice):
        assert good(trino.get(f"{A}?{query}")).status == 200, query


def test_views_are_found_as_they_are_everywhere(world: Lake) -> None:
    trino = world.engine()
    for levels in (["a,b"], ["a,b", "c d+e"]):
        good(CallerClient(trino.base, "root").post("/namespaces", {"namespace": levels}))
    names = {"x,y": "x%2Cy", "q w": "q+w", "1+1": "1%2B1", "ü/%": "%C3%BC%2F%25", "n&m=1": "n%26m%3D1"}
    world.give("select", "closed.a", "alice")
    for name, spelled in names.items():
        view = world.view(name, "alice", levels=("a,b", "c d+e"))
        world.give("select", view, "trino")
        for above in ("a%2Cb%1Fc+d%2Be", "A%2CB%1FC%20D%2BE"):
            assert good(trino.get(f"{A}?referenced-by={above}%1F{spelled}")).status == 200, name
    for hostile in ("a%00b%1Fc", "open%1Fd%00"):
        assert trino.get(f"{A}?referenced-by={hostile}").refused(400, "BadRequestException", "NUL"), hostile
    for hostile in ("x%1Fy%1F" * 200 + "z", "..%1F..%1Fd"):
        assert looks_missing(trino.get(f"{A}?referenced-by={hostile}")), hostile


def test_owners_are_found_by_the_exact_property(world: Lake) -> None:
    """The property in other letter case is protected, but has no effect."""
    trino = world.engine()
    created = create_view(
        actor=INTERNAL, warehouse_id=world.warehouse.pk, levels=("open",), name="d", schema=VIEW["schema"],
        view_version=VIEW["view-version"], location=None, properties={OWNER.upper(): "alice"},
    )  # fmt: skip
    world.give("select", ObjectRef(world.refs["open.v"].type, created.id), "trino")
    world.give("select", "closed.a", "alice")
    assert looks_missing(trino.get(A + through("open.d")))
