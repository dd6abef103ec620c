"""A server with a small catalog that looks like one in use, for the pictures of the documentation."""

from __future__ import annotations

import re
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import requests
from playwright.sync_api import Browser, StorageState
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DateType, DecimalType, IntegerType, LongType, NestedField, StringType

from tests.parts.server import CatalogServer

ADMIN, ANA, LARS = "local~admin", "local~ana", "local~lars"
TABLES = {
    ("finance",): ("ledger", "invoices", "budgets"),
    ("ml",): ("features", "predictions"),
    ("ops",): ("deployments",),
    ("sales",): ("customers",),
    ("sales", "orders"): ("orders", "returns", "shipments"),
}
ORDER_LINES = Schema(
    NestedField(1, "order_id", LongType(), required=True, doc="Order of the line"),
    NestedField(2, "line_no", IntegerType(), required=True, doc="From 1, in the order of entry"),
    NestedField(3, "sku", StringType(), doc="Article"),
    NestedField(4, "quantity", IntegerType()),
    NestedField(5, "price", DecimalType(12, 2), doc="Net, in the currency of the order"),
    NestedField(6, "city", StringType()),
    NestedField(7, "ordered_on", DateType(), doc="Day of the order, UTC"),
)

HISTORY = """
import math, random
from datetime import timedelta
from uuid import UUID
from catalog.models import LargeTable, SlowTable, Tabular, WarehouseSize, WarehouseStatistic
from icekeeper.kernel.clock import now
from management.models import CallHour, EndpointStatistic, LoadDuration
random.seed(22)
warehouse, project = UUID("{warehouse}"), "{project}"
hour = now().replace(minute=0, second=0, microsecond=0)
calls, hours, durations = [], [], []
for back in range(24 * 30):
    at = hour - timedelta(hours=back)
    load = 1.2 + math.sin((at.hour - 8) / 24 * 2 * math.pi) - (0.7 if at.weekday() > 4 else 0)
    base = max(40, int(900 * load * random.uniform(0.9, 1.1)))
    tables = "/catalog/v1/{{prefix}}/namespaces/{{namespace}}/tables/{{table}}"
    for endpoint, status, count in (
        (f"GET {{tables}}", 200, base * 4), (f"POST {{tables}}", 200, base // 5),
        (f"GET {{tables}}", 404, base // 12), (f"POST {{tables}}", 409, base // 60),
        (f"GET {{tables}}", 503, base // 800),
    ):
        if count:
            calls.append(EndpointStatistic(
                project_id=project, warehouse_id=warehouse, endpoint=endpoint, status=status, hour=at, count=count,
                created_at=at, updated_at=at,
            ))
    hours.append(CallHour(
        project_id=project, warehouse_id=warehouse, hour=at, succeeded=base * 4 + base // 5,
        client_errors=base // 12 + base // 60, server_errors=base // 800, commits=base // 5,
    ))
    durations += [
        LoadDuration(project_id=project, warehouse_id=warehouse, hour=at, limit_ms=limit_ms, count=int(base * share))
        for limit_ms, share in ((3, 2.2), (5, 1.2), (10, 0.4), (20, 0.1 + back / 9000), (50, 0.08))
    ]
EndpointStatistic.objects.bulk_create(calls, ignore_conflicts=True)
CallHour.objects.bulk_create(hours, ignore_conflicts=True)
LoadDuration.objects.bulk_create(durations, ignore_conflicts=True)
WarehouseSize.objects.filter(warehouse=warehouse).delete()
WarehouseSize.objects.bulk_create([
    WarehouseSize(
        warehouse_id=warehouse, hour=hour - timedelta(hours=back), records=int(4.1e9 * 0.9994**back),
        files_size=int(18.4 * 2**40 * 0.9993**back), data_files=int(61000 * 0.9995**back),
        snapshots=int(212000 * 0.9996**back),
    )
    for back in range(1, 24 * 30)
])
WarehouseStatistic.objects.filter(warehouse=warehouse).delete()
WarehouseStatistic.objects.bulk_create([
    WarehouseStatistic(
        warehouse_id=warehouse, hour=hour - timedelta(hours=back), tables=max(1, 11 - back // 90),
        views=int(back < 300), generic_tables=int(back < 500), updated_at=hour,
    )
    for back in range(1, 24 * 30)
])
LargeTable.objects.filter(warehouse=warehouse).delete()
sizes = {{"order_lines": 6.1, "ledger": 4.8, "features": 2.9, "shipments": 1.7, "predictions": 0.9}}
rows = {{each.name: each for each in Tabular.objects.filter(name__in=sizes)}}
LargeTable.objects.bulk_create([
    LargeTable(
        warehouse_id=warehouse, rank=rank, tabular=rows[name], records=int(size * 2.3e8),
        files_size=int(size * 2**40), data_files=int(size * 9400),
    )
    for rank, (name, size) in enumerate(sizes.items(), start=1)
])
SlowTable.objects.filter(warehouse=warehouse).delete()
SlowTable.objects.bulk_create([
    SlowTable(
        warehouse_id=warehouse, rank=rank, tabular=rows[name], scans=scans, planning_us=scans * milliseconds * 1000,
        result_data_files=scans * files, result_delete_files=scans * files * deletes,
        result_data_bytes=scans * files * size,
    )
    for rank, (name, scans, milliseconds, files, deletes, size) in enumerate((
        ("shipments", 412, 4130, 9100, 0, 2 * 2**20), ("order_lines", 2291, 1870, 640, 3, 90 * 2**20),
        ("features", 1104, 620, 3100, 0, 310 * 2**20), ("ledger", 5120, 48, 12, 0, 240 * 2**20),
    ), start=1)
])
"""
"""What a month of use records: calls and numbers by hour, the largest and the slowest tables."""


