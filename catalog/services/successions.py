"""When what is registered over a table or view is that table again, or goes on from its files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from catalog.iceberg.metadata_files import metadata_folder
from catalog.models import LocationClaim, Tabular
from catalog.selectors.targets import CurrentTabular
from icekeeper.kernel.errors.types import InvalidLocation
from icekeeper.kernel.ids import parse_id
from storage.profiles.location import location_inside


def is_same_table_lineage(
    replaced: CurrentTabular, metadata: dict[str, Any], metadata_location: str, *, base: str
) -> bool:
    """Whether the metadata has the UUID of `replaced`, or names what lies where that lies or lay; in the warehouse at
    `base`. What only manifests name is not looked at: no credentials are lent for it.
    """
    row = Tabular.objects.filter(pk=replaced.id).values_list("uuid", "location").first()
    if row is None:  # dropped in between: it does not make way any more
        return False
    own_uuid, location = row
    if parse_id(str(metadata.get(f"{replaced.kind}-uuid"))) == own_uuid:
        return True
    claims = LocationClaim.objects.filter(tabular_id=replaced.id).values_list("location", flat=True)
    places = [location, *claims]
    for named in _files_named(metadata, metadata_location):
        with suppress(InvalidLocation):  # what lies outside the warehouse is none of it
            file = location_inside(named, base=base)
            if any(_overlap(file, place) for place in places):
                return True
    return False


def _files_named(metadata: dict[str, Any], metadata_location: str) -> Iterator[object]:
    yield from (metadata_location, metadata["location"], metadata_folder(metadata))
    for snapshot in metadata.get("snapshots") or ():
        yield snapshot.get("manifest-list")
        yield from snapshot.get("manifests") or ()
    for entry in metadata.get("metadata-log") or ():
        yield entry["metadata-file"]
    for kind in ("statistics", "partition-statistics"):
        for entry in metadata.get(kind) or ():
            yield entry["statistics-path"]


def _overlap(one: str, other: str) -> bool:
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")
