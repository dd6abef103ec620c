"""Invalid input: documents with one defect, and updates with arbitrary members."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from hypothesis import strategies as st


def locations(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Return the paths of all values inside a document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [location for key, part in inner for location in ((*path, key), *locations(part, (*path, key)))]


WRONG_VALUES: list[Any] = [None, True, -1, 0, 7, 2**31, 2**63, 1.5, "", "x", "main", [], [1], [{}], {}, {"a": 1}]


@st.composite
def damaged(draw: st.DrawFn, documents: st.SearchStrategy[Any]) -> tuple[str, Any]:
    """Return a document with one defect (or difference), and a description of it."""
    document = copy.deepcopy(draw(documents))
    location = draw(st.sampled_from(locations(document)))
    owner = document
    for key in location[:-1]:
        owner = owner[key]
    kind = draw(st.sampled_from(["drop", "replace", "replace", "repeat", "shift"]))
    old = owner[location[-1]]
    if kind == "drop":
        del owner[location[-1]]
    elif kind == "repeat" and isinstance(owner, list):
        owner.append(copy.deepcopy(old))
    elif kind == "shift" and type(old) is int:
        owner[location[-1]] = old + draw(st.sampled_from([-100_000, -1, 1, 100_000]))
    else:
        kind = "replace"
        owner[location[-1]] = copy.deepcopy(draw(st.sampled_from(WRONG_VALUES)))
    return f"{kind} {'.'.join(map(str, location))}", document


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def nonsense(actions: Iterable[str], fields: list[str]) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Return updates of these actions, with arbitrary JSON in some of these fields."""
    return st.lists(
        st.fixed_dictionaries({"action": st.sampled_from(sorted(actions))}).flatmap(
            lambda update: st.dictionaries(st.sampled_from(fields), JSON).map(lambda rest: {**update, **rest})
        ),
        max_size=3,
    )
