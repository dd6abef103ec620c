"""Pattern matching of storage policies, implemented from the documentation of the stores."""

from __future__ import annotations

import json
import re
from typing import Any

_AWS = re.compile(r"\$\{([^}]*)\}|([*?])|(.)", re.DOTALL)


def aws_matches(pattern: str, text: str) -> bool:
    """Match as AWS: `*` and `?` are wildcards, `${*}`, `${?}` and `${$}` the literal characters; other variables raise.

    https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_variables.html#policy-vars-specialchars
    """
    parts = []
    for variable, wildcard, literal in _AWS.findall(pattern):
        if wildcard:
            parts.append(".*" if wildcard == "*" else ".")
        elif literal:
            parts.append(re.escape(literal))
        else:
            assert variable in {"*", "?", "$"}, f"a variable in {pattern!r}"
            parts.append(re.escape(variable))
    return re.fullmatch("".join(parts), text, re.DOTALL) is not None


def plain_matches(pattern: str, text: str) -> bool:
    """Match as MinIO: `*` and `?` are wildcards, and no variable stands for a character."""
    parts = [{"*": ".*", "?": "."}.get(character, re.escape(character)) for character in pattern]
    return re.fullmatch("".join(parts), text, re.DOTALL) is not None


def statement(policy: str, action: str) -> dict[str, Any]:
    """Return the only statement of a policy that allows `action`."""
    found = [each for each in json.loads(policy)["Statement"] if action in _list(each["Action"])]
    assert len(found) == 1
    assert found[0]["Effect"] == "Allow"
    return found[0]


def actions(policy: str) -> set[str]:
    """Return every action that a policy allows on some resource."""
    statements = json.loads(policy)["Statement"]
    return {action for each in statements if each["Effect"] == "Allow" for action in _list(each["Action"])}


def denied(policy: str) -> list[str]:
    """Return the resources on which a policy denies every action."""
    found = [each for each in json.loads(policy)["Statement"] if each["Effect"] == "Deny"]
    assert [each["Action"] for each in found] == ["s3:*"]
    return _list(found[0]["Resource"])


def _list(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value
