from __future__ import annotations

import re
from argparse import ArgumentTypeError
from typing import Any

from django.core.management.base import CommandError, CommandParser

from management.bootstrap.document import (
    InvalidDocument,
    MissingSecret,
    parse_document,
    read_document_file,
    resolve_secrets,
)
from management.management.operator_command import OperatorCommand
from storage.models import Warehouse
from storage.selectors import get_warehouse_named_for
from storage.services.warehouse_changes import set_warehouse_protection
from storage.services.warehouses import WarehouseExists, create_warehouse
from tenancy.actor import INTERNAL
from tenancy.selectors.projects import get_project

_DELETE_PROFILE = re.compile(r"hard|soft:(\d{1,12})")


class Command(OperatorCommand):
    help = (
        "Create a warehouse. The credential is read from a file or from standard input, in the format of the API "
        "member `storage-credential`. Instead of a secret it may contain a reference: {env: NAME} or {file: PATH}. "
        "Never put a secret on the command line, where every user of the machine can read it."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="name of the warehouse, unique in its project")
        storage = parser.add_mutually_exclusive_group(required=True)
        storage.add_argument(
            "--local-path", metavar="PATH",
            help="local files: absolute path of the folder, below ICEKEEPER__LOCAL_STORAGE_ROOT",
        )  # fmt: skip
        storage.add_argument(
            "--profile", metavar="FILE|JSON", help="the API member `storage-profile`: a YAML or JSON file, or JSON text"
        )
        parser.add_argument("--credential", metavar="FILE", help="YAML or JSON file; - for standard input")
        parser.add_argument(
            "--delete-profile", type=_delete_profile, metavar="PROFILE",
            help="hard (the default) deletes dropped tables at once, soft:SECONDS keeps them for undrop",
        )  # fmt: skip
        parser.add_argument(
            "--format-versions", type=_versions, metavar="N,N", help="allowed format versions of tables"
        )
        parser.add_argument(
            "--default-format-version", type=int, metavar="N", help="format version of tables that request none"
        )
        parser.add_argument("--protected", action="store_true", help="the warehouse can only be deleted with force")
        parser.add_argument(
            "--managed-by", choices=Warehouse.ManagedBy.values, default=Warehouse.ManagedBy.SELF_MANAGED,
            help="instance-admin: only users in LAKEKEEPER__INSTANCE_ADMINS may change it; default: self-managed",
        )  # fmt: skip
        parser.add_argument("--project-id", help="project; default: the default project")
        parser.add_argument("--if-not-exists", action="store_true", help="succeed if a warehouse of this name exists")
        parser.add_argument("--json", action="store_true", help="print id and location as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            profile, credential = _profile(options), _credential(options["credential"])
        except (InvalidDocument, MissingSecret) as error:
            raise CommandError(str(error)) from None
        try:
            warehouse = create_warehouse(
                actor=INTERNAL,
                project=get_project(options["project_id"]),
                name=options["name"],
                storage_profile=profile,
                storage_credential=credential,
                delete_profile=options["delete_profile"],
                allowed_format_versions=options["format_versions"],
                default_format_version=options["default_format_version"],
                managed_by=options["managed_by"],
                protected=options["protected"],
            )
        except WarehouseExists:
            if not options["if_not_exists"]:
                raise
            project = get_project(options["project_id"])
            existing = get_warehouse_named_for(actor=INTERNAL, project=project, name=options["name"])
            if options["protected"] and not existing.protected:
                set_warehouse_protection(actor=INTERNAL, warehouse_id=existing.pk, is_protected=True)
            self.print_result(
                options, _described(existing, created=False), f"Warehouse {existing.name} already exists."
            )
        else:
            created = f"Created warehouse {warehouse.name} with id {warehouse.pk}, stored at {warehouse.location}."
            self.print_result(options, _described(warehouse, created=True), created)


def _profile(options: dict[str, Any]) -> dict[str, Any]:
    if options["local_path"] is not None:
        return {"type": "local", "path": options["local_path"]}
    given: str = options["profile"]
    is_text = given.lstrip().startswith("{")
    return _object(parse_document(given.encode(), is_json=True) if is_text else read_document_file(given), "--profile")


def _credential(path: str | None) -> dict[str, Any] | None:
    if path is None:
        return None
    return _object(resolve_secrets(_object(read_document_file(path), "--credential"), "credential"), "--credential")


def _object(value: Any, option: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidDocument(f"{option}: must be an object")
    return value


def _delete_profile(text: str) -> dict[str, Any]:
    matched = _DELETE_PROFILE.fullmatch(text)
    if matched is None or not text.isascii():
        raise ArgumentTypeError("must be hard or soft:SECONDS")
    return {"type": "soft", "expiration-seconds": int(matched[1])} if matched[1] else {"type": "hard"}


def _versions(text: str) -> list[int]:
    parts = text.split(",")
    if not all(part.strip().isascii() and part.strip().isdigit() and len(part) < 4 for part in parts):  # noqa: PLR2004
        raise ArgumentTypeError("must be numbers such as 2,3")
    return [int(part) for part in parts]


def _described(warehouse: Warehouse, *, created: bool) -> dict[str, Any]:
    return {"created": created, "name": warehouse.name, "id": str(warehouse.pk), "location": warehouse.location}
