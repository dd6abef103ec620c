from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandError, CommandParser

from catalog.selectors.access.view_chains import list_owned_views
from management.management.operator_command import OperatorCommand
from tenancy.actor import owner_properties


class Command(OperatorCommand):
    help = (
        "List the views whose properties name an owner with whose permissions a trusted engine reads them, one JSON "
        "object per line. Check them before you set LAKEKEEPER__TRUSTED_ENGINES__*: until then every user who may "
        "commit to a view can name any owner."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--property",
            action="append",
            help="property that names the owner; default: the properties of trusted engines",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        properties = frozenset(options["property"] or owner_properties())
        if not properties:
            raise CommandError("No engine is trusted. Name the property with the owner: --property NAME")
        for view in list_owned_views(properties):
            shown = {name.replace("_", "-"): value for name, value in asdict(view).items()}
            self.print_json(shown)
