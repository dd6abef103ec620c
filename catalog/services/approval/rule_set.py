"""The enabled rules as this process uses them, and which of them apply to a change.

They are read once for each number of changes and each permission epoch, and kept in memory. The number comes with the
statement that finds the target of a write. It does not show that an object was deleted with its rules; but a deletion
of a project, whose id may be used again, changes the epoch.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final, NamedTuple
from uuid import UUID

from django.conf import settings
from django.utils.module_loading import import_string

from catalog.models import ChangeRule
from catalog.selectors.tables.targets import VERSION_OF_RULES, RulesVersion
from catalog.services.approval.configuration import Purpose, RuleSettings
from catalog.services.approval.port import ContractVerifier, ProposedChange
from catalog.services.approval.rule_kinds import RULE_KINDS
from icekeeper.kernel.db.sql import fetch_one
from icekeeper.kernel.errors.types import CatalogError
from tenancy.authz.permission_epoch import NO_EXPIRY, DecisionCache, permission_epoch
from tenancy.models import Securable
from tenancy.models.securable import securable_id
from tenancy.selectors.projects import server_id

MAX_RULES: Final = 2_000
"""Rules of a server, all of which each process keeps in memory."""

CACHED_PATHS: Final = 4_096
"""Namespaces whose ancestors are cached, if namespaces have rules."""

_PATHS_OF_STATEMENT: Final = 1_000

logger = logging.getLogger("icekeeper.approval")


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule that is ready to verify. `scope` is the securable that it is attached to."""

    id: UUID | None
    name: str
    kind: str
    scope: str
    is_enforced: bool
    denies_on_failure: bool
    verifier: ContractVerifier


@dataclass(frozen=True, slots=True)
class RuleSet:
    """Rules by scope. `has_namespaces`: some are attached to namespaces, so the ancestors of an object matter.

    `warehouses` are those with rules of their own or of objects in them; `is_above_warehouses`: the server or projects
    have rules.
    """

    by_scope: Mapping[str, tuple[Rule, ...]] = field(default_factory=dict)
    has_namespaces: bool = False
    is_above_warehouses: bool = False
    warehouses: frozenset[str] = frozenset()

    def may_apply(self, warehouse_id: UUID | None) -> bool:
        """Return False if no rule applies to any change in the warehouse, or with None in any one. No statement."""
        if not self.by_scope or self.is_above_warehouses or warehouse_id is None:
            return bool(self.by_scope)
        return securable_id(Securable.Type.WAREHOUSE, warehouse_id) in self.warehouses

    def rules_for(self, change: ProposedChange) -> Iterator[Rule]:
        """Yield the rules of the object, of what it is in, and of what it is moved to; from the server down."""
        if not self.by_scope:
            return
        for scope in self._scopes_of(change):
            yield from self.by_scope.get(scope, ())

    def _scopes_of(self, change: ProposedChange) -> dict[str, None]:
        """Return the scopes of a change in order, each once."""
        scopes = dict.fromkeys(
            (
                securable_id(Securable.Type.SERVER, server_id()),
                securable_id(Securable.Type.PROJECT, change.project_id),
                securable_id(Securable.Type.WAREHOUSE, change.warehouse_id),
            )
        )
        if self.has_namespaces:
            for namespace_id in (change.namespace_id, change.destination_namespace_id):
                if namespace_id is not None:
                    scopes |= dict.fromkeys(_path_of(namespace_id))
        if change.own_id is not None:
            scopes[change.own_id] = None
        return scopes


class _Cached(NamedTuple):
    number: int
    epoch: int
    rules: RuleSet


_EMPTY: Final = RuleSet()
_cached = _Cached(-1, -1, _EMPTY)
_paths: Final[DecisionCache[tuple[str, ...]]] = DecisionCache(CACHED_PATHS)
_versions: Final[DecisionCache[RulesVersion]] = DecisionCache(1)


def rules_of_version(version: RulesVersion) -> RuleSet:
    """Return the rules, of at least this number of changes; none for a server that never had a rule.

    One statement if they have changed since the last call.
    """
    global _cached  # noqa: PLW0603 - one value, which is replaced as a whole
    number = version.number
    if number is None:
        return _EMPTY
    cached, epoch = _cached, permission_epoch.current()
    if cached.number != number or cached.epoch != epoch:
        _cached = cached = _Cached(number, epoch, _read_rules())
    return cached.rules


def read_rules_version() -> RulesVersion:
    """Return the number of changes of rules, None before the first one. One statement."""
    epoch = permission_epoch.current()
    row = fetch_one("default", f"SELECT {VERSION_OF_RULES}", [])
    return RulesVersion(None if row is None or row[0] is None else int(row[0]), epoch)


def recent_rules_version() -> RulesVersion:
    """Return the version as of now, as far as this server changed rules; other servers' changes within seconds.

    No statement in a server process; for writes that do not read the number with their target.
    """
    cached = _versions.get("version")
    if cached is not None:
        return cached.value
    version = read_rules_version()
    _versions.put("version", version, epoch=version.epoch, ends_at=NO_EXPIRY)
    return version


