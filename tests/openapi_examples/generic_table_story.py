"""Story: a generic table of vectors in addition to Iceberg tables."""

from __future__ import annotations

from storage.models import Warehouse
from tests.openapi_examples.story import Story


def play(story: Story) -> None:
    warehouse = {"prefix": str(Warehouse.objects.get().pk)}
    story.call("POST", "/catalog/v1/{prefix}/namespaces".format(**warehouse), {"namespace": ["sales"]})
    sales = warehouse | {"namespace": "sales"}
    photos = sales | {"table": "product_photos"}
    fields = [
        {"name": "product_id", "type": "int64"},
        {"name": "photo", "type": "binary"},
        {"name": "embedding", "type": "fixed_size_list<float>[512]"},
    ]
    description = {
        "name": "product_photos",
        "format": "lance",
        "base-location": f"file://{story.folder}/lakehouse/product_photos",
        "doc": "Photos of products, with embeddings for search",
        "properties": {"owner": "analytics"},
        "schema": {"fields": fields},
        "statistics": {"rows": 120_000},
    }
    story.send("create_generic_table", sales, description)
    story.send("list_generic_tables", sales | {"pageToken": "", "pageSize": 100})
    story.send("load_generic_table", photos)
    story.send("load_generic_table", sales | {"table": "product_videos"}, refused=404)
    story.send("load_generic_table_credentials", photos)
    source = {"namespace": ["sales"], "name": "product_photos"}
    story.send("rename_generic_table", warehouse, {"source": source, "destination": source | {"name": "photos"}})
    story.send("drop_generic_table", sales | {"table": "photos", "purgeRequested": False})
