from __future__ import annotations

import sys
from argparse import ArgumentTypeError
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO

from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.db import DatabaseError, InterfaceError

from catalog.identifiers import Identifier, Levels, dotted
from catalog.selectors.warehouses import find_warehouse_for
from catalog.services.tables.bulk_register import ImportEntry, ImportResult
from icekeeper.kernel.errors.types import CatalogError
from icekeeper.kernel.json.strict import write_json
from management.management.operator_command import MAYBE_UNUSABLE, OperatorCommand, require_usable_database
from management.table_import.import_run import (
    CHECK,
    FAILED,
    MISSING,
    REGISTER,
    ImportCounts,
    ImportRun,
    ItemResult,
    type_of_item,
)
from management.table_import.list_file import FORMATS, ListFile, format_of, read_namespace
from management.table_import.rest_client import RestClient, SourceAccess, read_headers, read_one_line
from management.table_import.rest_source import RestCatalog
from management.table_import.source import ImportSource, NamespaceEntry, NamespaceFilter, SourceFailed, UnreadableEntry
from tenancy.actor import INTERNAL
from tenancy.selectors.projects import requested_project_id

MAX_PARALLEL = 32
PROGRESS_INTERVAL = 100
"""Number of items between two lines of progress."""
INTERRUPTED = 130
CONTINUE = "Run the same command again to continue"
PLURALS = {"namespace": "namespaces", "table": "tables", "view": "views"}
MAX_MESSAGE = 1000


