from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError

WAREHOUSE = "local"


class Command(BaseCommand):
    help = (
        "Set up the catalog on this machine and serve it until Ctrl-C: migrate, bootstrap, create the warehouse "
        f"`{WAREHOUSE}` on local files, serve. A second run keeps all data."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        root = settings.ICEKEEPER.local_storage_root
        if root is None:
            raise CommandError("Set ICEKEEPER__LOCAL_STORAGE_ROOT to the folder for local warehouses")
        root.mkdir(parents=True, exist_ok=True)
        call_command("migrate", verbosity=0)
        call_command("bootstrap")
        call_command("create_warehouse", WAREHOUSE, local_path=str(root.resolve() / WAREHOUSE), if_not_exists=True)
        call_command("serve")
