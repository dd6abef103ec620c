from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from icekeeper.kernel.errors import CatalogError
from storage.services.warehouses import WarehouseExists, create_warehouse
from tenancy.actor import INTERNAL
from tenancy.selectors.projects import get_project


class Command(BaseCommand):
    help = "Make a warehouse on local files."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="name of the warehouse, unique in its project")
        parser.add_argument(
            "--local-path", required=True, help="absolute path of its folder, below ICEKEEPER__LOCAL_STORAGE_ROOT"
        )
        parser.add_argument("--project-id", help="project; default: the default project")
        parser.add_argument("--if-not-exists", action="store_true", help="a warehouse of that name is fine")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            warehouse = create_warehouse(
                actor=INTERNAL,
                project=get_project(options["project_id"]),
                name=options["name"],
                storage_profile={"type": "local", "path": options["local_path"]},
            )
        except WarehouseExists as error:
            if not options["if_not_exists"]:
                raise CommandError(error.message) from None
            self.stdout.write(f"Warehouse {options['name']} exists.")
        except CatalogError as error:
            raise CommandError(error.message) from None
        else:
            self.stdout.write(f"Warehouse {warehouse.name} has the id {warehouse.pk} and lies at {warehouse.location}.")