class PictureCatalog(CatalogServer):
    """`fill` creates the objects; `ids` are those of its pages."""

    def __init__(self, home: Path) -> None:
        settings = {
            "LAKEKEEPER__AUTHZ_BACKEND": "builtin",
            "ICEKEEPER__ACCESS_TOKENS": "true",
            "LAKEKEEPER__PG_ENCRYPTION_KEY": "pictures-encryption-key-0123456789abcdef",
            "LAKEKEEPER__INSTANCE_ADMINS": f"[{ADMIN}]",
        }
        super().__init__(home, settings=settings)
        self.ids: dict[str, str] = {}
        self._tokens: dict[str, str] = {}
        self._state: StorageState | None = None

    def signed_in(self, browser: Browser) -> StorageState:
        if self._state is None:
            found = re.search(r"/ui/\S+", self.manage("sign_in_address", "--user", ADMIN))
            assert found is not None
            context = browser.new_context()
            page = context.new_page()
            page.goto(self.base_url + found[0])
            page.get_by_role("button", name="Sign in").click()
            page.wait_for_url("**/ui/")
            self._state = context.storage_state()
            context.close()
        return self._state

    def fill(self) -> None:
        token = self._token(ADMIN)  # creates the user
        self.manage("bootstrap", "--admin", ADMIN, "--operator")
        self.create_warehouse("prod", token=token)
        profile = {"delete-profile": {"type": "soft", "expiration-seconds": 7 * 86_400}}
        self._call("POST", f"/management/v1/warehouse/{self.warehouse_id}/delete-profile", profile)
        self._create_accounts()
        for levels, names in TABLES.items():
            self._catalog(ANA).create_namespace(levels)
            for name in names:
                self._catalog(ANA).create_table((*levels, name), pa.schema([("id", pa.int64()), ("name", pa.string())]))
        self._create_order_lines()
        self._drop_tables()
        self._read_ids()
        self.manage("shell", "-c", HISTORY.format_map(self.ids))

    def _token(self, user: str) -> str:
        if user not in self._tokens:
            self._tokens[user] = self.manage("create_token", "--user", user, "--create-user").strip()
        return self._tokens[user]

    def _catalog(self, user: str) -> Catalog:
        return load_catalog("prod", type="rest", uri=self.uri, warehouse="prod", token=self._token(user))

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        headers = {"Authorization": f"Bearer {self._token(ADMIN)}"}
        response = requests.request(method, self.base_url + path, json=body, headers=headers, timeout=30)
        assert response.ok, f"{path}: {response.text}"
        return response.json() if response.content else None

    def _create_accounts(self) -> None:
        for user in (ANA, LARS, "local~ben"):
            self._token(user)
        base = "/management/v1"
        roles = {
            name: self._call("POST", f"{base}/role", {"name": name, "description": text})["id"]
            for name, text in (("analysts", "Read all of sales"), ("engineers", "Load and maintain the lake"))
        }
        for role, user in (("analysts", "local~ben"), ("analysts", LARS), ("engineers", LARS), ("engineers", ANA)):
            self._call("POST", f"{base}/role/{roles[role]}/members", {"members": [{"type": "user", "id": user}]})
        assignments = f"{base}/permissions/warehouse/{self.warehouse_id}/assignments"
        writes = [
            {"role": roles["engineers"], "type": "create"},
            {"role": roles["engineers"], "type": "modify"},
            {"role": roles["analysts"], "type": "select"},
            {"user": ANA, "type": "pass_grants"},
        ]
        self._call("POST", assignments, {"writes": writes, "deletes": []})

    def _create_order_lines(self) -> None:
        days = PartitionSpec(PartitionField(7, 1000, IdentityTransform(), "ordered_on"))
        by_ana = self._catalog(ANA).create_table(
            ("sales", "orders", "order_lines"), ORDER_LINES, partition_spec=days,
            properties={"comment": "One row a line of an order", "write.format.default": "parquet"},
        )  # fmt: skip
        for number in range(1, 6):
            by_ana.append(_lines(by_ana, 3_000 * number))
            if number == 2:
                by_ana.manage_snapshots().create_tag(_head(by_ana), "eom-2026-10").commit()
            if number == 3:
                by_ana.manage_snapshots().create_branch(_head(by_ana), "audit-fix").commit()
        by_lars = self._catalog(LARS).load_table(("sales", "orders", "order_lines"))
        by_lars.append(_lines(by_lars, 300), branch="audit-fix")
        by_lars.append(_lines(by_lars, 12_000))
        by_lars.append(_lines(by_lars, 600), branch="audit-fix")
        by_lars.delete("line_no = 4")

    def _drop_tables(self) -> None:
        catalog = self._catalog(ANA)
        schema = pa.schema([("id", pa.int64())])
        for name in ("returns_2024", "customers_old", "orders_import"):
            catalog.create_table(("sales", name), schema)
            catalog.drop_table(("sales", name))
        catalog.create_table(("sales", "customers_old"), schema)

    def _read_ids(self) -> None:
        base = f"/management/v1/warehouse/{self.warehouse_id}"
        levels = quote("sales\x1forders", safe="")
        tables = self._call(
            "GET", f"/catalog/v1/{self.warehouse_id}/namespaces/{levels}/tables?returnUuids=true&pageToken="
        )
        by_name = {each["name"]: uuid for each, uuid in zip(tables["identifiers"], tables["table-uuids"], strict=True)}
        dropped = {each["name"]: each["id"] for each in self._call("GET", f"{base}/deleted-tabulars")["tabulars"]}
        self.ids = {
            "warehouse": self.warehouse_id,
            "project": self._call("GET", "/management/v1/project-list")["projects"][0]["project-id"],
            "table": by_name["order_lines"],
            "dropped": dropped["returns_2024"],
            "replaced": dropped["customers_old"],
        }


def _head(table: Table) -> int:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return snapshot.snapshot_id


def _lines(table: Table, count: int) -> pa.Table:
    cities = ("Rome", "Oslo", "Lima", "Kyiv", "Pune")
    columns = [
        pa.array([number // 4 for number in range(count)], pa.int64()),
        pa.array([number % 4 + 1 for number in range(count)], pa.int32()),
        pa.array([f"SKU-{number % 97:04}" for number in range(count)]),
        pa.array([number % 9 + 1 for number in range(count)], pa.int32()),
        pa.array([Decimal(number % 5000) / 100 for number in range(count)], pa.decimal128(12, 2)),
        pa.array([cities[number % len(cities)] for number in range(count)]),
        pa.array([date(2026, 11, 20) + timedelta(days=number % 3) for number in range(count)]),
    ]
    return pa.Table.from_arrays(columns, schema=table.schema().as_arrow())