@cache
def configured_verifiers() -> tuple[ContractVerifier, ...]:
    """Return the verifiers of `ICEKEEPER__CONTRACT_VERIFIERS`."""
    return tuple(import_string(path)() for path in settings.ICEKEEPER.contract_verifiers)


class VerifierNotUsable(CatalogError):
    """A class of `ICEKEEPER__CONTRACT_VERIFIERS` cannot be used; the message has the reason."""


def require_configured_verifiers() -> None:
    """Startup check (`STARTUP_JOBS`) of `ICEKEEPER__CONTRACT_VERIFIERS`. Raises `VerifierNotUsable`."""
    for path in settings.ICEKEEPER.contract_verifiers:
        try:
            verifier = import_string(path)()
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise VerifierNotUsable(f"ICEKEEPER__CONTRACT_VERIFIERS: {path} cannot be created: {reason}") from error
        if not isinstance(verifier, ContractVerifier):
            raise VerifierNotUsable(f"ICEKEEPER__CONTRACT_VERIFIERS: {path} is not a subclass of ContractVerifier")


def server_rules() -> list[Rule]:
    """Return the configured verifiers as rules of the server, which are always enforced."""
    found = configured_verifiers()
    if not found:
        return []
    scope = securable_id(Securable.Type.SERVER, server_id())
    return [
        Rule(None, each.name or type(each).__name__, "configured", scope, True, True, each)  # noqa: FBT003
        for each in found
    ]


def build_rule(row: ChangeRule, purpose: Purpose = Purpose.WRITES) -> Rule:
    """Return the rule of a row. Raises `InvalidRule` if its configuration is not valid any more."""
    given = RuleSettings(row.pk, row.name, row.version, row.configuration, row.secret_id, purpose)
    return Rule(
        row.pk, row.name, row.kind, row.securable_id, row.mode == ChangeRule.Mode.ENFORCE,
        row.on_failure == ChangeRule.OnFailure.DENY, RULE_KINDS[row.kind].build(given),
    )  # fmt: skip


def _read_rules() -> RuleSet:
    by_scope: dict[str, list[Rule]] = {}
    warehouses: set[str | None] = set()
    rows = ChangeRule.objects.using("default").select_related("securable").filter(is_enabled=True).order_by("pk")
    for row in rows[:MAX_RULES]:
        by_scope.setdefault(row.securable_id, []).append(_built(row))
        warehouses.add(_warehouse_in(row.securable.path))
    return RuleSet(
        {scope: tuple(rules) for scope, rules in by_scope.items()},
        has_namespaces=any(scope.startswith(f"{Securable.Type.NAMESPACE.value}:") for scope in by_scope),
        is_above_warehouses=None in warehouses,
        warehouses=frozenset(each for each in warehouses if each is not None),
    )


def _warehouse_in(path: str) -> str | None:
    """Return the securable of the warehouse in the path of a securable, None above warehouses."""
    prefix = f"{Securable.Type.WAREHOUSE.value}:"
    return next((each for each in path.rstrip("/").split("/") if each.startswith(prefix)), None)


class _Unusable(ContractVerifier):
    """Stands for a rule that this version of the server cannot read; it fails, so `on_failure` decides."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def find_violations(self, change: ProposedChange) -> Iterable[str]:
        raise ValueError(self._reason)


def _built(row: ChangeRule) -> Rule:
    try:
        return build_rule(row)
    except (CatalogError, LookupError) as error:
        logger.error("rule %s cannot be used: %s", row.pk, error)  # noqa: TRY400 - the message is complete
        is_enforced, denies = row.mode == ChangeRule.Mode.ENFORCE, row.on_failure == ChangeRule.OnFailure.DENY
        return Rule(row.pk, row.name, row.kind, row.securable_id, is_enforced, denies, _Unusable(str(error)))


def _path_of(namespace_id: UUID) -> tuple[str, ...]:
    return paths_of_namespaces([namespace_id])[namespace_id]


def paths_of_namespaces(namespace_ids: Iterable[UUID]) -> dict[UUID, tuple[str, ...]]:
    """Return the securables of namespaces and of what is above each, from the server down; none if it was deleted.

    A statement for each thousand that are not cached.
    """
    found, missing = {}, []
    for each in dict.fromkeys(namespace_ids):
        cached = _paths.get(each)
        if cached is None:
            missing.append(each)
        else:
            found[each] = cached.value
    for start in range(0, len(missing), _PATHS_OF_STATEMENT):
        found |= _read_paths(missing[start : start + _PATHS_OF_STATEMENT])
    return found


def _read_paths(namespace_ids: Sequence[UUID]) -> dict[UUID, tuple[str, ...]]:
    epoch = permission_epoch.current()
    own_ids = {securable_id(Securable.Type.NAMESPACE, each): each for each in namespace_ids}
    rows = Securable.objects.using("default").filter(pk__in=own_ids).values_list("id", "path")
    found: dict[UUID, tuple[str, ...]] = dict.fromkeys(namespace_ids, ())
    found |= {own_ids[own_id]: tuple(path.rstrip("/").split("/")) for own_id, path in rows}
    for namespace_id, path in found.items():
        _paths.put(namespace_id, path, epoch=epoch, ends_at=NO_EXPIRY)
    return found
