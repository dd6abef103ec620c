"""For each operation, the boundaries of its schemas: missing values, too many, too large, of another type."""

from __future__ import annotations

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

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(1_800 if IS_LONG else 120)]

MOST = 100_000 if IS_LONG else 16
"""Cases of an operation that are spread over all of them; the first case of each kind is sent in any case."""

MAX_GENERATED = 1_500_000 if IS_LONG else 1_200
"""Eight operations have more, with bodies of many members."""

MAX_UNSERVED = 10
"""Of an operation that this server does not have: each gets the same 404."""


def boundaries(operation: APIOperation) -> list[Case]:
    """Return cases of each kind that the operation has."""
    schema, is_served = operation.schema, serves(operation)
    modes = list(GenerationMode)
    found = schema.iter_coverage_cases(operation, generation_modes=modes, generation_config=schema.config.generation)
    cases = list(islice(found, MAX_GENERATED if is_served else MAX_UNSERVED * 15))
    firsts = {kind_of(cases[number]): number for number in reversed(range(len(cases)))} if is_served else {}
    step = max(1, -(-len(cases) // (MOST if is_served else MAX_UNSERVED)))
    return [cases[number] for number in sorted({*firsts.values(), *range(0, len(cases), step)})]


def kind_of(case: Case) -> tuple[object, ...]:
    """Valid or not, where, the name of the parameter or the type of the body, and what is done to it."""
    assert case.meta is not None
    boundary = case.meta.phase.data
    assert isinstance(boundary, CoveragePhaseData)
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
