"""The kind `required-properties`: objects have certain properties, with values of certain forms.

Commits that do not touch a property are not rejected for it: a new rule does not stop writers of existing tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from catalog.services.approval.configuration import Patterns, RuleConfiguration, RuleSettings, read_configuration
from catalog.services.approval.patterns import compile_patterns, describe_patterns
from catalog.services.approval.port import ContractVerifier, ProposedChange
from tenancy.models import Securable

_NONE: Final[Mapping[str, str]] = {}


class RequiredPropertiesConfiguration(RuleConfiguration):
    properties: Annotated[
        dict[Annotated[str, Field(min_length=1, max_length=256)], Patterns | None],
        Field(
            min_length=1,
            max_length=50,
            description="Names, each with patterns of which the value must match one, or null for any value",
        ),
    ]
    objects: Annotated[
        list[Literal["table", "view", "generic-table", "namespace"]],
        Field(min_length=1, max_length=4, description="Types of objects that need them; default: tables"),
    ] = ["table"]


class RequiredProperties(ContractVerifier):
    configuration = RequiredPropertiesConfiguration

    def __init__(self, settings: RuleSettings) -> None:
        given = read_configuration(self.configuration, settings.configuration)
        self._types = frozenset(Securable.Type(each) for each in given.objects)
        self._required = {
            name: None if patterns is None else compile_patterns(patterns)
            for name, patterns in given.properties.items()
        }
        self._described = {
            name: describe_patterns(patterns) for name, patterns in given.properties.items() if patterns is not None
        }

    def find_violations(self, change: ProposedChange) -> Iterable[str]:
        new: Any = change.proposed
        if change.object_type not in self._types or new is None:
            return
        after = new.get("properties") or _NONE
        before = None if change.current is None else change.current.get("properties") or _NONE
        if before is after:
            return
        for name, is_valid in self._required.items():
            value = after.get(name)
            if before is not None and before.get(name) == value:
                continue
            if value is None:
                yield f"the property {name!r} is required"
            elif is_valid is not None and not is_valid(value):
                yield f"the value of the property {name!r} must match {self._described[name]}"
