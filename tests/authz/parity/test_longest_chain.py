"""OpenFGA, which resolves about twenty steps, still decides for roles nested by ownership to the maximum depth."""

from __future__ import annotations

from itertools import pairwise

import pytest
from django.conf import settings

from tenancy.authz.actions import Can
from tenancy.models.securable import ObjectRef
from tests.authz.conftest import user
from tests.authz.parity.pair_fixtures import Pair, T, another_user, grant, member
from tests.authz.tree_fixtures import role

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(600)]


@pytest.mark.parametrize("is_circle", [False, True])
def test_owners_of_owners(pair: Pair, tree: dict[str, ObjectRef], is_circle: bool) -> None:
    """Rows from before cycles were rejected can contain a cycle; it has no effect on decisions."""
    alice, bob = user("alice"), user("bob")
    chain = [role(f"link {number}") for number in range(settings.ICEKEEPER.role.max_nesting_depth + 1)]
    for outer, inner in pairwise(chain):
        grant(ObjectRef(T.ROLE, outer.pk), "ownership", role_id=inner.pk)
    if is_circle:
        grant(ObjectRef(T.ROLE, chain[-1].pk), "ownership", role_id=chain[0].pk)
    member(chain[-1].pk, user_id=another_user(alice.user_id))
    another_user(bob.user_id)
    grant(tree["wh"], "select", role_id=chain[0].pk)
    pair.deliver()
    about = [tree["table"], tree["wh"], ObjectRef(T.ROLE, chain[0].pk)]
    assert pair.agreed(alice, about)[Can.READ_DATA, tree["table"]]
    assert not any(pair.agreed(bob, about).values())
