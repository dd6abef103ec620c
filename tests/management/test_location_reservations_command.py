"""`manage.py location_reservations`: list the reservations of staged tables and release one of them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import orjson
import pytest
from django.core.management import CommandError, call_command

from catalog.models import LocationClaim
from catalog.services.locations.claims import lock_warehouse
from catalog.services.tables import staging as services
from icekeeper.kernel.clock import now
from icekeeper.kernel.ids import new_id
from storage.models import Warehouse
from storage.services.warehouses import create_warehouse
from tenancy.actor import INTERNAL
from tenancy.selectors.projects import get_project
from tests.authz.permission_fixtures import other_project
from tests.catalog_fixtures import SCHEMA, finishing_updates
from tests.harness.audit_rows import rows, the_row
from tests.harness.fingerprint import Fingerprint
from tests.harness.log_lines import log_lines
from tests.harness.named_callers import CallerClient, NamedCallers
from tests.management.warehouse_request_fixtures import keep_secrets, use_settings
from tests.signing_fixtures import KEY, new_warehouse, s3_profile

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

Everything = Callable[[], Fingerprint]
TAKEN = (409, "LocationAlreadyTaken")
LATER = datetime(2101, 2, 3, 4, 5, 6, tzinfo=UTC)
HEADER = "location\tstaged-by\texpires-at"
RISKS = "a'b\"c$(id) \u202e\x85\u2028\U000e0041Ω;--"
"""What a local folder may be called, and a shell or a terminal should not be shown as it is."""
RISKS_SHOWN = r"""a'b"c$(id) \u202e\u0085\u2028\U000e0041Ω;--"""


@pytest.fixture
def alice(callers: NamedCallers, warehouse: Warehouse) -> CallerClient:
    """The user who stages tables; all users have all permissions here."""
    callers.user("alice")
    client = CallerClient(f"/catalog/v1/{warehouse.pk}", "alice")
    assert client.post("/namespaces", {"namespace": ["ns"]}).status == 200
    return client


@pytest.fixture
def bob(alice: CallerClient, callers: NamedCallers) -> CallerClient:
    callers.user("bob")
    return CallerClient(alice.base, "bob")


def stage(client: CallerClient, location: str, name: str = "t") -> dict[str, Any]:
    body = {"name": name, "schema": SCHEMA, "stage-create": True, "location": location}
    response = client.post("/namespaces/ns/tables", body)
    assert response.status == 200, response.body
    metadata: dict[str, Any] = response.json()["metadata"]
    return metadata


def create(client: CallerClient, location: str) -> Any:
    return client.post("/namespaces/ns/tables", {"name": "own", "schema": SCHEMA, "location": location})


def hold(warehouse: Warehouse, below: str, by: str = "oidc~alice", until: datetime = LATER) -> str:
    location = f"{warehouse.location}/{below}"
    LocationClaim.objects.create(warehouse=warehouse, staged_by=by, location=location, expires_at=until)
    return location


def run(*words: str, **options: Any) -> list[str]:
    out = StringIO()
    call_command("location_reservations", *words, **options, stdout=out)
    return out.getvalue().split("\n")[:-1]


def refused(*words: str, **options: Any) -> str:
    with pytest.raises(CommandError) as error:
        run(*words, **options)
    assert error.value.returncode == 1
    return str(error.value)


# --- the list ---------------------------------------------------------------------------------------------------------


def test_the_list_has_location_user_and_expiration(
    alice: CallerClient, bob: CallerClient, warehouse: Warehouse
) -> None:
    stage(bob, f"{warehouse.location}/b")
    stage(alice, f"{warehouse.location}/a")
    LocationClaim.objects.update(expires_at=LATER)
    expected = [
        HEADER,
        f"{warehouse.location}/a\toidc~alice\t2101-02-03 04:05 UTC",
        f"{warehouse.location}/b\toidc~bob\t2101-02-03 04:05 UTC",
    ]
    assert run("wh") == run("WH", project_id=warehouse.project_id) == run(str(warehouse.pk)) == expected
    assert [orjson.loads(line) for line in run("wh", json=True)] == [
        {"location": f"{warehouse.location}/{name}", "staged-by": by, "expires-at": "2101-02-03T04:05:06+00:00"}
        for name, by in (("a", "oidc~alice"), ("b", "oidc~bob"))
    ]


