"""A whole list through the registration of one entry: in order of namespaces, several tables at a time, never all."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from uuid import UUID

from django.db import DatabaseError, InterfaceError, connections

from catalog.identifiers import Levels, dotted, lookup_key, path_key
from catalog.services.tables import bulk_register
from catalog.services.tables.bulk_register import Came, Listed
from icekeeper.kernel.errors.database import is_load, is_outcome_unknown
from icekeeper.kernel.errors.types import CatalogError, CommitContended, CommitStateUnknown
from management.registration.source import Item, ListedNamespace, Source, Unreadable
from tenancy.actor import INTERNAL

logger = logging.getLogger("icekeeper.registration")

PAUSES = (0.5, 2.0, 5.0)
"""Seconds before each further attempt at what load or a lost connection prevented."""
QUEUED = 4
"""Entries that are read ahead for each that is worked on."""

FAILED, GONE = "failed", "gone"


class NamespaceRefused(CatalogError):
    """Its namespace could not be made; what is wrong with that stands in a line of its own."""

    status, wire_type = 409, "NamespaceRefused"


@dataclass(frozen=True, slots=True)
class Steps:
    """What is done with a namespace and with an entry."""

    namespace: Callable[..., Came]
    entry: Callable[..., Came]


REGISTER = Steps(bulk_register.make_namespace, bulk_register.register_listed)
CHECK = Steps(bulk_register.check_namespace, bulk_register.check_listed)


@dataclass(frozen=True, slots=True)
class Ended:
    """One item and what it came to: a value of `Came`, `gone`, or `failed` with the error."""

    item: Item
    came: str
    error: CatalogError | None = None


@dataclass
class Tally:
    """How many items of which sort (`namespace`, `table`, `view`, `unreadable`) came to what."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, ended: Ended) -> None:
        self.counts[sort_of(ended.item), ended.came] += 1

    def of(self, sort: str, came: str) -> int:
        return self.counts[sort, came]

    @property
    def failed(self) -> int:
        return sum(count for (_, came), count in self.counts.items() if came == FAILED)

    @property
    def total(self) -> int:
        return self.counts.total()


def sort_of(item: Item) -> str:
    match item:
        case ListedNamespace():
            return "namespace"
        case Listed():
            return item.kind.value
        case Unreadable():
            return "unreadable"


class Run:
    """`tell` is called with every item that ended, in the thread that called `go`."""

    def __init__(
        self,
        source: Source,
        *,
        warehouse_id: UUID,
        steps: Steps,
        overwrite: bool,
        parallel: int,
        tell: Callable[[Ended], None],
    ) -> None:
        self._source = source
        self._place = {"actor": INTERNAL, "warehouse_id": warehouse_id, "overwrite": overwrite}
        self._steps = steps
        self._parallel = parallel
        self._tell = tell
        self._pending: dict[tuple[str, str], Future[Ended]] = {}
        self._refused: set[str] = set()

    def go(self) -> None:
        """Work through the source. What was begun is finished and told of, whatever happens.

        Raises `SourceFailed` when the source breaks off, Django's database errors when the database is lost.
        """
        pool = ThreadPoolExecutor(self._parallel, thread_name_prefix="register")
        try:
            for item in self._source.items():
                self._take(item, pool)
            while self._pending:
                self._collect()
        finally:
            pool.shutdown(cancel_futures=True)
            for future in self._pending.values():  # what was begun before the run broke off
                if not future.cancelled() and future.exception() is None:
                    self._tell(future.result())

    def _take(self, item: Item, pool: ThreadPoolExecutor) -> None:
        match item:
            case Unreadable():
                self._tell(Ended(item, FAILED, item.error))
            case ListedNamespace():
                ended = self._refusal(item, item.levels[:-1]) or self._attempt(
                    item, lambda: self._steps.namespace(**self._place, **_described(item))
                )
                if ended.came == FAILED:
                    self._refused.add(path_key(item.levels))
                self._tell(ended)
            case Listed():
                self._begin(item, pool)

    def _begin(self, listed: Listed, pool: ThreadPoolExecutor) -> None:
        refusal = self._refusal(listed, listed.levels)
        if refusal is not None:
            self._tell(refusal)
            return
        # Of entries with one name the second waits for the first: which of them wins is not left to chance.
        key = (path_key(listed.levels), lookup_key(listed.name))
        while key in self._pending or len(self._pending) >= QUEUED * self._parallel:
            self._collect()
        self._pending[key] = pool.submit(self._work, listed)

    def _refusal(self, item: Item, levels: Levels) -> Ended | None:
        """How an item ends at once when the namespace that it belongs into could not be made."""
        if any(path_key(levels[:depth]) in self._refused for depth in range(1, len(levels) + 1)):
            return Ended(item, FAILED, NamespaceRefused(f"The namespace was not made: {dotted(levels)}"))
        return None

    def _collect(self) -> None:
        """Wait until something ended, and tell of it."""
        done, _ = wait(self._pending.values(), return_when=FIRST_COMPLETED)
        for key in [key for key, future in self._pending.items() if future in done]:
            self._tell(self._pending.pop(key).result())

    def _work(self, listed: Listed) -> Ended:
        try:
            located = self._source.locate(listed)
        except Exception as error:  # noqa: BLE001 - one odd answer must not stop ten thousand others
            return Ended(listed, FAILED, _as_refusal(error))
        if located is None:
            return Ended(listed, GONE)
        try:
            return self._attempt(located, lambda: self._steps.entry(**self._place, listed=located))
        finally:
            connections.close_all()  # those of this thread: a pool gets them back

    def _attempt(self, item: Item, act: Callable[[], str]) -> Ended:
        """Do it, and again after a pause when only load or a lost connection was in the way: each step looks first."""
        for pause in (*PAUSES, None):
            try:
                return Ended(item, act())
            except (CatalogError, DatabaseError, InterfaceError) as error:
                if not _may_pass(error):
                    return Ended(item, FAILED, _as_refusal(error))
                if pause is None:
                    if isinstance(error, CatalogError) or is_load(error):
                        return Ended(item, FAILED, _as_refusal(error))
                    raise  # without a database there is no going on
            except Exception as error:  # noqa: BLE001 - one odd file must not stop ten thousand others
                return Ended(item, FAILED, _as_refusal(error))
            connections.close_all()
            time.sleep(pause)
        raise AssertionError("the last attempt returns")


def _described(namespace: ListedNamespace) -> dict[str, object]:
    return {"levels": namespace.levels, "properties": namespace.properties}


def _may_pass(error: Exception) -> bool:
    if isinstance(error, CatalogError):
        return error.retry_after is not None or isinstance(error, CommitContended | CommitStateUnknown)
    return isinstance(error, DatabaseError | InterfaceError) and (is_load(error) or is_outcome_unknown(error))


def _as_refusal(error: Exception) -> CatalogError:
    if isinstance(error, CatalogError):
        return error
    logger.error("an entry failed in a way that was not foreseen", exc_info=error)
    return CatalogError(f"Unforeseen: {type(error).__name__}")
