"""PyIceberg as a client: tables are created, changed and dropped through the real server."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from urllib.parse import quote

import pyarrow as pa
import pytest
from pyiceberg import exceptions
from pyiceberg.catalog import Catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.types import IntegerType, LongType, NestedField, StringType, TimestamptzType

from tasks.spark.readback import connect_pyiceberg
from tests.parts.server import CatalogServer

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "city", StringType(), required=False),
    identifier_field_ids=[1],
)
ARROW = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("city", pa.string())])
AWKWARD_NAMES = ("two words", "dot.ted", "Größe 表", "a/b", "a+b", "50%", "q?x=1&y", "#1", "%2F", "quote'\"")


def rows(*pairs: tuple[int, str]) -> pa.Table:
    return pa.table([[number for number, _ in pairs], [city for _, city in pairs]], schema=ARROW)


def stored(table: Table) -> list[tuple[int, str]]:
    content = table.scan().to_arrow().to_pydict()
    return sorted(zip(content["id"], content["city"], strict=True))


@pytest.fixture
def cities(catalog: Catalog, namespace: str) -> Table:
    """A table of two rows, partitioned by city."""
    by_city = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "city"))
    table = catalog.create_table((namespace, "cities"), SCHEMA, partition_spec=by_city, properties={"team": "maps"})
    table.append(rows((1, "Rome"), (2, "Oslo")))
    return table


@pytest.fixture
def second_client(live_catalog: CatalogServer) -> Iterator[Catalog]:
    with closing(connect_pyiceberg(uri=live_catalog.uri, warehouse=live_catalog.warehouse, token=None)) as client:
        yield client


def test_create_and_append(catalog: Catalog, cities: Table, namespace: str) -> None:
    again = catalog.load_table((namespace, "cities"))
    assert stored(again) == [(1, "Rome"), (2, "Oslo")]
    assert again.metadata == cities.metadata
    assert again.schema().identifier_field_names() == {"id"}
    assert again.properties["team"] == "maps"
    assert [field.name for field in again.spec().fields] == ["city"]
    with pytest.raises(exceptions.TableAlreadyExistsError):
        catalog.create_table((namespace, "cities"), SCHEMA)
    assert catalog.create_table_if_not_exists((namespace, "cities"), SCHEMA).metadata == again.metadata


def test_overwrite_delete_and_upsert(catalog: Catalog, cities: Table, namespace: str) -> None:
    cities.overwrite(rows((3, "Rome")), overwrite_filter="city = 'Rome'")
    cities.delete("id = 2")
    cities.upsert(rows((3, "Roma"), (4, "Lima")))
    assert stored(catalog.load_table((namespace, "cities"))) == [(3, "Roma"), (4, "Lima")]
    cities.dynamic_partition_overwrite(rows((5, "Lima")))
    assert stored(cities) == [(3, "Roma"), (5, "Lima")]


def test_schema_evolution(catalog: Catalog, cities: Table, namespace: str) -> None:
    with cities.update_schema() as change:
        change.add_column("population", IntegerType(), doc="inhabitants")
        change.rename_column("city", "town")
        change.move_first("city")
    with cities.update_schema() as change:
        change.update_column("population", LongType())
    cities.append(pa.table({"town": ["Bern"], "id": [7], "population": [2**40]}, schema=cities.schema().as_arrow()))
    again = catalog.load_table((namespace, "cities"))
    assert [(field.name, field.field_id) for field in again.schema().fields] == [
        ("town", 2),
        ("id", 1),
        ("population", 3),
    ]
    assert again.scan().to_arrow().sort_by("id").to_pydict() == {
        "town": ["Rome", "Oslo", "Bern"],
        "id": [1, 2, 7],
        "population": [None, None, 2**40],
    }
    assert len(again.metadata.schemas) == 3


def test_partitioning_evolves(catalog: Catalog, cities: Table, namespace: str) -> None:
    with cities.update_spec() as change:
        change.add_field("id", IdentityTransform(), "shard")
        change.remove_field("city")
    cities.append(rows((3, "Lima")))
    again = catalog.load_table((namespace, "cities"))
    assert [field.name for field in again.spec().fields] == ["shard"]
    assert set(again.inspect.files()["spec_id"].to_pylist()) == {0, 1}
    assert stored(again) == [(1, "Rome"), (2, "Oslo"), (3, "Lima")]


def test_properties(catalog: Catalog, cities: Table, namespace: str) -> None:
    with cities.transaction() as change:
        change.set_properties({"owner": "me", "note": "x" * 5000})
        change.remove_properties("team")
    properties = catalog.load_table((namespace, "cities")).properties
    assert properties["note"] == "x" * 5000
    assert "team" not in properties
    done = catalog.update_namespace_properties(namespace, removals={"absent"}, updates={"team": "ops", "tier": "1"})
    assert (sorted(done.updated), done.removed, done.missing) == (["team", "tier"], [], ["absent"])
    assert catalog.load_namespace_properties(namespace)["team"] == "ops"


def test_rename_list_exists_drop(catalog: Catalog, cities: Table, namespace: str) -> None:
    catalog.create_namespace((namespace, "attic"))
    moved = catalog.rename_table((namespace, "cities"), (namespace, "attic", "towns"))
    assert moved.metadata == cities.metadata
    assert catalog.list_tables(namespace) == []
    assert catalog.list_tables((namespace, "attic")) == [(namespace, "attic", "towns")]
    assert not catalog.table_exists((namespace, "cities"))
    catalog.create_table((namespace, "other"), SCHEMA)
    with pytest.raises(exceptions.TableAlreadyExistsError):
        catalog.rename_table((namespace, "attic", "towns"), (namespace, "other"))
    with pytest.raises(exceptions.NoSuchTableError):
        catalog.rename_table((namespace, "cities"), (namespace, "new"))
    catalog.drop_table((namespace, "attic", "towns"))
    with pytest.raises(exceptions.NoSuchTableError):
        catalog.load_table((namespace, "attic", "towns"))
    with pytest.raises(exceptions.NoSuchTableError):
        catalog.drop_table((namespace, "attic", "towns"))


def test_register_a_dropped_table(catalog: Catalog, cities: Table, namespace: str) -> None:
    with pytest.raises(exceptions.TableAlreadyExistsError):
        catalog.register_table((namespace, "cities"), cities.metadata_location)
    catalog.drop_table((namespace, "cities"))
    again = catalog.register_table((namespace, "back"), cities.metadata_location)
    assert again.metadata == cities.metadata
    again.append(rows((3, "Lima")))
    assert stored(catalog.load_table((namespace, "back"))) == [(1, "Rome"), (2, "Oslo"), (3, "Lima")]


def test_create_in_a_transaction(catalog: Catalog, namespace: str) -> None:
    with catalog.create_table_transaction((namespace, "staged"), SCHEMA) as change:
        with change.update_schema() as schema:
            schema.add_column("seen", TimestamptzType())
        with change.update_spec() as spec:
            spec.add_field("seen", DayTransform(), "day")
        assert not catalog.table_exists((namespace, "staged"))
    table = catalog.load_table((namespace, "staged"))
    assert [field.name for field in table.schema().fields] == ["id", "city", "seen"]
    assert [field.name for field in table.spec().fields] == ["day"]


def test_of_two_creating_transactions_one_wins(catalog: Catalog, second_client: Catalog, namespace: str) -> None:
    first = catalog.create_table_transaction((namespace, "staged"), SCHEMA, properties={"by": "first"})
    second = second_client.create_table_transaction((namespace, "staged"), SCHEMA, properties={"by": "second"})
    first.commit_transaction()
    with pytest.raises((exceptions.CommitFailedException, exceptions.TableAlreadyExistsError)):
        second.commit_transaction()
    assert catalog.load_table((namespace, "staged")).properties["by"] == "first"


def test_a_stale_change_is_refused_and_changes_nothing(
    catalog: Catalog, second_client: Catalog, cities: Table, namespace: str
) -> None:
    stale = second_client.load_table((namespace, "cities"))
    with cities.update_schema() as change:
        change.add_column("population", IntegerType())
    before = catalog.load_table((namespace, "cities")).metadata_location
    change = stale.update_schema().add_column("area", IntegerType())
    with pytest.raises(exceptions.CommitFailedException, match=r"(?i)requirement|schema|field"):
        change.commit()
    assert catalog.load_table((namespace, "cities")).metadata_location == before


def test_concurrent_appends_lose_nothing(catalog: Catalog, namespace: str, live_catalog: CatalogServer) -> None:
    catalog.create_table((namespace, "log"), SCHEMA, properties={"commit.retry.num-retries": "30"})

    def append(writer: int) -> None:
        with closing(connect_pyiceberg(uri=live_catalog.uri, warehouse=live_catalog.warehouse, token=None)) as client:
            table = client.load_table((namespace, "log"))
            for number in range(4):
                table.append(rows((writer * 100 + number, f"writer {writer}")))

    with ThreadPoolExecutor(4) as writers:
        list(writers.map(append, range(4)))
    table = catalog.load_table((namespace, "log"))
    wanted = sorted((writer * 100 + number, f"writer {writer}") for writer in range(4) for number in range(4))
    assert stored(table) == wanted
    assert len(table.snapshots()) == 16


def test_branches_tags_and_history(catalog: Catalog, cities: Table, namespace: str) -> None:
    first = cities.current_snapshot()
    assert first is not None
    with cities.manage_snapshots() as change:
        change.create_tag(first.snapshot_id, "start").create_branch(first.snapshot_id, "audit")
    cities.append(rows((3, "Lima")), branch="audit")
    cities.append(rows((4, "Bern")))
    again = catalog.load_table((namespace, "cities"))
    assert stored(again) == [(1, "Rome"), (2, "Oslo"), (4, "Bern")]
    audit = again.snapshot_by_name("audit")
    assert audit is not None
    assert again.scan(snapshot_id=audit.snapshot_id).to_arrow().num_rows == 3
    assert again.snapshot_by_name("start") == first
    with again.manage_snapshots() as change:
        change.remove_branch("audit").remove_tag("start")
    assert set(catalog.load_table((namespace, "cities")).refs()) == {"main"}


def test_nested_namespaces(catalog: Catalog, namespace: str) -> None:
    deep = (namespace, "a.b", "c/d", "ü n")
    for depth in range(2, len(deep) + 1):
        catalog.create_namespace(deep[:depth], {"depth": str(depth)})
    assert catalog.list_namespaces(deep[:-1]) == [deep]
    assert catalog.load_namespace_properties(deep)["depth"] == "4"
    catalog.create_table((*deep, "t"), SCHEMA).append(rows((1, "Rome")))
    assert catalog.list_tables(deep) == [(*deep, "t")]
    assert stored(catalog.load_table((*deep, "t"))) == [(1, "Rome")]
    with pytest.raises(exceptions.NamespaceNotEmptyError):
        catalog.drop_namespace(deep)
    with pytest.raises(exceptions.NamespaceNotEmptyError):
        catalog.drop_namespace(deep[:-1])
    with pytest.raises(exceptions.NamespaceAlreadyExistsError):
        catalog.create_namespace(deep)
    with pytest.raises(exceptions.NoSuchNamespaceError):
        catalog.list_tables((*deep, "nowhere"))
    with pytest.raises(exceptions.NoSuchNamespaceError):
        catalog.create_table((*deep, "nowhere", "t"), SCHEMA)


@pytest.mark.parametrize("name", AWKWARD_NAMES)
def test_awkward_names(catalog: Catalog, namespace: str, name: str) -> None:
    inside = (namespace, f"space of {name}")
    catalog.create_namespace(inside)
    assert catalog.namespace_exists(inside)
    catalog.create_table((*inside, name), SCHEMA).append(rows((1, name)))
    table = catalog.load_table((*inside, name))
    assert table.name() == (*inside, name)
    assert stored(table) == [(1, name)]
    assert catalog.list_tables(inside) == [(*inside, name)]
    renamed = (*inside, f"{name} too")
    catalog.rename_table((*inside, name), renamed)
    assert not catalog.table_exists((*inside, name))
    assert stored(catalog.load_table(renamed)) == [(1, name)]
    catalog.drop_table(renamed)
    catalog.drop_namespace(inside)
    assert inside not in catalog.list_namespaces(namespace)


def test_a_name_is_not_its_own_quoted_form(catalog: Catalog, namespace: str) -> None:
    catalog.create_table((namespace, "a/b"), SCHEMA)
    assert not catalog.table_exists((namespace, quote("a/b", safe="")))
    assert not catalog.table_exists((namespace, "a b"))
