"""The kind `http-hook`: a server of the operator decides about each change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC
from typing import Annotated, Any, ClassVar, Final

from pydantic import Field

from catalog.iceberg.metadata_diff import hide_secret_values
from catalog.services.approval.configuration import InvalidRule, RuleConfiguration, RuleSettings, read_configuration
from catalog.services.approval.hook_client import ask, receiver_of
from catalog.services.approval.port import ContractVerifier, Metadata, ProposedChange
from icekeeper.kernel.clock import now
from icekeeper.kernel.ids import new_id
from icekeeper.kernel.json.strict import write_json
from icekeeper.kernel.request_context import current_context
from storage.documents import Address
from storage.network.endpoints import require_valid_address
from tenancy.audit.recording import actor_name

EVENT_TYPE: Final = "io.icekeeper.change-proposed.v1"
SOURCE: Final = "uri:icekeeper:change-rule:"

MAX_BODY_BYTES: Final = 8 * 1024 * 1024
"""Of a question; in a larger one the metadata, then the updates and the diff are left out."""

MAX_TIMEOUT_SECONDS: Final = 10.0


class HttpHookConfiguration(RuleConfiguration):
    url: Annotated[Address, Field(description="http or https, without user, query and fragment")]
    timeout_seconds: float = Field(2.0, ge=0.1, le=MAX_TIMEOUT_SECONDS, description="Time for the response")
    include_metadata: bool = Field(default=False, description="Also send the current and the proposed metadata")


class HttpHook(ContractVerifier):
    configuration = HttpHookConfiguration
    is_remote: ClassVar[bool] = True

    def __init__(self, settings: RuleSettings) -> None:
        given = read_configuration(self.configuration, settings.configuration)
        if given.url is None:
            raise InvalidRule("configuration.url: is required", field="configuration.url")
        self._url, self._timeout, self._includes_metadata = given.url, given.timeout_seconds, given.include_metadata
        self._settings = settings

    def require_valid(self) -> None:
        """Check the address before the rule is stored. Raises `EndpointNotPermitted` (400)."""
        require_valid_address(self._url, "configuration.url")

    def find_violations(self, change: ProposedChange) -> Iterable[str]:
        rule, message_id = self._settings, str(new_id())
        reason = ask(
            self._url, self._write_question(change, message_id), message_id=message_id, secret_id=rule.secret_id,
            timeout=self._timeout, receiver=receiver_of(rule.rule_id, rule.version, rule.purpose),
        )  # fmt: skip
        return [] if reason is None else [reason]

    def _write_question(self, change: ProposedChange, message_id: str) -> bytes:
        """Return a CloudEvent in structured mode."""
        data = describe_change(change) | {"rule": {"id": self._settings.rule_id, "name": self._settings.name}}
        if self._includes_metadata:
            data |= {
                "current-metadata": _hide_secrets(change.current),
                "proposed-metadata": _hide_secrets(change.proposed),
            }
        event = {
            "specversion": "1.0",
            "id": message_id,
            "source": f"{SOURCE}{self._settings.rule_id}",
            "type": EVENT_TYPE,
            "time": now().astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "datacontenttype": "application/json",
            "subject": str(change),
            "data": data,
        }
        body = write_json(event)
        left_out = []
        for member in ("proposed-metadata", "current-metadata", "updates", "diff"):
            if len(body) <= MAX_BODY_BYTES:
                break
            if data.pop(member, None) is not None:
                left_out.append(member)
                data["left-out"] = left_out
                body = write_json(event)
        return body


def describe_change(change: ProposedChange) -> dict[str, Any]:
    """Return a proposed change as JSON, without its metadata; members that do not apply are absent."""
    request_id = current_context().request_id
    data: dict[str, Any] = {
        "action": change.action.value,
        "object-type": change.object_type.value,
        "actor": {"user": actor_name(change.actor), "role": change.actor.assumed_role},
        "project-id": change.project_id,
        "warehouse-id": change.warehouse_id,
        "namespace": list(change.levels),
        "name": change.name,
        "id": change.uuid if change.uuid is not None else change.object_id,
        "request-id": None if request_id is None else request_id.text,
        "diff": change.diff or None,
        "updates": [_hide_secrets_of_update(each) for each in change.updates] or None,
    }
    if change.destination is not None:
        levels, name = change.destination
        data["destination"] = {"namespace": list(levels)} | ({} if name is None else {"name": name})
    if change.content_count:
        data["contents"] = {"count": change.content_count, "first": list(change.contents)}
    return {member: value for member, value in data.items() if value is not None}


def _hide_secrets(metadata: Metadata | None) -> Metadata | None:
    """Return metadata with hidden values of its properties."""
    if metadata is None:
        return None
    shown = dict(metadata)
    if isinstance(properties := metadata.get("properties"), Mapping):
        shown["properties"] = hide_secret_values(properties)
    return shown


def _hide_secrets_of_update(update: Any) -> Any:
    """Return an update of a commit; of `set-properties` with hidden values, also under the name of old clients."""
    if not isinstance(update, Mapping) or update.get("action") != "set-properties":
        return update
    return {
        member: hide_secret_values(value) if isinstance(value, Mapping) else value for member, value in update.items()
    }
