"""The kind `retention-floor`: young and last snapshots, and branches and tags, are not removed from tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from pydantic import Field, model_validator

from catalog.services.approval.configuration import RuleConfiguration, RuleSettings, read_configuration
from catalog.services.approval.port import ContractVerifier, ProposedChange
from icekeeper.kernel.clock import now_ms
from tenancy.models import Securable

DAY_MS: Final = 86_400_000
MAX_AGE_DAYS: Final = 3_650

_MAX_AGE: Final = "history.expire.max-snapshot-age-ms"
_MIN_NUMBER: Final = "history.expire.min-snapshots-to-keep"
_MAX_NAMED: Final = 5
"""Snapshots that one reason names."""


class RetentionFloorConfiguration(RuleConfiguration):
    min_age_days: int | None = Field(
        None, ge=1, le=MAX_AGE_DAYS, description="Snapshots younger than this are not removed"
    )
    min_snapshots: int | None = Field(
        None, ge=1, le=100_000, description="The last snapshots of a table, this many, are not removed"
    )
    keep_refs: bool = Field(
        default=False, description="Branches and tags, and the snapshots that they refer to, are not removed"
    )

    @model_validator(mode="after")
    def _has_floor(self) -> RetentionFloorConfiguration:
        if self.min_age_days is None and self.min_snapshots is None and not self.keep_refs:
            raise ValueError("one of min-age-days, min-snapshots and keep-refs is required")
        return self


class RetentionFloor(ContractVerifier):
    configuration = RetentionFloorConfiguration

    def __init__(self, settings: RuleSettings) -> None:
        given = read_configuration(self.configuration, settings.configuration)
        self._min_age_ms = None if given.min_age_days is None else given.min_age_days * DAY_MS
        self._min_snapshots, self._keep_refs = given.min_snapshots, given.keep_refs

    def find_violations(self, change: ProposedChange) -> Iterable[str]:
        new: Any = change.proposed
        if change.object_type is not Securable.Type.TABLE or new is None or change.current is None:
            return
        old: Any = change.current
        if change.removed_snapshot_ids:
            yield from self._find_removed_snapshots(old, new, frozenset(change.removed_snapshot_ids))
        if old.get("refs") is not new.get("refs"):
            yield from self._find_changed_refs(old.get("refs") or {}, new.get("refs") or {})
        if old.get("properties") is not new.get("properties"):
            yield from self._find_lowered_properties(old.get("properties") or {}, new.get("properties") or {})

    def _find_removed_snapshots(self, old: Any, new: Any, removed: frozenset[int]) -> Iterator[str]:
        kept = {each["snapshot-id"] for each in new.get("snapshots") or ()}
        snapshots = old.get("snapshots") or []
        removed_now = [each for each in snapshots if each["snapshot-id"] in removed and each["snapshot-id"] not in kept]
        if self._min_age_ms is not None:
            since = now_ms() - self._min_age_ms
            young = [each["snapshot-id"] for each in removed_now if each["timestamp-ms"] > since]
            if young:
                yield f"snapshots younger than {self._min_age_ms // DAY_MS} days must be kept: {_name(young)}"
        if self._min_snapshots is not None:
            ordered = sorted(snapshots, key=lambda each: (each.get("sequence-number") or 0, each["timestamp-ms"]))
            last = {each["snapshot-id"] for each in ordered[-self._min_snapshots :]}
            lost = [each["snapshot-id"] for each in removed_now if each["snapshot-id"] in last]
            if lost:
                yield f"the last {self._min_snapshots} snapshots must be kept: {_name(lost)}"
        if self._keep_refs:
            referenced = {ref["snapshot-id"] for ref in (old.get("refs") or {}).values()}
            lost = [each["snapshot-id"] for each in removed_now if each["snapshot-id"] in referenced]
            if lost:
                yield f"snapshots that branches and tags refer to must be kept: {_name(lost)}"

    def _find_changed_refs(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
        for name, ref in old.items():
            after = new.get(name)
            if after is None:
                if self._keep_refs:
                    yield f"the {ref['type']} {name!r} must be kept"
                continue
            if after is ref:
                continue
            if self._keep_refs and ref["type"] == "tag" and after["snapshot-id"] != ref["snapshot-id"]:
                yield f"the tag {name!r} must keep its snapshot"
            for member, least in (
                ("max-snapshot-age-ms", self._min_age_ms), ("max-ref-age-ms", self._min_age_ms),
                ("min-snapshots-to-keep", self._min_snapshots),
            ):  # fmt: skip
                if _is_lowered(ref.get(member), after.get(member), least):
                    yield f"{member} of the {ref['type']} {name!r} must be at least {least}"

    def _find_lowered_properties(self, old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
        for name, least in ((_MAX_AGE, self._min_age_ms), (_MIN_NUMBER, self._min_snapshots)):
            if _is_lowered(old.get(name), new.get(name), least):
                yield f"the property {name} must be at least {least}"


def _is_lowered(old: object, new: object, least: int | None) -> bool:
    """Return whether a value is set that is below `least`; a value that does not change is not set."""
    if least is None or new is None or new == old:
        return False
    try:
        return int(str(new)) < least
    except ValueError:
        return True  # readers may take it for any number


def _name(snapshot_ids: list[int]) -> str:
    more = f" and {len(snapshot_ids) - _MAX_NAMED} more" if len(snapshot_ids) > _MAX_NAMED else ""
    return ", ".join(map(str, snapshot_ids[:_MAX_NAMED])) + more
