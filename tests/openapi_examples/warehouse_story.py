"""Story: warehouses on every storage type, updates of one of them, and operations on its contents."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from unittest.mock import patch

from django.conf import settings

from catalog.services.warehouse_statistics import beginning_of_hour, record_hour
from management.endpoint_statistics import CallCount, CallKey, record_calls
from storage.models import Warehouse
from tests.openapi_examples import permission_story, rights_story, rule_story, tag_story, task_story
from tests.openapi_examples.catalog_story import DAYS, ORDERS, version
from tests.openapi_examples.story import Story

ACCESS_KEY = {
    "credential-type": "access-key",
    "access-key-id": "example-access-key-id",
    "secret-access-key": "example-secret-access-key",
}
ENTRA_APPLICATION = {
    "type": "az",
    "credential-type": "client-credentials",
    "client-id": "example-client-id",
    "tenant-id": "example-tenant-id",
    "client-secret": "example-client-secret",
}
S3 = {"type": "s3", "bucket": "analytics-lake", "key-prefix": "lakehouse", "region": "eu-central-1"}
A_ROLE = "arn:aws:iam::123456789012:role/lakehouse"
GOOGLE_KEY = {
    "type": "service_account",
    "project_id": "analytics",
    "private_key_id": "example-private-key-id",
    "private_key": "example-private-key",
    "client_email": "icekeeper@analytics.iam.gserviceaccount.com",
    "client_id": "example-client-id",
    "auth_uri": "https://accounts.google.com/o/oauth2/auth",
    "token_uri": "https://oauth2.googleapis.com/token",
    "auth_provider_x509_cert_url": "https://www.googleapis.com/oauth2/v1/certs",
    "client_x509_cert_url": "https://www.googleapis.com/robot/v1/metadata/x509/icekeeper",
    "universe_domain": "googleapis.com",
}
BY_NAME = {"type": "full-hierarchy", "namespace": "{name}", "tabular": "{name}-{uuid}"}
STORAGE: dict[str, tuple[dict[str, Any], dict[str, Any] | None]] = {
    "On S3, with an access key": (S3, {"type": "s3"} | ACCESS_KEY),
    "On S3, where a role is assumed": (
        S3 | {"key-prefix": "reporting", "sts-enabled": True, "assume-role-arn": A_ROLE},
        {"type": "s3", **ACCESS_KEY, "external-id": "example-external-id"},
    ),
    "On S3, with the identity that the server itself has": (
        S3 | {"key-prefix": "finance", "assume-role-arn": A_ROLE},
        {"type": "s3", "credential-type": "aws-system-identity", "external-id": "example-external-id"},
    ),
    "On a store with the S3 API": (
        S3 | {"endpoint": "https://minio.example.com:9000", "flavor": "s3-compat", "path-style-access": True},
        {"type": "s3"} | ACCESS_KEY,
    ),
    "On Cloudflare R2": (
        S3 | {"region": "auto", "endpoint": "https://example-account-id.r2.cloudflarestorage.com"},
        {
            "type": "s3",
            **ACCESS_KEY,
            "credential-type": "cloudflare-r2",
            "account-id": "example-account-id",
            "token": "example-token",
        },
    ),
    "On Alibaba Cloud OSS": (
        S3
        | {
            "region": "eu-central-1",
            "endpoint": "https://s3.oss-eu-central-1.aliyuncs.com",
            "sts-endpoint": "https://sts.eu-central-1.aliyuncs.com",
            "sts-role-arn": "acs:ram::1234567890123456:role/lakehouse",
        },
        {"type": "s3", **ACCESS_KEY, "credential-type": "aliyun-oss"},
    ),
    "On STACKIT Object Storage": (
        {
            "type": "stackit",
            "bucket": "analytics-lake",
            "region": "eu01",
            "credentials-group-urn": "urn:sgws:identity::12345678901234567890:group/lakehouse",
        },
        {"type": "stackit"} | ACCESS_KEY,
    ),
    "On Azure Data Lake Storage": (
        {"type": "adls", "filesystem": "lakehouse", "account-name": "analyticslake", "key-prefix": "warehouse"},
        ENTRA_APPLICATION,
    ),
    "On Azure Data Lake Storage, with the account's key": (
        {"type": "adls", "filesystem": "archive", "account-name": "analyticslake", "sas-enabled": False},
        {"type": "az", "credential-type": "shared-access-key", "key": "example-key"},
    ),
    "On OneLake": (
        {
            "type": "onelake",
            "workspace-id": "5c1f0f1e-52c1-4d5c-9d0a-6f1f8f0d7a11",
            "lakehouse-id": "a8b1a7c2-3f0e-4b61-8a3d-2f9c4f6f0b27",
            "directory-rel-path": "warehouse",
        },
        ENTRA_APPLICATION,
    ),
    "On Google Cloud Storage": (
        {"type": "gcs", "bucket": "analytics-lake", "key-prefix": "lakehouse", "storage-layout": BY_NAME},
        {"type": "gcs", "credential-type": "service-account-key", "key": GOOGLE_KEY},
    ),
}
SOFT = {"type": "soft", "expiration-seconds": 604_800}


def play(story: Story) -> None:
    on_s3 = new_warehouses(story)
    changes(story, on_s3)
    here = story.call("GET", "/management/v1/warehouse")["warehouses"][0]["id"]
    ids = contents(story, here)
    found_and_moved(story, here, ids)
    tag_story.play(story, here, ids)
    rule_story.play(story, here, ids)
    permission_story.play(story, here, ids)
    rights_story.play(story, here, ids)
    dropped_and_restored(story, here, ids)
    task_story.play(story, here, ids["table"])
    protections(story, here, ids)
    statistics(story, here)


def new_warehouses(story: Story) -> str:
    """Create the warehouses and return the id of the first one on S3."""
    local = {"type": "local", "path": f"{story.folder}/lakehouse"}
    rules = {"delete-profile": SOFT, "allowed-format-versions": [2, 3], "default-format-version": 2}
    new = {"warehouse-name": "lakehouse", "storage-profile": local, **rules}
    here = story.send("create_warehouse", body=new, summary="In a folder of the server's machine")
    story.send("create_warehouse", body=new, refused=409)
    validations(story, here["id"], new)
    created = []
    for number, (summary, (profile, credential)) in enumerate(STORAGE.items(), 2):
        new = {"warehouse-name": f"lakehouse-{number}", "storage-profile": profile, "storage-credential": credential}
        created.append(story.send("create_warehouse", body=new, summary=summary)["id"])
    return str(created[0])


def validations(story: Story, warehouse_id: str, created: dict[str, Any]) -> None:
    """Validate existing warehouses and profiles, among them one that cannot be created twice."""
    this = {"warehouse_id": warehouse_id}
    asked = settings.ICEKEEPER.model_copy(update={"skip_storage_validation": False})
    with patch.object(settings, "ICEKEEPER", asked):
        story.send("validate_storage_access", this)
        story.send("validate_storage_profile", this, {"storage-profile": created["storage-profile"]})
        story.send("validate_storage_credential", this, {"new-storage-credential": {"type": "s3"} | ACCESS_KEY})
        story.send("validate_warehouse", body=created)


def changes(story: Story, warehouse_id: str) -> None:
    this = {"warehouse_id": warehouse_id}
    story.clock.later(minutes=10)
    story.send("get_warehouse", this)
    story.send("rename_warehouse", this, {"new-name": "archive"})
    story.send("deactivate_warehouse", this)
    story.send("list_warehouses", {"warehouseStatus": ["inactive"]})
    story.send("activate_warehouse", this)
    story.send("update_warehouse_delete_profile", this, {"delete-profile": SOFT}, summary="Keep what is dropped")
    story.send("update_warehouse_delete_profile", this, {"delete-profile": {"type": "hard"}}, summary="Hard deletion")
    policy = {"allowed-format-versions": [2, 3], "default-format-version": 3}
    story.send("update_warehouse_format_version_policy", this, policy)
    story.send("set_warehouse_managed_by", this, {"managed-by": "instance-admin"})
    story.call("POST", f"/management/v1/warehouse/{warehouse_id}/managed-by", {"managed-by": "self-managed"})
    story.send("set_warehouse_protection", this, {"protected": True})
    key = {"type": "s3"} | ACCESS_KEY
    unsigned = {"storage-profile": S3 | {"remote-signing-enabled": False}, "storage-credential": key}
    story.send("update_storage_profile", this, unsigned)
    story.send("update_storage_credential", this, {"new-storage-credential": key})
    story.send("delete_warehouse", this, refused=409)
    story.send("delete_warehouse", this | {"force": True})


def contents(story: Story, warehouse_id: str) -> dict[str, str]:
    """Create objects in a warehouse of local files and return their ids by kind."""
    catalog = f"/catalog/v1/{warehouse_id}/namespaces"
    space = story.call("POST", catalog, {"namespace": ["sales"]})
    table = story.call("POST", f"{catalog}/sales/tables", {"name": "orders", "schema": ORDERS})
    first = version(story, 1, "SELECT ordered_at, amount FROM sales.orders", "spark")
    new_view = {"name": "revenue_by_day", "schema": DAYS, "view-version": first, "properties": {}}
    view = story.call("POST", f"{catalog}/sales/views", new_view)
    generic = f"/lakekeeper/v1/{warehouse_id}/namespaces/sales/generic-tables"
    story.call("POST", generic, {"name": "product_photos", "format": "lance"})
    return {
        "namespace": space["properties"]["namespace_id"],
        "table": table["metadata"]["table-uuid"],
        "view": view["metadata"]["view-uuid"],
        "generic_table": story.call("GET", generic)["identifiers"][0]["id"],
    }


def found_and_moved(story: Story, warehouse_id: str, ids: dict[str, str]) -> None:
    this = {"warehouse_id": warehouse_id}
    wanted = {"search": "sales orders", "types": ["table"], "page-size": 10}
    story.send("search_tabular", this, wanted, summary="By about what it is called")
    story.send("search_tabular", this, {"search": ids["view"]}, summary="By its id")
    story.call("POST", f"/catalog/v1/{warehouse_id}/namespaces", {"namespace": ["finance"]})
    move = {"destination": ["finance", "sales"]}
    story.send("move_namespace", this | {"namespace_id": ids["namespace"]}, move)


def protections(story: Story, warehouse_id: str, ids: dict[str, str]) -> None:
    for kind, object_id in ids.items():
        this = {"warehouse_id": warehouse_id, "object_id": object_id}
        story.send(f"set_{kind}_protection", this, {"protected": True})
        story.send(f"get_{kind}_protection", this)


def dropped_and_restored(story: Story, warehouse_id: str, ids: dict[str, str]) -> None:
    this = {"warehouse_id": warehouse_id}
    story.call("DELETE", f"/catalog/v1/{warehouse_id}/namespaces/finance%1Fsales/tables/orders")
    story.send("list_deleted_tabulars", this | {"pageSize": 100})
    story.send("undrop_tabulars", this, {"targets": [{"type": "table", "id": ids["table"]}]})


def statistics(story: Story, warehouse_id: str) -> None:
    at = story.clock.at
    record_hour(Warehouse.objects.get(pk=warehouse_id).project_id, beginning_of_hour(at), at)
    story.clock.later(hours=1)
    page = {"warehouse_id": warehouse_id, "page_size": 24}
    story.send("get_warehouse_statistics", page, summary="Tables and views")
    story.send("get_warehouse_statistics", page | {"x-icekeeper-extensions": True}, summary="Generic tables, too")
    hour = story.clock.at.replace(minute=0, second=0)
    route = "catalog/v1/<segment:prefix>/namespaces/<segment:namespace>/tables/<segment:table>"
    record_calls(
        {
            called(hour, "GET", route, 200, warehouse_id): tally(hour, 42),
            called(hour, "POST", route, 409, warehouse_id): tally(hour, 2),
        }
    )
    window = {"type": "window", "end": (hour + timedelta(hours=1)).isoformat(), "interval": "P1D"}
    one = {"type": "warehouse-id", "id": warehouse_id}
    story.send(
        "get_endpoint_statistics",
        body={"warehouse": one, "status-codes": [200, 409], "range-specifier": window},
        summary="Of a warehouse, in the day before a time",
    )


def called(hour: Any, method: str, route: str, status: int, warehouse_id: str) -> CallKey:
    return CallKey(int(hour.timestamp()) // 3600, method, route, status, warehouse_id, None)


def tally(hour: Any, count: int) -> CallCount:
    """Return a count of calls between the fifth and the fiftieth minute of the hour."""
    created = CallCount((hour + timedelta(minutes=5)).timestamp())
    created.count, created.last = count, (hour + timedelta(minutes=50)).timestamp()
    return created
