"""The kind `schema-compatibility`: new schemas of tables must be compatible with the current one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from catalog.iceberg.display.stored_parts import find_current_schema
from catalog.iceberg.metadata_diff import has_same_schema
from catalog.iceberg.schema_compatibility import Compatibility, find_incompatibilities
from catalog.services.approval.configuration import RuleConfiguration, RuleSettings, read_configuration
from catalog.services.approval.port import ContractVerifier, ProposedChange
from tenancy.models import Securable

_ALWAYS: Final = 3
"""Format version that counts for a table without one."""


class SchemaCompatibilityConfiguration(RuleConfiguration):
    mode: Annotated[
        Literal["backward", "forward", "full"],
        Field(
            description="`backward`: the new schema reads the data that was written with the current one. `forward`: "
            "queries for the current schema also read what is written with the new one. `full`: both",
        ),
    ]


class SchemaCompatibility(ContractVerifier):
    configuration = SchemaCompatibilityConfiguration

    def __init__(self, settings: RuleSettings) -> None:
        self._mode = Compatibility(read_configuration(self.configuration, settings.configuration).mode)

    def find_violations(self, change: ProposedChange) -> Iterable[str]:
        new: Any = change.proposed
        if change.object_type is not Securable.Type.TABLE or new is None:
            return []
        old: Any = change.current
        if old is None or has_same_schema(old, new):
            return []
        before, after = find_current_schema(old), find_current_schema(new)
        if before is None or after is None or before is after:
            return []
        return find_incompatibilities(before, after, self._mode, format_version=new.get("format-version", _ALWAYS))
