"""Import a source: namespaces first, then their tables and views, several at a time."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from uuid import UUID

from django.db import DatabaseError, InterfaceError, connections

from catalog.identifiers import Levels, dotted
from catalog.services.tables import bulk_register
from catalog.services.tables.bulk_register import ImportEntry, ImportResult
from icekeeper.kernel.db.transactions import is_outcome_unknown, is_overload
from icekeeper.kernel.errors.types import CatalogError, CommitContended, CommitStateUnknown
from icekeeper.kernel.names import lookup_key, path_key
from management.table_import.source import ImportSource, Item, NamespaceEntry, UnreadableEntry
from tenancy.actor import INTERNAL

logger = logging.getLogger("icekeeper.registration")

RETRY_PAUSES = (0.5, 2.0, 5.0)
"""Seconds before each retry after overload or a lost connection."""
QUEUED_PER_WORKER = 4

FAILED, MISSING = "failed", "missing"


class NamespaceRefused(CatalogError):
    """The namespace of an entry could not be created; it is reported on its own line."""

    status, wire_type = 409, "NamespaceRefused"


@dataclass(frozen=True, slots=True)
class ImportSteps:
    """The functions that import, or check, a namespace and an entry."""

    namespace: Callable[..., ImportResult]
    entry: Callable[..., ImportResult]


REGISTER = ImportSteps(bulk_register.ensure_namespace, bulk_register.register_entry)
CHECK = ImportSteps(bulk_register.check_namespace, bulk_register.check_entry)


@dataclass(frozen=True, slots=True)
class ItemResult:
    """An item with its status: a value of `ImportResult`, `missing`, or `failed` with the error."""

    item: Item
    status: str
    error: CatalogError | None = None


@dataclass
class ImportCounts:
    """The number of items by type (`namespace`, `table`, `view`, `unreadable`) and status."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, result: ItemResult) -> None:
        self.counts[type_of_item(result.item), result.status] += 1

    def count(self, item_type: str, status: str) -> int:
        return self.counts[item_type, status]

    @property
    def failed(self) -> int:
        return sum(count for (_, status), count in self.counts.items() if status == FAILED)

    @property
    def total(self) -> int:
        return self.counts.total()


def type_of_item(item: Item) -> str:
    match item:
        case NamespaceEntry():
            return "namespace"
        case ImportEntry():
            return item.kind.value
        case UnreadableEntry():
            return "unreadable"


class ImportRun:
    """Imports a source. `report` is called with every result, in the thread that called `execute`."""

    def __init__(
        self,
        source: ImportSource,
        *,
        warehouse_id: UUID,
        steps: ImportSteps,
        overwrite: bool,
        parallel: int,
        report: Callable[[ItemResult], None],
    ) -> None:
        self._source = source
        self._arguments = {"actor": INTERNAL, "warehouse_id": warehouse_id, "overwrite": overwrite}
        self._steps = steps
        self._parallel = parallel
        self._report = report
        self._pending: dict[tuple[str, str], Future[ItemResult]] = {}
        self._failed_namespaces: set[str] = set()

    def execute(self) -> None:
        """Import every item. Entries in progress are always finished and reported.

        Raises `SourceFailed` if the source fails, Django's database errors if the database is unavailable.
        """
        pool = ThreadPoolExecutor(self._parallel, thread_name_prefix="register")
        try:
            for item in self._source.items():
                self._process(item, pool)
            while self._pending:
                self._collect()
        finally:
            pool.shutdown(cancel_futures=True)
            for future in self._pending.values():  # entries in progress when the run was interrupted
                if not future.cancelled() and future.exception() is None:
                    self._report(future.result())

    def _process(self, item: Item, pool: ThreadPoolExecutor) -> None:
        match item:
            case UnreadableEntry():
                self._report(ItemResult(item, FAILED, item.error))
            case NamespaceEntry():
                result = self._parent_failure(item, item.levels[:-1]) or self._attempt(
                    item, lambda: self._steps.namespace(**self._arguments, **_namespace_arguments(item))
                )
                if result.status == FAILED:
                    self._failed_namespaces.add(path_key(item.levels))
                self._report(result)
            case ImportEntry():
                self._submit(item, pool)

    def _submit(self, entry: ImportEntry, pool: ThreadPoolExecutor) -> None:
        failure = self._parent_failure(entry, entry.levels)
        if failure is not None:
            self._report(failure)
            return
        # Entries with the same name are imported one after the other, so that the result is deterministic.
        key = (path_key(entry.levels), lookup_key(entry.name))
        while key in self._pending or len(self._pending) >= QUEUED_PER_WORKER * self._parallel:
            self._collect()
        self._pending[key] = pool.submit(self._import_entry, entry)

    def _parent_failure(self, item: Item, levels: Levels) -> ItemResult | None:
        """Return the result of an item whose namespace could not be created."""
        if any(path_key(levels[:depth]) in self._failed_namespaces for depth in range(1, len(levels) + 1)):
            return ItemResult(item, FAILED, NamespaceRefused(f"The namespace was not created: {dotted(levels)}"))
        return None

    def _collect(self) -> None:
        """Wait for an entry, and report it."""
        done, _ = wait(self._pending.values(), return_when=FIRST_COMPLETED)
        for key in [key for key, future in self._pending.items() if future in done]:
            self._report(self._pending.pop(key).result())

    def _import_entry(self, entry: ImportEntry) -> ItemResult:
        try:
            located = self._source.locate(entry)
        except Exception as error:  # noqa: BLE001 - one invalid response must not stop the run
            return ItemResult(entry, FAILED, _as_catalog_error(error))
        if located is None:
            return ItemResult(entry, MISSING)
        try:
            return self._attempt(located, lambda: self._steps.entry(**self._arguments, entry=located))
        finally:
            connections.close_all()  # of this thread

    def _attempt(self, item: Item, action: Callable[[], str]) -> ItemResult:
        """Run the action; retry after overload or a lost connection, since each action is idempotent."""
        for pause in (*RETRY_PAUSES, None):
            try:
                return ItemResult(item, action())
            except (CatalogError, DatabaseError, InterfaceError) as error:
                if not _is_transient(error):
                    return ItemResult(item, FAILED, _as_catalog_error(error))
                if pause is None:
                    if isinstance(error, CatalogError) or is_overload(error):
                        return ItemResult(item, FAILED, _as_catalog_error(error))
                    raise  # the database is unavailable
            except Exception as error:  # noqa: BLE001 - one invalid file must not stop the run
                return ItemResult(item, FAILED, _as_catalog_error(error))
            connections.close_all()
            time.sleep(pause)
        raise AssertionError("the last attempt returns")


def _namespace_arguments(namespace: NamespaceEntry) -> dict[str, object]:
    return {"levels": namespace.levels, "properties": namespace.properties}


def _is_transient(error: Exception) -> bool:
    if isinstance(error, CatalogError):
        return error.retry_after is not None or isinstance(error, CommitContended | CommitStateUnknown)
    return isinstance(error, DatabaseError | InterfaceError) and (is_overload(error) or is_outcome_unknown(error))


def _as_catalog_error(error: Exception) -> CatalogError:
    if isinstance(error, CatalogError):
        return error
    logger.error("unexpected error during the import of an entry", exc_info=error)
    return CatalogError(f"Unexpected error: {type(error).__name__}")