def test_only_active_reservations_of_staged_tables(alice: CallerClient, warehouse: Warehouse) -> None:
    assert run("wh") == [HEADER]
    assert run("wh", json=True) == []
    assert create(alice, f"{warehouse.location}/created").status == 200
    hold(warehouse, "over", until=now() - timedelta(seconds=1))
    LocationClaim.objects.create(warehouse=warehouse, task_id=new_id(), location=f"{warehouse.location}/purged")
    assert run("wh") == [HEADER]


@pytest.mark.parametrize("at_once", [1, 2, 3, 5, 6])
def test_it_is_read_in_pieces(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    """Ordered by bytes on every database; two reservations of one location are adjacent."""
    for below in ("b", "a-", "a/", "B", "b"):
        hold(warehouse, below.rstrip("/") + ("/x" if below.endswith("/") else ""), by=below)
    monkeypatch.setattr(services, "BATCH_SIZE", at_once)
    shown = [line.split("\t")[0].removeprefix(f"{warehouse.location}/") for line in run("wh")[1:]]
    assert shown == ["B", "a-", "a/x", "b", "b"]


def test_a_warehouse_by_its_name_is_that_of_the_project(warehouse: Warehouse, storage_root: Path) -> None:
    profile = {"type": "local", "path": str(storage_root / "other")}
    other = create_warehouse(actor=INTERNAL, project=other_project(), name="wh", storage_profile=profile)
    location = hold(other, "t")
    assert run("wh") == [HEADER]
    for shown in (run("wh", project_id="Other"), run(str(other.pk))):
        assert shown == [HEADER, f"{location}\toidc~alice\t2101-02-03 04:05 UTC"]
    Warehouse.objects.update(status="inactive")
    assert len(run("wh", project_id="other")) == 2


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["nowhere"], ": nowhere. Use `--project-id` for another project"),
        (["' OR 1=1 --"], ": ' OR 1=1 --. Use `--project-id`"),
        ([str(new_id())], "Warehouse does not exist"),
        (["w\x00h"], "A name must not be empty"),
        ([""], "A name must not be empty"),
        (["w\ud800h"], "The name is not valid UTF-8"),
        (["wh", "--project-id", "elsewhere"], "Project does not exist: elsewhere"),
    ],
)
def test_unknown_warehouses_and_locations(
    warehouse: Warehouse, everything: Everything, words: list[str], text: str
) -> None:
    hold(warehouse, "t")
    before = everything()
    assert text in refused(*words)
    assert text in refused(*words, "--release", f"{warehouse.location}/t")
    assert everything() == before


# --- the release ------------------------------------------------------------------------------------------------------


def test_after_it_another_may_come(
    alice: CallerClient, bob: CallerClient, warehouse: Warehouse, everything: Everything
) -> None:
    path = f"{warehouse.location}/orders"
    metadata = stage(alice, path)
    LocationClaim.objects.update(expires_at=LATER)
    assert create(bob, path).refused(*TAKEN)
    assert run("wh", "--release", path) == [f"Released {path}, reserved by oidc~alice until 2101-02-03 04:05 UTC."]
    assert not LocationClaim.objects.exists()
    assert run("wh") == [HEADER]
    assert create(bob, path).status == 200
    before = everything()
    body = {"requirements": [{"type": "assert-create"}], "updates": finishing_updates(metadata)}
    assert alice.post("/namespaces/ns/tables/t", body).refused(*TAKEN)
    assert everything() == before


