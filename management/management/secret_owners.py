"""The owners of secrets in the output of commands."""

from __future__ import annotations

from storage.secrets.owners import SecretOwner


def describe_owner(owner: SecretOwner) -> dict[str, str]:
    return {"type": owner.type, "id": str(owner.id), "name": owner.name}
