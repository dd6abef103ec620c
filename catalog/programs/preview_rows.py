"""Child process that reads the first rows of a snapshot with PyIceberg, by the credentials that it is sent.

The one frame is a JSON object: `metadata` (the document as text), `metadata-location`, `properties` of the FileIO,
`locations` of the table, `root` of local files or null, `snapshot-id`, `rows` and `max-text`. The response has
`columns` and `rows`, or `error`.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, time
from pathlib import Path
from typing import Any, Final

from icekeeper.kernel.bounded_program import serve_frames

PROGRAM: Final = "catalog.programs.preview_rows"
MAX_FRAME: Final = 80 * 1024 * 1024
MAX_COLUMNS: Final = 100
MAX_FILES: Final = 1_000
"""Data files that are opened until enough rows are found."""
MAX_ERROR: Final = 400
ENVIRONMENT: Final = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",  # the others reserve more address space than the limit
    "ARROW_IO_THREADS": "2",
    "OMP_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "2",
    "AWS_EC2_METADATA_DISABLED": "true",
    "PYICEBERG_MAX_WORKERS": "2",
    # Neither PyIceberg nor the SDK of a cloud must find credentials of the server's user.
    "HOME": "/nonexistent",
    "PYICEBERG_HOME": "/nonexistent",
}
_MISREAD: Final = re.compile(r"[\x00-\x1f\x7f?#\\]")
"""Characters that change the path: `urlparse` in PyIceberg drops them or ends the path there; `\\` may separate."""
_SECRET: Final = re.compile(r"secret|token|key|sas", re.IGNORECASE)


def respond(frame: bytes) -> Any:
    given = json.loads(frame)
    os.environ.update(ENVIRONMENT)
    try:
        return _read(given)
    except Exception as error:  # noqa: BLE001 - files are written by clients: anything can be raised
        text = without_secrets(f"{type(error).__name__}: {error}", given["properties"])
        return {"error": text[:MAX_ERROR]}


def _read(given: Mapping[str, Any]) -> dict[str, Any]:
    import pyarrow as pa
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.io.pyarrow import ArrowScan, _read_all_delete_files

    pa.set_cpu_count(1)
    table, io = open_table(given)
    wanted, names = given["rows"], [each.name for each in _schema_of(table, given["snapshot-id"]).fields]
    scan = table.scan(snapshot_id=given["snapshot-id"], limit=wanted)
    if len(names) > MAX_COLUMNS:
        scan = scan.select(*names[:MAX_COLUMNS])
    arrow = ArrowScan(table.metadata, io, scan.projection(), AlwaysTrue(), limit=wanted)

    def batches() -> Iterator[Any]:
        for number, task in enumerate(scan.plan_files()):
            if number == MAX_FILES:
                return
            deletes = _read_all_delete_files(io, [task])
            yield from arrow._record_batches_from_scan_tasks_and_deletes([task], deletes)  # noqa: SLF001 - lazily

    rows: list[dict[str, Any]] = []
    for batch in batches():
        rows += batch.slice(0, wanted - len(rows)).to_pylist()
        if len(rows) >= wanted:
            break
    columns = [(each.name, str(each.field_type)) for each in scan.projection().fields]
    return {
        "columns": [
            {"name": name, "type": kind, **describe_values([row.get(name) for row in rows], given["max-text"])}
            for name, kind in columns
        ],
        "rows": [[write_value(row.get(name), given["max-text"]) for name, _ in columns] for row in rows],
        "hidden-columns": max(0, len(names) - MAX_COLUMNS),
    }


def open_table(given: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return PyIceberg's table of a document, and the FileIO, which reads only files of that table."""
    from pyiceberg.catalog.noop import NoopCatalog
    from pyiceberg.io.pyarrow import PyArrowFileIO
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadataUtil

    locations = TableLocations(given["locations"], given["root"])

    class TableFileIO(PyArrowFileIO):  # type: ignore[misc]  # untyped
        """Reads files of the table only: their paths are in files that clients write."""

        def new_input(self, location: str) -> Any:
            locations.require_inside(location)
            return super().new_input(location)

    metadata = TableMetadataUtil.parse_raw(given["metadata"])
    io = TableFileIO(given["properties"])
    return Table(("preview",), metadata, given["metadata-location"], io, NoopCatalog("preview")), io


def _schema_of(table: Any, snapshot_id: int) -> Any:
    snapshot = table.metadata.snapshot_by_id(snapshot_id)
    known = snapshot is not None and snapshot.schema_id is not None
    return table.schemas().get(snapshot.schema_id, table.schema()) if known else table.schema()


class TableLocations:
    """The folders of a table, outside of which nothing is read. Local ones are below `root` without links."""

    def __init__(self, locations: Sequence[str], root: str | None) -> None:
        self._folders = [f"{_without_scheme(each)}/" for each in locations]
        self._schemes = {_scheme(each) for each in locations}
        self._root = root

    def require_inside(self, location: str) -> None:
        """Raises `PermissionError` for any other location."""
        path = _without_scheme(location)
        is_inside = (
            _MISREAD.search(location) is None
            and _scheme(location) in self._schemes
            and any(path.startswith(each) for each in self._folders)
            and not {"", ".", ".."} & set(path.lstrip("/").split("/"))
        )
        if is_inside and self._root is not None:
            if "%" in path:
                raise PermissionError(f"{location[:200]} is rejected: local locations with % have two meanings")
            real = str(Path(path).resolve())
            is_inside = real.startswith(f"{self._root}/") and any(real.startswith(each) for each in self._folders)
        if not is_inside:
            raise PermissionError(f"{location[:200]} is outside of the location of the table")


def _scheme(location: str) -> str:
    """Return the scheme, with the aliases of S3 as one."""
    scheme = location.partition("://")[0]
    return "s3" if scheme in {"s3a", "s3n"} else scheme


def _without_scheme(location: str) -> str:
    return location.partition("://")[2].rstrip("/")


def write_value(value: Any, limit: int) -> str | None:
    """Return a value as text of at most `limit` characters: nested ones as JSON, binary ones in hexadecimal."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return _cut(value[:limit].hex(), limit)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, dict | list | tuple):
        return _cut(json.dumps(_nested(value), ensure_ascii=False), limit)
    return _cut(str(value), limit)


def _nested(value: Any) -> Any:
    """Return a value, and the keys of its maps, as JSON can write them."""
    if isinstance(value, dict):
        return {key if isinstance(key, str) else _text(key): _nested(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_nested(each) for each in value]
    return value if value is None or isinstance(value, bool | int | float | str) else _text(value)


def _text(value: Any) -> str:
    return write_value(value, sys.maxsize) or "null"


def _cut(text: str, limit: int) -> str:
    printable = text.encode("utf-8", "replace").decode()
    return printable if len(printable) <= limit else f"{printable[: limit - 1]}…"


def describe_values(values: Sequence[Any], limit: int) -> dict[str, Any]:
    """Return the profile of the values of a column: nulls, distinct values, minimum and maximum where they have any."""
    known = [each for each in values if each is not None]
    try:
        least, greatest = (min(known), max(known)) if known else (None, None)
    except TypeError:  # such as structs
        least = greatest = None
    return {
        "nulls": len(values) - len(known),
        "distinct": len({write_value(each, limit) for each in known}),
        "min": write_value(least, limit),
        "max": write_value(greatest, limit),
    }


def without_secrets(text: str, properties: Mapping[str, str]) -> str:
    for name, value in properties.items():
        if value and _SECRET.search(name):
            text = text.replace(value, "***")
    return text


if __name__ == "__main__":
    serve_frames(respond, max_frame=MAX_FRAME)