def test_written_files_are_kept_and_prevent_new_tables(
    alice: CallerClient, bob: CallerClient, warehouse: Warehouse
) -> None:
    path = f"{warehouse.location}/orders"
    stage(alice, path)
    left = Path(path.removeprefix("file://")) / "data.parquet"
    left.parent.mkdir(parents=True)
    left.write_text("what Alice wrote")
    run("wh", release=path)
    assert create(bob, path).refused(400, "InvalidLocation")
    assert left.read_text() == "what Alice wrote"
    left.unlink()
    assert create(bob, path).status == 200


def test_as_json(warehouse: Warehouse) -> None:
    path = hold(warehouse, "t", by="role x assumed by oidc~bob\n")
    [line] = run("wh", release=path, json=True)
    assert orjson.loads(line) == {
        "location": path, "staged-by": "role x assumed by oidc~bob\n", "expires-at": "2101-02-03T04:05:06+00:00",
    }  # fmt: skip


def test_all_reservations_of_the_exact_location_are_released(alice: CallerClient, warehouse: Warehouse) -> None:
    """At most one exists; if there were more, the location would otherwise stay reserved."""
    path = hold(warehouse, "a/t")
    hold(warehouse, "a/t", by="oidc~bob\u202e")
    hold(warehouse, "a/t", by="oidc~carl", until=now() - timedelta(seconds=1))
    created = f"{warehouse.location}/created"
    assert create(alice, created).status == 200
    LocationClaim.objects.create(warehouse=warehouse, task_id=new_id(), location=path)
    kept = {hold(warehouse, below) for below in ("a", "a/t/in", "a/t2", "A/t", "b")}
    assert run("wh", release=path) == [
        f"Released {path}, reserved by oidc~alice until 2101-02-03 04:05 UTC.",
        f"Released {path}, reserved by oidc~bob\\u202e until 2101-02-03 04:05 UTC.",
    ]
    left = LocationClaim.objects.filter(expires_at=LATER)
    assert set(left.values_list("location", flat=True)) == kept
    assert LocationClaim.objects.filter(location=path).count() == 2, "expired reservations and purges are kept"


def test_of_nothing(alice: CallerClient, warehouse: Warehouse, storage_root: Path, everything: Everything) -> None:
    path = f"{warehouse.location}/t"
    assert create(alice, path).status == 200
    hold(warehouse, "over", until=now())
    LocationClaim.objects.create(warehouse=warehouse, task_id=new_id(), location=f"{warehouse.location}/purged")
    hold(warehouse, "there")
    profile = {"type": "local", "path": str(storage_root / "other")}
    other = create_warehouse(actor=INTERNAL, project=get_project(None), name="other", storage_profile=profile)
    foreign = hold(other, "t")
    before = everything()
    for below in ("t", "over", "purged", "ther_", "there/in", RISKS):
        text = refused("wh", "--release", f"{warehouse.location}/{below}")
        assert text.endswith("is not reserved: nothing was released")
        assert text.isprintable()
    assert refused("wh", "--release", f"{warehouse.location}/t") == (f"{path} is not reserved: nothing was released")
    assert "is not in the warehouse" in refused("wh", "--release", foreign)
    assert everything() == before
    assert rows(event="staged-location.released") == []


@pytest.mark.parametrize(
    "location",
    [
        "", "t", "%", "'", "file:///",
        "s3://wh/t", "file:///other/t", "{base}", "{base}/", "{base}/../x", "{base}/a//b",
        "{base}/%25", "{base}/a\nb", "{base}/\\n", "{base}/\x00", "{base}/\\u0000", "{base}/\ud800", "{base}/\\ud800",
        "{base}/" + "x" * 3_000,
    ],
)  # fmt: skip
def test_a_location_that_does_not_exist_here(warehouse: Warehouse, everything: Everything, location: str) -> None:
    hold(warehouse, "t")
    before = everything()
    text = refused("wh", release=location.replace("{base}", warehouse.location))
    assert text.startswith(("Location ", "The location "))
    assert text.isprintable()
    assert everything() == before


