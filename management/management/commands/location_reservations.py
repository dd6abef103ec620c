from __future__ import annotations

import re
from typing import Any
from uuid import UUID

from django.core.management.base import CommandError, CommandParser

from catalog.services.tables.staging import StagedLocation, list_staged_locations_for, release_staged_location
from icekeeper.kernel.json.strict import write_json
from management.management.cli_lookup import resolve_project, resolve_warehouse
from management.management.operator_command import OperatorCommand, escape_unprintable
from tenancy.actor import INTERNAL

COLUMNS = ("location", "staged-by", "expires-at")

_ESCAPED = re.compile(r"\\u([0-9a-f]{4})|\\U(000[0-9a-f]{5}|0010[0-9a-f]{4})")
"""Locations contain no backslash, so the escapes are unambiguous."""


class Command(OperatorCommand):
    help = (
        "List the locations of a warehouse that are reserved for staged tables, one per line, tab-separated. A "
        "reservation ends when the table is created or the reservation expires; until then other tables at, above or "
        "below the location are rejected with 409 LocationAlreadyTaken. --release ends a reservation at once. Use it "
        "only when the query that staged the table has ended: its vended credentials and signatures stay valid until "
        "they expire, so it can still write and delete files of the next table at this location. The staged table can"
        " still be created while no other table uses the location. Exit status 1 if there is no such reservation."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("warehouse", help="name or id of the warehouse")
        parser.add_argument(
            "--project-id", metavar="PROJECT", help="id or name of the project; default: the default project"
        )
        parser.add_argument("--release", metavar="LOCATION", help="release this location, as the list shows it")
        parser.add_argument("--json", action="store_true", help="print JSON, one object per line")

    def handle(self, *args: Any, **options: Any) -> None:
        project = resolve_project(options["project_id"])
        warehouse_id = resolve_warehouse(project, options["warehouse"]).pk
        if options["release"] is None:
            self._list(warehouse_id, is_json=options["json"])
        else:
            self._release(warehouse_id, _unescape(options["release"]), is_json=options["json"])

    def _list(self, warehouse_id: UUID, *, is_json: bool) -> None:
        reservations = list_staged_locations_for(actor=INTERNAL, warehouse_id=warehouse_id)
        if not is_json:
            self.stdout.write("\t".join(COLUMNS))
        for reservation in reservations:
            cells = (
                escape_unprintable(reservation.location),
                escape_unprintable(reservation.staged_by),
                _expiry(reservation),
            )
            self.stdout.write(_json(reservation) if is_json else "\t".join(cells))

    def _release(self, warehouse_id: UUID, location: str, *, is_json: bool) -> None:
        released = release_staged_location(actor=INTERNAL, warehouse_id=warehouse_id, location=location)
        if not released:
            raise CommandError(f"{escape_unprintable(location)} is not reserved: nothing was released")
        for reservation in released:
            cells = (
                escape_unprintable(reservation.location),
                escape_unprintable(reservation.staged_by),
                _expiry(reservation),
            )
            sentence = "Released {}, reserved by {} until {}.".format(*cells)
            self.stdout.write(_json(reservation) if is_json else sentence)


def _cells(reservation: StagedLocation) -> list[str]:
    texts = (reservation.location, reservation.staged_by)
    return [*(escape_unprintable(text) for text in texts), _expiry(reservation)]


def _unescape(text: str) -> str:
    return _ESCAPED.sub(lambda matched: chr(int(matched[1] or matched[2], 16)), text)


def _expiry(reservation: StagedLocation) -> str:
    return f"{reservation.expires_at:%Y-%m-%d %H:%M} UTC"


def _json(reservation: StagedLocation) -> str:
    content = {
        "location": reservation.location,
        "staged-by": reservation.staged_by,
        "expires-at": reservation.expires_at,
    }
    return write_json(content).decode()
