"""Story: clients without keys read and write a table on S3 with requests that the catalog signs."""

from __future__ import annotations

from typing import Any

from catalog.services.tables.staging import StagingTicket
from tenancy.actor import Actor
from tests.openapi_examples.story import Story
from tests.signing_fixtures import add_tabular, new_warehouse

HOST = "analytics-lake.s3.eu-central-1.amazonaws.com"
AT = f"https://{HOST}/lakehouse/sales"
PROFILE = {"type": "s3", "bucket": "analytics-lake", "key-prefix": "lakehouse", "region": "eu-central-1"}
CREDENTIAL = {
    "type": "s3",
    "credential-type": "access-key",
    "access-key-id": "example-access-key-id",
    "secret-access-key": "example-secret-access-key",
}


def play(story: Story) -> None:
    warehouse = new_warehouse(PROFILE, CREDENTIAL, "on-s3")
    orders = add_tabular(warehouse, "orders", namespace="sales", location=f"{warehouse.location}/sales/orders")
    here = {"prefix": str(warehouse.pk)}
    read = request("GET", f"{AT}/orders/data/00000-0.parquet", Range=["bytes=4-1023"])
    story.send("signRequest", here | {"namespace": "sales", "table": "orders"}, read)
    story.send("signRequest", here | {"namespace": "sales", "table": "order"}, read, refused=404)
    by_id = here | {"tabular_id": str(orders.pk)}
    story.send("signRequestOfTabular", by_id, read, summary="Read a file")
    written = request("PUT", f"{AT}/orders/data/00001-0.parquet", **{"Content-Type": ["application/octet-stream"]})
    story.send("signRequestOfTabular", by_id, written, summary="Write a file")
    listed = f"https://{HOST}/?list-type=2&prefix=lakehouse%2Fsales%2Forders%2F"
    story.send("signRequestOfTabular", by_id, request("GET", listed), summary="List the objects of the table")
    keys = "".join(f"<Object><Key>lakehouse/sales/orders/data/0000{n}-0.parquet</Key></Object>" for n in range(2))
    many = request("POST", f"https://{HOST}/?delete") | {"body": f"<Delete>{keys}</Delete>"}
    story.send("signRequestOfTabular", by_id, many, summary="Delete several files")
    story.send("signRequestOfTabular", by_id, request("GET", f"{AT}/secrets/a"), refused=400)
    story.send("signRequestInWarehouse", here, read)
    story.send("signRequestInWarehouse", here, request("GET", f"{AT}/secrets/a"), refused=400)
    ticket = StagingTicket.of(
        actor=Actor(user_id="local~alice"),
        warehouse_id=warehouse.pk,
        levels=("sales",),
        location=f"{warehouse.location}/sales/new",
    )
    staged = request("PUT", f"{AT}/new/data/00000-0.parquet")
    story.send("signRequestOfStagedTable", here | {"ticket": ticket.encode()}, staged)
    story.send("signRequestWithoutWarehouse", None, read, refused=400)


def request(method: str, uri: str, **headers: list[str]) -> dict[str, Any]:
    """Return the body of a RemoteSignRequest."""
    return {
        "region": "eu-central-1",
        "uri": uri,
        "method": method,
        "headers": {"Host": [HOST], **headers},
        "provider": "s3",
    }
