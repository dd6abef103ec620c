"""The kinds of rules, by the names of the API."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from catalog.services.approval.configuration import InvalidRule, RuleConfiguration, RuleSettings
from catalog.services.approval.kinds.http_hook import HttpHook
from catalog.services.approval.kinds.naming import Naming
from catalog.services.approval.kinds.protected_tags import Protected
from catalog.services.approval.kinds.required_properties import RequiredProperties
from catalog.services.approval.kinds.retention_floor import RetentionFloor
from catalog.services.approval.kinds.schema_compatibility import SchemaCompatibility
from catalog.services.approval.port import ContractVerifier

Verifier = HttpHook | Naming | Protected | RequiredProperties | RetentionFloor | SchemaCompatibility


@dataclass(frozen=True, slots=True)
class RuleKind:
    """`has_secret`: rules of this kind may have a secret."""

    verifier: type[Verifier]
    description: str
    has_secret: bool = False

    @property
    def configuration(self) -> type[RuleConfiguration]:
        return self.verifier.configuration

    def build(self, settings: RuleSettings) -> ContractVerifier:
        """Raises `InvalidRule` (400)."""
        return self.verifier(settings)


RULE_KINDS: Final[dict[str, RuleKind]] = {
    "http-hook": RuleKind(HttpHook, "Your own server decides about each change", has_secret=True),
    "naming": RuleKind(Naming, "Names of objects and columns match patterns"),
    "protected": RuleKind(Protected, "Objects and columns with a tag are not dropped or renamed"),
    "required-properties": RuleKind(RequiredProperties, "Objects have certain properties"),
    "retention-floor": RuleKind(RetentionFloor, "Young and last snapshots are kept"),
    "schema-compatibility": RuleKind(SchemaCompatibility, "New schemas are compatible with the current one"),
}


def require_kind(name: str) -> RuleKind:
    """Raises `InvalidRule` (400) for an unknown kind."""
    found = RULE_KINDS.get(name)
    if found is None:
        raise InvalidRule(f"kind: must be one of {', '.join(RULE_KINDS)}", field="kind")
    return found