def test_a_location_is_displayed_under_its_name(alice: CallerClient, warehouse: Warehouse) -> None:
    for spelled in (RISKS, RISKS_SHOWN):
        stage(alice, f"{warehouse.location}/{RISKS}")
        LocationClaim.objects.update(expires_at=LATER)
        assert run("wh") == [HEADER, f"{warehouse.location}/{RISKS_SHOWN}\toidc~alice\t2101-02-03 04:05 UTC"]
        [line] = run("wh", json=True)
        assert orjson.loads(line)["location"] == f"{warehouse.location}/{RISKS}"
        [line] = run("wh", release=f"{warehouse.location}/{spelled}")
        assert line.startswith(f"Released {warehouse.location}/{RISKS_SHOWN}, reserved by oidc~alice")
        assert not LocationClaim.objects.exists()


def test_any_spelling_of_a_location_in_a_store(bootstrapped: None, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_secrets(monkeypatch)
    use_settings(monkeypatch, skip_storage_validation=True)
    warehouse = new_warehouse(s3_profile(), KEY)
    below = "a%2Fb%/c'd _%25"
    for spelled in (f"s3://my-bucket/wh/{below}", f"s3a://my-bucket/wh/{below}/"):
        kept = [hold(warehouse, "a/b%/c'd _%"), hold(warehouse, f"{below}x")]
        path = hold(warehouse, below)
        assert run("wh", release=spelled)[0].startswith(f"Released {path}, ")
        assert sorted(LocationClaim.objects.values_list("location", flat=True)) == sorted(kept)
        LocationClaim.objects.all().delete()


def test_changes_between_the_check_and_the_lock(
    alice: CallerClient, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its user creates the table at this moment: the table is not changed, and nothing is released."""
    path = f"{warehouse.location}/orders"
    metadata = stage(alice, path)

    def after_others(warehouse_id: Any) -> Warehouse | None:
        body = {"requirements": [{"type": "assert-create"}], "updates": finishing_updates(metadata)}
        assert alice.post("/namespaces/ns/tables/t", body).status == 200
        return lock_warehouse(warehouse_id)

    monkeypatch.setattr(services, "lock_warehouse", after_others)
    assert refused("wh", release=path).endswith("is not reserved: nothing was released")
    assert alice.get("/namespaces/ns/tables/t").status == 200
    monkeypatch.setattr(services, "lock_warehouse", lambda _: None)
    assert refused("wh", release=path) == f"Warehouse does not exist: {warehouse.pk}"


# --- audit and log ----------------------------------------------------------------------------------------------------


def test_it_is_in_the_audit_trail_and_in_the_log(
    warehouse: Warehouse, django_capture_on_commit_callbacks: Callable[..., Any]
) -> None:
    path = hold(warehouse, RISKS, by="role x assumed by oidc~bob\n")
    with log_lines("icekeeper.audit") as lines, django_capture_on_commit_callbacks(execute=True):
        run("wh")
        run("wh", release=path)
        refused("wh", release=path)
    row = the_row(event="staged-location.released")
    assert (row.actor, row.object_type, row.object_id, row.project_id, row.outcome) == (
        "internal", "warehouse", str(warehouse.pk), warehouse.project_id, "allowed",
    )  # fmt: skip
    assert orjson.loads(row.details) == {
        "location": path, "staged_by": "role x assumed by oidc~bob\n", "until": "2101-02-03T04:05:06+00:00",
    }  # fmt: skip
    [line] = lines.read()
    reported = (line["message"], line["id"], line["type"], line["by"], line["location"], line["staged_by"])
    assert reported == (
        "staged-location.released", str(warehouse.pk), "warehouse", "internal", path, "role x assumed by oidc~bob\n",
    )  # fmt: skip