class Command(OperatorCommand):
    help = (
        "Register existing tables and views of a warehouse in bulk: those in a list file, or all of another Iceberg "
        "REST catalog. Files are neither copied nor changed. Registered tables are left unchanged, so an interrupted "
        "run can be repeated. Exit status 1 if an entry fails."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("warehouse", help="name of the target warehouse, or <project id>/<name>")
        source = parser.add_mutually_exclusive_group(required=True)
        source.add_argument("--list", metavar="FILE", help="a list file; - for standard input")
        source.add_argument("--from-catalog", metavar="URI", help="URI of another REST catalog, without /v1")
        parser.add_argument(
            "--format", choices=FORMATS, help="format of the list; default: by file extension, else jsonl"
        )
        parser.add_argument("--from-warehouse", metavar="NAME", help="name of the warehouse in the other catalog")
        parser.add_argument("--token-from", metavar="SOURCE", help="its token: env:NAME or file:PATH")
        parser.add_argument(
            "--credential-from", metavar="SOURCE", help="its OAuth2 client as id:secret: env:NAME or file:PATH"
        )
        parser.add_argument("--oauth2-uri", metavar="URI", help="token endpoint; default: that of the catalog")
        parser.add_argument("--scope", default="catalog", help="scope of the token; default: catalog")
        parser.add_argument(
            "--headers-from",
            metavar="SOURCE",
            help="more headers, one `Name: value` per line: env:NAME or file:PATH",
        )
        parser.add_argument(
            "--namespace", action="append", default=[], type=_namespace, metavar="NAME",
            help="only this namespace and its children, as a.b or as a JSON list; may be repeated",
        )  # fmt: skip
        parser.add_argument("--project-id", help="project of the warehouse; default: the default project")
        parser.add_argument("--overwrite", action="store_true", help="replace registered tables whose metadata differs")
        parser.add_argument("--dry-run", action="store_true", help="run all checks, change nothing")
        parser.add_argument(
            "--parallel", type=_parallel, default=4, metavar="N", help="number of concurrent tables; default: 4"
        )
        parser.add_argument("--report", metavar="FILE", help="write failures to this file, one JSON object per line")

    def handle(self, *args: Any, **options: Any) -> None:
        counts = ImportCounts()
        try:
            self._register(counts, options)
        except (SourceFailed, DatabaseError, InterfaceError, KeyboardInterrupt) as error:
            if isinstance(error, MAYBE_UNUSABLE) and not counts.total:
                require_usable_database(error)
            self._print_summary(counts, options)
            raise _interruption(error) from None
        except OSError as error:
            raise CommandError(str(error)) from None
        self._print_summary(counts, options)
        if counts.failed:
            raise CommandError(f"{counts.failed} failed")

    def _register(self, counts: ImportCounts, options: dict[str, Any]) -> None:
        warehouse = find_warehouse_for(
            actor=INTERNAL,
            argument=options["warehouse"],
            project_id=requested_project_id(options["project_id"]),
        )
        with _source(options) as source, _report(options) as report:
            run = ImportRun(
                source,
                warehouse_id=warehouse.id,
                steps=CHECK if options["dry_run"] else REGISTER,
                overwrite=options["overwrite"],
                parallel=options["parallel"],
                report=lambda result: self._report(result, counts, report, verbosity=options["verbosity"]),
            )
            run.execute()

    def _report(self, result: ItemResult, counts: ImportCounts, report: IO[bytes] | None, *, verbosity: int) -> None:
        counts.add(result)
        if result.status == FAILED:
            self.stderr.write(sentence(result))
            if report is not None:
                write_failure(result, report)
        elif verbosity > 1:
            self.stdout.write(sentence(result))
        if counts.total % PROGRESS_INTERVAL == 0:
            self.stdout.write(f"{counts.total} done, {counts.failed} failed")
            self.stdout.flush()

    def _print_summary(self, counts: ImportCounts, options: dict[str, Any]) -> None:
        if options["dry_run"]:
            self.stdout.write("Dry run: nothing was changed. Expected result:")
        self.stdout.write("\n".join(summary(counts)))


def _interruption(error: BaseException) -> CommandError:
    if isinstance(error, KeyboardInterrupt):
        return CommandError(f"Interrupted. {CONTINUE}", returncode=INTERRUPTED)
    cause = f"The source failed: {error.message}" if isinstance(error, SourceFailed) else f"Database error: {error}"
    return CommandError(f"{cause}. {CONTINUE}")


@contextmanager
def _source(options: dict[str, Any]) -> Iterator[ImportSource]:
    namespace_filter = NamespaceFilter(options["namespace"])
    if options["list"] is not None:
        with _list_file(options["list"]) as file:
            file_format = options["format"] or format_of(Path(options["list"]))
            yield ListFile(file, file_format=file_format, namespace_filter=namespace_filter)
        return
    access = SourceAccess(
        token=read_one_line(options["token_from"]),
        credential=read_one_line(options["credential_from"]),
        oauth2_uri=options["oauth2_uri"],
        scope=options["scope"],
        headers=read_headers(options["headers_from"]),
    )
    client = RestClient(
        options["from_catalog"],
        access=access,
        connections=options["parallel"] + 1,
        limit=settings.ICEKEEPER.metadata_file_limit,
    )
    try:
        yield RestCatalog(client, warehouse=options["from_warehouse"], namespace_filter=namespace_filter)
    finally:
        client.close()


@contextmanager
def _list_file(name: str) -> Iterator[BinaryIO]:
    if name == "-":
        yield sys.stdin.buffer
        return
    with Path(name).open("rb") as file:
        yield file


@contextmanager
def _report(options: dict[str, Any]) -> Iterator[IO[bytes] | None]:
    if options["report"] is None:
        yield None
        return
    path = Path(options["report"])
    if options["list"] not in {None, "-"} and path.exists() and path.samefile(options["list"]):
        raise CommandError("The report would overwrite the list")
    with path.open("wb") as file:
        yield file


def _namespace(text: str) -> Levels:
    try:
        return read_namespace(text)
    except CatalogError as error:
        raise ArgumentTypeError(error.message) from None


def _parallel(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MAX_PARALLEL):
        raise ArgumentTypeError(f"must be a number from 1 to {MAX_PARALLEL}")
    return int(text)


def describe_failure(result: ItemResult) -> dict[str, Any]:
    """Return one line of the report; that of a table or view is a valid entry of a list file."""
    error = result.error
    found: dict[str, Any] = {"type": type_of_item(result.item)}
    match result.item:
        case NamespaceEntry():
            found |= {"namespace": list(result.item.levels)}
        case ImportEntry():
            found |= {"namespace": list(result.item.levels), "name": result.item.name}
            found |= {"metadata-location": result.item.metadata_location}
        case UnreadableEntry():
            found |= {"where": result.item.where}
    if error is not None:
        found["error"] = {"type": error.wire_type, "message": error.message[:MAX_MESSAGE], "code": error.status}
    return found


def write_failure(result: ItemResult, file: IO[bytes]) -> None:
    file.write(write_json(describe_failure(result)) + b"\n")
    file.flush()


def sentence(result: ItemResult) -> str:
    """Return one line of text without control characters."""
    match result.item:
        case NamespaceEntry():
            subject = f"namespace {dotted(result.item.levels)}"
        case ImportEntry():
            subject = f"{result.item.kind} {Identifier(result.item.levels, result.item.name)}"
        case _:
            subject = result.item.where
    text = f"{result.status}: {subject}"
    if result.error is not None:
        text += f": {result.error.message[:MAX_MESSAGE]}"
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def summary(counts: ImportCounts) -> list[str]:
    lines = []
    for item_type, plural in PLURALS.items():
        statuses = ", ".join(f"{counts.count(item_type, status)} {status}" for status in (*ImportResult, FAILED))
        missing = counts.count(item_type, MISSING)
        lines.append(f"{plural}: {statuses}" + (f", {missing} missing in the source" if missing else ""))
    if unreadable := counts.count("unreadable", FAILED):
        lines.append(f"unreadable in the source: {unreadable}")
    return lines
