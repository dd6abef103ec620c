"""Our management API includes Lakekeeper's, except for the differences listed in docs/compatibility.md."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from tests.harness.openapi_documents import built_document
from tests.management.api_digest import Body, Digest, Operation, digest, read_lakekeeper

OF_HEALTH = {"authentication", "jobs"}
"""Members of `/health`, which the documents do not have."""
PAGE = Path(__file__).resolve().parents[2] / "docs" / "compatibility.md"


@cache
def ours() -> Digest:
    return digest(built_document("management").content)


@cache
def lakekeeper() -> Digest:
    return read_lakekeeper()


def section(title: str) -> str:
    """Return the text below the heading `title`, up to the next heading of the same or a higher level."""
    found = re.search(rf"^(#+) {re.escape(title)}\n(.*?)(?=^#{{1,3}} |\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert found, f"{PAGE.name} has no heading {title!r}"
    return found[2]


def rows(text: str) -> list[list[str]]:
    """Return the cells of a table, without its head."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def differences(theirs: Operation, here: Operation) -> set[str]:
    """Return what a client of `theirs` misses or does not expect in `ours`."""
    found = {f"no {name}" for name in set(theirs.parameters) - set(here.parameters)}
    found |= lacks("request", theirs.request, here.request)
    found |= {f"request wants {path}" for path in set(here.request.required) - set(theirs.request.required)}
    found |= {f"request {path} is never {kind}" for path, kind in kinds_beyond(theirs.request, here.request)}
    for path, defaults in theirs.request.defaults.items():
        if path in here.request.members and here.request.defaults.get(path) != defaults:
            found.add(f"request {path} is not {defaults[0]} by default")
    for status, body in theirs.responses.items():
        if status not in here.responses:
            found.add(f"no {status}")
            continue
        response = here.responses[status]
        found |= lacks(status, body, response)
        found |= {
            f"{status} {path} may be {value}"
            for path, values in body.members.items()
            for value in set(response.members.get(path, [])) - set(values)
            if values
        }
        found |= {f"{status} {path} may be {kind}" for path, kind in kinds_beyond(response, body)}
        promised = set(body.required) & set(response.members)
        found |= {f"{status} may be without {path}" for path in promised - set(response.required)}
    return found


def kinds_beyond(wide: Body, narrow: Body) -> set[tuple[str, str]]:
    """Return the JSON types, with null, that a common member has in `wide` only."""
    return {
        (path, kind)
        for path in wide.members.keys() & narrow.members.keys()
        if narrow.types.get(path)
        for kind in wide.types.get(path) or ["of any type"]
        if kind not in narrow.types[path]
    }


def lacks(where: str, theirs: Body, here: Body) -> set[str]:
    found = {f"{where} has no {path}" for path in set(theirs.members) - set(here.members)}
    for path, values in theirs.members.items():
        known = here.members.get(path)
        if known:
            found |= {f"{where} {path} is never {value}" for value in set(values) - set(known)}
    return found


def test_every_route_exists() -> None:
    assert not lakekeeper().keys() - ours().keys()


def test_the_page_lists_exactly_the_differences_of_served_operations() -> None:
    found = {
        f"{name}: {difference}"
        for name in lakekeeper().keys() & ours().keys()
        for difference in differences(lakekeeper()[name], ours()[name])
    }
    named = {f"{route.strip('`')}: {difference.strip('`')}" for route, difference, _ in rows(section("Fields"))}
    assert sorted(found) == sorted(re.sub("{[^}]*}", "{}", each) for each in named)


def test_the_page_names_exactly_the_members_that_lakekeeper_does_not_return() -> None:
    """Of nested members, only the outermost is listed."""
    found = {
        path.rpartition(".")[2]
        for name in lakekeeper().keys() & ours().keys()
        for status, body in lakekeeper()[name].responses.items()
        for path in ours()[name].responses[status].members.keys() - body.members.keys()
        if path.rpartition(".")[0].removesuffix("[]") in {"", *body.members}
    }
    named = {
        member.strip("`")
        for row in rows(section("Members that Lakekeeper does not return"))
        for member in row[0].split(", ")
    }
    assert found | OF_HEALTH == named
