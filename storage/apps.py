from django.apps import AppConfig


class StorageConfig(AppConfig):
    name = "storage"

    def ready(self) -> None:
        from storage.models import Warehouse
        from tenancy.models import Securable
        from tenancy.models.querysets import set_visibility_filter
        from tenancy.selectors.visible_rows import restrict_to_visible

        set_visibility_filter(Warehouse, lambda rows, actor: restrict_to_visible(rows, actor, Securable.Type.WAREHOUSE))
