"""For each operation, the boundaries of its schemas: missing values, too many, too large, of another type."""

from __future__ import annotations

from itertools import islice

import pytest
from schemathesis import Case, GenerationMode
from schemathesis.schemas import APIOperation

from tests.conftest import IS_LONG
from tests.fuzz.document_fixtures import NAMES, operations, serves
from tests.fuzz.request_fixtures import send
from tests.fuzz.response_fixtures import ResponseChecker
from tests.fuzz.target_fixtures import A_MISS, Aim, World

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(1_800 if IS_LONG else 120)]

MOST = 100_000 if IS_LONG else 80
"""Maximum of cases per operation; of more, every second, third, ... is sent, which still covers all parameters."""

MAX_UNSERVED = 10
"""Of an operation that this server does not have: each gets the same 404."""


def boundaries(operation: APIOperation) -> list[Case]:
    schema = operation.schema
    modes = list(GenerationMode)
    found = schema.iter_coverage_cases(operation, generation_modes=modes, generation_config=schema.config.generation)
    most = MOST if serves(operation) else MAX_UNSERVED
    cases = list(islice(found, 15 * most))
    step = max(1, -(-len(cases) // most))
    return cases[::step]


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
