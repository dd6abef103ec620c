"""The curl commands in the guides of Fluss and Doris, sent to a running server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.harness.run_environment import RunEnvironment
from tests.parts.server import CatalogServer

NIL = "00000000-0000-0000-0000-000000000000"
JSON = {"Content-Type": "application/json"}
KEY = {
    "type": "s3",
    "credential-type": "access-key",
    "aws-access-key-id": "AKIAIOSFODNN7EXAMPLE",
    "aws-secret-access-key": "canary-secret",
}


@pytest.fixture
def server(run_environment: RunEnvironment, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[CatalogServer]:
    """A migrated server, as in both guides, with the settings of the compose file."""
    url = run_environment.own_database(request.node.name)
    settings = {
        "LAKEKEEPER__PG_ENCRYPTION_KEY": "CHANGE_ME_TO_A_LONG_RANDOM_SECRET",
        "LAKEKEEPER__ENABLE_DEFAULT_PROJECT": "true",
        "LAKEKEEPER__SKIP_STORAGE_VALIDATION": "true",  # the stores of the guides do not exist
    }
    server = CatalogServer(tmp_path, database_url=url, settings=settings)
    server.storage_root.mkdir()
    server.manage("migrate", "--verbosity", "0")
    try:
        yield server.start()
    finally:
        server.stop()
        log = server.log_path.read_text()
        assert "canary-secret" not in log
        assert "unknown variables" not in log


def send(server: CatalogServer, method: str, path: str, body: Any = None, **headers: str) -> requests.Response:
    return requests.request(method, server.base_url + path, json=body, headers=headers, timeout=30)


def test_the_guide_of_fluss(server: CatalogServer) -> None:
    bootstrap = send(server, "POST", "/management/v1/bootstrap", {"accept-terms-of-use": True}, **JSON)
    assert (bootstrap.status_code, bootstrap.content) == (204, b"")
    created = send(
        server,
        "POST",
        "/management/v1/warehouse",
        {
            "warehouse-name": "my-warehouse",
            "project-id": NIL,
            "storage-profile": {
                "type": "s3",
                "bucket": "my-bucket",
                "key-prefix": "iceberg",
                "endpoint": "http://127.0.0.1:9000",
                "region": "us-east-1",
                "path-style-access": True,
            },
            "storage-credential": KEY,
        },
        **JSON,
    )
    assert created.status_code == 201, created.text
    warehouse = created.json()
    assert (warehouse["name"], warehouse["project-id"], warehouse["status"]) == ("my-warehouse", NIL, "active")
    assert warehouse["storage-profile"]["endpoint"] == "http://127.0.0.1:9000/"
    assert warehouse["storage-credential-type"] == {"type": "s3", "credential-type": "access-key"}
    # The request of its client with `warehouse: my-warehouse`.
    config = send(server, "GET", "/catalog/v1/config?warehouse=my-warehouse")
    assert config.json()["defaults"]["prefix"] == warehouse["warehouse-id"]


def doris_warehouse(name: str, prefix: str, **sts: Any) -> dict[str, Any]:
    return {
        "warehouse-name": name,
        "storage-profile": {
            "type": "s3",
            "bucket": "lakekeeper-doris-demo",
            "key-prefix": prefix,
            "region": "us-east-1",
            "endpoint": "https://s3.us-east-1.amazonaws.com",
            "flavor": "aws",
            **{name.replace("_", "-"): value for name, value in sts.items()},
        },
        "storage-credential": KEY,
    }


def test_the_guide_of_doris(server: CatalogServer) -> None:
    project = send(server, "POST", "/management/v1/project", {"project-name": "default"}, **JSON)
    assert project.status_code == 201, project.text
    listed = send(server, "GET", "/management/v1/project-list").json()["projects"]
    assert listed == [{"project-id": project.json()["project-id"], "project-name": "default"}]
    in_project = JSON | {"x-project-id": listed[0]["project-id"]}

    role = "arn:aws:iam::YOUR_ACCOUNT_ID:role/lakekeeper-sts-role"
    vending = doris_warehouse("lakekeeper-vc-warehouse", "warehouse-vc", sts_enabled=True, assume_role_arn=role)
    static = doris_warehouse("lakekeeper-warehouse", "warehouse", sts_enabled=False)
    for body in (vending, static):
        created = send(server, "POST", "/management/v1/warehouse", body, **in_project)
        assert created.status_code == 201, created.text
        assert created.json()["storage-profile"]["sts-enabled"] is body["storage-profile"]["sts-enabled"]
    found = send(server, "GET", "/management/v1/warehouse", **{"x-project-id": listed[0]["project-id"]})
    warehouses = found.json()["warehouses"]
    assert [each["name"] for each in warehouses] == ["lakekeeper-vc-warehouse", "lakekeeper-warehouse"]

    for warehouse in warehouses:
        namespaces = f"/catalog/v1/{warehouse['warehouse-id']}/namespaces"
        body = {"namespace": ["demo"], "properties": {}}
        created = send(server, "POST", namespaces, body, **JSON, Accept="application/json")
        assert created.status_code == 200, created.text
        prefix = warehouse["storage-profile"]["key-prefix"]
        location = created.json()["properties"]["location"]
        assert location.startswith(f"s3://lakekeeper-doris-demo/{prefix}/")
        assert send(server, "GET", namespaces).json()["namespaces"] == [["demo"]]
