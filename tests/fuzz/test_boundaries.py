"""For each operation, the boundaries of its schemas: missing values, too many, too large, of another type."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import pytest
from schemathesis import Case, GenerationMode
from schemathesis.generation.meta import CoveragePhaseData
from schemathesis.schemas import APIOperation

from tests.conftest import IS_LONG
from tests.fuzz.document_fixtures import NAMES, operations, serves
from tests.fuzz.request_fixtures import send
from tests.fuzz.response_fixtures import ResponseChecker
from tests.fuzz.target_fixtures import A_MISS, Aim, World

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(1_800 if IS_LONG else 600)]

MOST = 100_000 if IS_LONG else 50
"""An operation with at most so many cases gets them all; of more, those that are `chosen`."""

MAX_GENERATED = 1_500_000 if IS_LONG else 1_200
"""Some operations, with bodies of many members, have more cases, which are left out."""

MAX_UNSERVED = 10
"""Of an operation that this server does not have: each gets the same 404."""


def boundaries(operation: APIOperation) -> list[Case]:
    """Return, of the first `MAX_GENERATED` cases of an operation, all or those that are `chosen`.

    If the operation is not served, they are at most `MAX_UNSERVED`.
    """
    schema, is_served = operation.schema, serves(operation)
    modes = list(GenerationMode)
    found = schema.iter_coverage_cases(operation, generation_modes=modes, generation_config=schema.config.generation)
    cases = list(islice(found, MAX_GENERATED if is_served else MAX_UNSERVED * 15))
    if is_served and len(cases) > MOST:
        return [cases[number] for number in chosen(cases)]
    return [cases[number] for number in spread(range(len(cases)), MOST if is_served else MAX_UNSERVED)]


def chosen(cases: list[Case]) -> list[int]:
    """Return the numbers of the first case of each kind and of `MOST` more: of many kinds and members, then of any."""
    backwards = list(reversed(list(enumerate(cases))))
    kinds = {kind_of(case): number for number, case in backwards}
    # The kind has only the media type of a body; the location is the path of a member in its schema.
    members = {(kind_of(case), boundary_of(case).location): number for number, case in backwards}
    of_members = spread(sorted(members.values()), MOST)
    others = spread(range(len(cases)), MOST - len(of_members))
    return sorted({*kinds.values(), *of_members, *others})


def spread(numbers: Sequence[int], most: int) -> list[int]:
    """Return at most so many of the numbers, at even distances."""
    count = min(most, len(numbers))
    return [numbers[position * len(numbers) // count] for position in range(count)]


def boundary_of(case: Case) -> CoveragePhaseData:
    assert case.meta is not None
    assert isinstance(case.meta.phase.data, CoveragePhaseData)
    return case.meta.phase.data


def kind_of(case: Case) -> tuple[object, ...]:
    """Valid or not, where, the name of the parameter or the type of the body, and what is done to it."""
    assert case.meta is not None
    boundary = boundary_of(case)
    return case.meta.generation.mode, boundary.parameter_location, boundary.parameter, boundary.scenario


@pytest.mark.parametrize(
    "operation", [pytest.param(each, id=f"{name}-{each.label}") for name in NAMES for each in operations(name)]
)
def test_every_boundary_behaves_as_promised(operation: APIOperation, world: World, checker: ResponseChecker) -> None:
    cases = boundaries(operation)
    assert cases
    for number, case in enumerate(cases):
        with world.undone():
            checker.check(send(case, Aim(world, number)))
    # However few cases an operation has, its error for missing objects is covered.
    with world.undone():
        missed = send(cases[0], Aim(world, A_MISS))
        checker.check(missed)
    assert missed.response.status >= 400 or not cases[0].path_parameters, str(missed)
