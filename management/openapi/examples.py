"""Examples in the OpenAPI documents: requests to this server and its responses, as tests recorded them.

Optional parameters have examples in read operations only: pages such as Swagger UI fill examples into the request, and
a user should not send `force=true` or a recorded idempotency key by accident.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any, Final, TypedDict

FOLDER: Final = Path(__file__).parent / "recorded"
READS: Final = ("get", "head")


class Exchange(TypedDict):
    """One request and its response; a body of null means none. `summary` is unique within an operation."""

    summary: str | None
    parameters: dict[str, Any]
    request: Any
    status: int
    response: Any


Exchanges = dict[str, list[Exchange]]
"""By operation id."""


def read_exchanges(name: str) -> Exchanges:
    """Return what was recorded for the document `name`."""
    exchanges: Exchanges = json.loads((FOLDER / f"{name}.json").read_text())
    return exchanges


def add_examples(content: dict[str, Any], exchanges: Exchanges) -> list[str]:
    """Put the examples into the document `content`. Returns what has none, and those that belong nowhere."""
    complaints, ids = [], set()
    for item in content["paths"].values():
        for method, operation in item.items():
            operation_id = operation["operationId"]
            ids.add(operation_id)
            own = exchanges.get(operation_id, [])
            _show_parameters(operation, own, is_read=method in READS)
            _show_bodies(operation, own)
            complaints += [f"{operation_id}: {complaint}" for complaint in _complaints_about(operation, own)]
    _show_errors(content, exchanges)
    return complaints + [f"{unknown}: examples of an unknown operation" for unknown in exchanges.keys() - ids]


def _show_parameters(operation: dict[str, Any], exchanges: list[Exchange], *, is_read: bool) -> None:
    for parameter in operation.get("parameters", []):
        name = parameter["name"]
        used = [each["parameters"][name] for each in exchanges if name in each["parameters"]]
        if used and (is_read or parameter.get("required")):
            parameter["example"] = used[0]


def _show_bodies(operation: dict[str, Any], exchanges: list[Exchange]) -> None:
    """Show failed requests only if no request of the operation succeeded."""
    succeeded = [each for each in exchanges if not _is_error(each)] or exchanges
    _show(operation.get("requestBody"), {_title(each): each["request"] for each in succeeded})
    for status, response in operation["responses"].items():
        own = [each for each in exchanges if str(each["status"]) == status]
        _show(response, {_title(each): each["response"] for each in own})


def _show(body: dict[str, Any] | None, values: dict[str, Any]) -> None:
    """Values by their titles as the example or the examples of a body, in each of its media types.

    A body that is plain text, such as CSV, keeps its own example.
    """
    for media in (body or {}).get("content", {}).values():
        if media["schema"].get("type") == "string" and "examples" in media:
            continue
        if len(values) == 1:
            media["example"] = next(iter(values.values()))
        elif values:
            media["examples"] = {_key(title): {"summary": title, "value": value} for title, value in values.items()}


def _show_errors(content: dict[str, Any], exchanges: Exchanges) -> None:
    """Use the first recorded error as the example of each error schema."""
    for item in content["paths"].values():
        for operation in item.values():
            for error in filter(_is_error, exchanges.get(operation["operationId"], [])):
                response = operation["responses"].get(str(error["status"]), {})
                for media in response.get("content", {}).values():
                    shape = content["components"]["schemas"][media["schema"]["$ref"].rpartition("/")[2]]
                    shape.setdefault("example", error["response"])


def _complaints_about(operation: dict[str, Any], exchanges: list[Exchange]) -> list[str]:
    responses = operation["responses"]
    complaints = [
        f"no example of the parameter {parameter['name']}"
        for parameter in operation.get("parameters", [])
        if parameter.get("required") and "example" not in parameter
    ]
    if _lacks_example(operation.get("requestBody")):
        complaints.append("no example of the request")
    complaints += [
        f"no example of the response {status}"
        for status, response in responses.items()
        if status < "4" and _lacks_example(response)
    ]
    complaints += [
        f"an example of the response {each['status']}, which is not described"
        for each in exchanges
        if str(each["status"]) not in responses
    ]
    titles = Counter((each["status"], _title(each)) for each in exchanges)
    return complaints + [
        f"{count} examples of the response {status} are called {title!r}"
        for (status, title), count in titles.items()
        if count > 1
    ]


def _lacks_example(body: dict[str, Any] | None) -> bool:
    return any({"example", "examples"}.isdisjoint(media) for media in (body or {}).get("content", {}).values())


def _is_error(exchange: Exchange) -> bool:
    return exchange["status"] >= 400  # noqa: PLR2004


def _title(exchange: Exchange) -> str:
    return exchange["summary"] or ""


def _key(title: str) -> str:
    """The name of an example, from its title: `On S3, with a role` is `on-s3-with-a-role`."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
