"""A table of vectors beside the tables of Iceberg."""

from __future__ import annotations

from storage.models import Warehouse
from tests.openapi_examples.story import Story


def play(story: Story) -> None:
    warehouse = {"prefix": str(Warehouse.objects.get().pk)}
    story.aside("POST", "/catalog/v1/{prefix}/namespaces".format(**warehouse), {"namespace": ["sales"]})
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
    story.tell("create_generic_table", sales, description)
    story.tell("list_generic_tables", sales | {"pageToken": "", "pageSize": 100})
    story.tell("load_generic_table", photos)
    story.tell("load_generic_table", sales | {"table": "product_videos"}, refused=404)
    story.tell("load_generic_table_credentials", photos)
    source = {"namespace": ["sales"], "name": "product_photos"}
    story.tell("rename_generic_table", warehouse, {"source": source, "destination": source | {"name": "photos"}})
    story.tell("drop_generic_table", sales | {"table": "photos", "purgeRequested": False})
