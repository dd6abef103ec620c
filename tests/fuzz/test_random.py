"""Random requests, valid and invalid by the documents: each operation alone, and sequences of all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode
from schemathesis.schemas import APIOperation

from tests.conftest import IS_LONG, RUN
from tests.fuzz.document_fixtures import NAMES, SPECIFICATION, operations, serves
from tests.fuzz.object_id_fixtures import locations_after
from tests.fuzz.request_fixtures import send
from tests.fuzz.response_fixtures import ResponseChecker
from tests.fuzz.target_fixtures import Aim, World

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(1_800 if IS_LONG else 600)]

AIMS = st.integers(0, 2**16)
DOCUMENTS = [name for name in NAMES if IS_LONG or name != "catalog"]
"""Our own document of the catalog has the routes of the specification: it gets its random requests in long runs."""


def examples(short: int, long: int) -> Callable[[Any], Any]:
    """The number of random examples: fixed in short runs, different ones for each database, new ones in a long run."""

    def decorate(test: Any) -> Any:
        bounded = settings(
            max_examples=long if IS_LONG else short,
            deadline=None,
            database=None,
            phases=[Phase.generate, Phase.shrink] if IS_LONG else [Phase.generate],
            suppress_health_check=list(HealthCheck),
        )(test)
        return bounded if IS_LONG else seed(RUN.database)(bounded)

    return decorate


def cases(operation: APIOperation) -> st.SearchStrategy[Case]:
    return st.one_of(*(operation.as_strategy(generation_mode=mode) for mode in GenerationMode))


@pytest.mark.parametrize(
    "operation",
    [
        pytest.param(each, id=f"{name}-{each.label}")
        for name in DOCUMENTS
        for each in operations(name)
        if IS_LONG or serves(each)
    ],
)
def test_every_request_is_handled_as_promised(operation: APIOperation, world: World, checker: ResponseChecker) -> None:
    @examples(8, 300)
    @given(case=cases(operation), aim=AIMS)
    def exchange(case: Case, aim: int) -> None:
        with world.undone():
            checker.check(send(case, Aim(world, aim)))

    exchange()


@pytest.mark.parametrize("name", [SPECIFICATION, "management"])
def test_histories_behave_as_promised(name: str, world: World) -> None:
    """Each request meets the state that the earlier ones left: taken names, dropped tables, used keys."""
    served = [each for each in operations(name) if serves(each)]
    step = st.sampled_from(served).flatmap(lambda operation: st.tuples(cases(operation), AIMS))

    @examples(5, 100)
    @given(steps=st.lists(step, min_size=10, max_size=20))
    def live_through(steps: list[tuple[Case, int]]) -> None:
        with world.undone():
            checker, locations = ResponseChecker(world), world.locations
            for case, aim in steps:
                exchange = send(case, Aim(world, aim, locations))
                checker.check_and_follow(exchange)
                locations = locations_after(locations, f"{exchange.method} {exchange.path}", exchange.response)

    live_through()
