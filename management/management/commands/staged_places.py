from __future__ import annotations

import re
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError, CommandParser

from catalog.selectors.staged_places import StagedPlace, list_staged_places_for
from catalog.services.tables.staging import release_staged_place
from icekeeper.kernel.errors.types import CatalogError
from icekeeper.kernel.json.strict import write_json
from management.selectors.spoken_names import find_spoken_project, find_spoken_warehouse
from tenancy.actor import INTERNAL

COLUMNS = ("location", "staged-by", "expires-at")

_ESCAPED = re.compile(r"\\u([0-9a-f]{4})|\\U(000[0-9a-f]{5}|0010[0-9a-f]{4})")
"""A backslash itself is in no location."""


class Command(BaseCommand):
    help = (
        "List the places of a warehouse that are held for whoever staged a table there, until it is made and at the "
        "latest until the time that is told: others get 409 LocationAlreadyTaken at, above and below them, with "
        "nothing to be seen. One a line, tab-separated, by location. --release ends such a hold at once. Do so only "
        "when the query is known to be over: credentials and signatures that were lent for the place are good to "
        "their own end, so whoever staged it may still write and delete there, also among the files of who comes "
        "next. What they staged may still be made as long as nobody came. Exit status 1 when there is nothing to "
        "release."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("warehouse", help="by name or id")
        parser.add_argument("--project-id", metavar="PROJECT", help="by id or name; default: the default project")
        parser.add_argument(
            "--release", metavar="LOCATION", help="end the hold of exactly this location, as the list shows it"
        )
        parser.add_argument("--json", action="store_true", help="JSON, one object a line, of what is released, too")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            project = find_spoken_project(options["project_id"])
            warehouse_id = find_spoken_warehouse(project, options["warehouse"]).pk
            if options["release"] is None:
                self._list(warehouse_id, is_json=options["json"])
            else:
                self._release(warehouse_id, _read(options["release"]), is_json=options["json"])
        except CatalogError as error:
            raise CommandError(error.message) from None

    def _list(self, warehouse_id: UUID, *, is_json: bool) -> None:
        places = list_staged_places_for(actor=INTERNAL, warehouse_id=warehouse_id)
        if not is_json:
            self.stdout.write("\t".join(COLUMNS))
        for place in places:
            cells = (_shown(place.location), _shown(place.staged_by), _moment(place))
            self.stdout.write(_json(place) if is_json else "\t".join(cells))

    def _release(self, warehouse_id: UUID, location: str, *, is_json: bool) -> None:
        released = release_staged_place(actor=INTERNAL, warehouse_id=warehouse_id, location=location)
        if not released:
            raise CommandError(f"Nobody holds {_shown(location)} for a staged table: nothing was released")
        for place in released:
            sentence = f"Released {_shown(place.location)}, held by {_shown(place.staged_by)} until {_moment(place)}."
            self.stdout.write(_json(place) if is_json else sentence)


def _shown(text: str) -> str:
    """Nothing in it moves a terminal's cursor or looks like something else; `_read` makes it what it was."""
    return "".join(character if character.isprintable() else _escaped(ord(character)) for character in text)


def _escaped(code: int) -> str:
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004


def _read(shown: str) -> str:
    return _ESCAPED.sub(lambda matched: chr(int(matched[1] or matched[2], 16)), shown)


def _moment(place: StagedPlace) -> str:
    return f"{place.expires_at:%Y-%m-%d %H:%M} UTC"


def _json(place: StagedPlace) -> str:
    told = {"location": place.location, "staged-by": place.staged_by, "expires-at": place.expires_at}
    return write_json(told).decode()
