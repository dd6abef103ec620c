"""`filter_visible`: the rows of objects that an actor may see, without a permission check an object."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet

from tenancy.actor import Actor
from tenancy.authz import port
from tenancy.authz.actions import SEEN_BY, Can
from tenancy.authz.permissions import standing_right
from tenancy.models import Securable
from tenancy.refs import ObjectRef


def filter_visible(rows: QuerySet[Any], actor: Actor, securable_type: Securable.Type) -> QuerySet[Any]:
    """Return those of the rows, of objects of a type by their primary key, that `actor` may see.

    The built-in backend adds a condition to the query, after one statement for the actor's roles if they are not
    cached. Other backends read the primary keys in one statement and decide all of them in one call.
    """
    action = SEEN_BY.get(securable_type, Can.GET_METADATA)
    standing = standing_right(actor, action, ObjectRef(securable_type, port.NO_OBJECT))
    if standing is not None:
        return rows if standing else rows.none()
    return port.authorizer().filter_visible(actor, rows, securable_type, action)
