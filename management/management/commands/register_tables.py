from __future__ import annotations

import sys
from argparse import ArgumentTypeError
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, InterfaceError

from catalog.identifiers import Levels
from catalog.selectors.warehouses import find_warehouse_for
from icekeeper.kernel.errors.types import CatalogError
from management.registration.list_file import FORMATS, ListFile, format_of, read_namespace
from management.registration.report import sentence, summary, write_failure
from management.registration.rest_client import Access, RestClient
from management.registration.rest_source import RestCatalog
from management.registration.run import CHECK, FAILED, REGISTER, Ended, Run, Tally
from management.registration.secrets import read_headers, read_one_line
from management.registration.source import Choice, Source, SourceFailed
from tenancy.actor import INTERNAL
from tenancy.selectors.projects import requested_project_id

MAX_PARALLEL = 32
EVERY = 100
"""Items between two lines of progress."""
INTERRUPTED = 130
GO_ON = "Run the same command again to go on"


class Command(BaseCommand):
    help = (
        "Register tables and views that lie in a warehouse already, in bulk: those that a file lists, or everything "
        "in another Iceberg REST catalog. Files are neither copied nor changed. What is registered already is left "
        "alone, so a run that was cut short is run again. Exit status 1 when anything failed."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("warehouse", help="name of the warehouse that they come into, or <project id>/<name>")
        source = parser.add_mutually_exclusive_group(required=True)
        source.add_argument("--list", metavar="FILE", help="a file that lists them; - for standard input")
        source.add_argument("--from-catalog", metavar="URI", help="address of another REST catalog, without /v1")
        parser.add_argument("--format", choices=FORMATS, help="of the list; default: by its ending, else jsonl")
        parser.add_argument("--from-warehouse", metavar="NAME", help="what the other catalog calls the warehouse")
        parser.add_argument("--token-from", metavar="PLACE", help="its token: env:NAME or file:PATH")
        parser.add_argument("--credential-from", metavar="PLACE", help="its OAuth2 client as id:secret, likewise")
        parser.add_argument("--oauth2-uri", metavar="URI", help="where tokens come from; default: the catalog itself")
        parser.add_argument("--scope", default="catalog", help="what the token is asked for; default: catalog")
        parser.add_argument("--headers-from", metavar="PLACE", help="more headers, one `Name: value` a line, likewise")
        parser.add_argument(
            "--namespace", action="append", default=[], type=_namespace, metavar="NAME",
            help="only this one and what is below it, as a.b or as a JSON list; may be given more than once",
        )  # fmt: skip
        parser.add_argument("--project-id", help="project of the warehouse; default: the default project")
        parser.add_argument("--overwrite", action="store_true", help="replace tables that are here with other metadata")
        parser.add_argument("--dry-run", action="store_true", help="do all checks, change nothing")
        parser.add_argument("--parallel", type=_parallel, default=4, metavar="N", help="tables at a time; default: 4")
        parser.add_argument("--report", metavar="FILE", help="write every failure there, one JSON object a line")

    def handle(self, *args: Any, **options: Any) -> None:
        tally = Tally()
        try:
            self._register(tally, options)
        except (SourceFailed, DatabaseError, InterfaceError, KeyboardInterrupt) as error:
            self._sum_up(tally, options)
            raise _broken_off(error) from None
        except CatalogError as error:
            raise CommandError(error.message) from None
        except OSError as error:
            raise CommandError(str(error)) from None
        self._sum_up(tally, options)
        if tally.failed:
            raise CommandError(f"{tally.failed} failed")

    def _register(self, tally: Tally, options: dict[str, Any]) -> None:
        warehouse = find_warehouse_for(
            actor=INTERNAL,
            argument=options["warehouse"],
            project_id=requested_project_id(options["project_id"]),
        )
        with _source(options) as source, _report(options) as report:
            run = Run(
                source,
                warehouse_id=warehouse.id,
                steps=CHECK if options["dry_run"] else REGISTER,
                overwrite=options["overwrite"],
                parallel=options["parallel"],
                tell=lambda ended: self._tell(ended, tally, report, verbosity=options["verbosity"]),
            )
            run.go()

    def _tell(self, ended: Ended, tally: Tally, report: IO[bytes] | None, *, verbosity: int) -> None:
        tally.add(ended)
        if ended.came == FAILED:
            self.stderr.write(sentence(ended))
            if report is not None:
                write_failure(ended, report)
        elif verbosity > 1:
            self.stdout.write(sentence(ended))
        if tally.total % EVERY == 0:
            self.stdout.write(f"{tally.total} done, {tally.failed} of them failed")
            self.stdout.flush()

    def _sum_up(self, tally: Tally, options: dict[str, Any]) -> None:
        if options["dry_run"]:
            self.stdout.write("Dry run: nothing was changed. It would come to:")
        self.stdout.write("\n".join(summary(tally)))


def _broken_off(error: BaseException) -> CommandError:
    if isinstance(error, KeyboardInterrupt):
        return CommandError(f"Interrupted. {GO_ON}", returncode=INTERRUPTED)
    cause = f"The source broke off: {error.message}" if isinstance(error, SourceFailed) else f"The database: {error}"
    return CommandError(f"{cause}. {GO_ON}")


@contextmanager
def _source(options: dict[str, Any]) -> Iterator[Source]:
    choice = Choice(options["namespace"])
    if options["list"] is not None:
        with _list_file(options["list"]) as file:
            file_format = options["format"] or format_of(Path(options["list"]))
            yield ListFile(file, file_format=file_format, choice=choice)
        return
    access = Access(
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
        yield RestCatalog(client, warehouse=options["from_warehouse"], choice=choice)
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
        raise CommandError("The report would be written over the list")
    with path.open("wb") as file:
        yield file


def _namespace(text: str) -> Levels:
    try:
        return read_namespace(text)
    except CatalogError as error:
        raise ArgumentTypeError(error.message) from None


def _parallel(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MAX_PARALLEL):
        raise ArgumentTypeError(f"a number from 1 to {MAX_PARALLEL}")
    return int(text)
