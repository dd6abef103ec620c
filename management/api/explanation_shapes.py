"""Explanations of rights on the wire: what is asked for, and what is told."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from icekeeper.kernel.http.serializers import KebabSerializer, Text
from management.api.permission_questions import PermissionQuestion, operation_shape
from management.api.principals import GrantPrincipal
from management.api.serializers import resource_type
from tenancy.authz.action_names import ACTION_NAMES
from tenancy.authz.builtin.role_paths import Entry
from tenancy.authz.explanation import ALLOWALL
from tenancy.authz.permissions import Standing
from tenancy.models import Securable
from tenancy.selectors.explanations import Explained, VisibleGrant, VisibleStep
from tenancy.selectors.objects import NamedObject

T = Securable.Type
STANDING = [ALLOWALL, Standing.BLOCKED.value, Standing.EVERYBODY.value, Standing.INSTANCE_ADMIN.value]


class ExplainRequest(PermissionQuestion):
    operation = operation_shape(
        ACTION_NAMES,
        name="ExplainOperation",
        of_type="Explain",
        told="In the words of permissions/check or batch-check",
    )


class ExplainedObject(KebabSerializer):
    type = serializers.ChoiceField([resource_type(each) for each in ACTION_NAMES])
    id = Text(help_text="As clients know it")
    warehouse_id = serializers.UUIDField(required=False, help_text="Of what is in one")
    namespace = serializers.ListField(
        child=Text(), required=False, help_text="The levels of a namespace, or of the one that a table or view is in"
    )
    name = Text(required=False, help_text="Of a project, a warehouse, a table, a view, a role or a tag")


class ExplainedMembership(KebabSerializer):
    role = serializers.UUIDField()
    name = Text()
    entry = serializers.ChoiceField(
        [each.value for each in Entry],
        help_text="How whoever is in the role before this one (before the first: who is asked about) came into it",
    )
    expires_at = serializers.DateTimeField(required=False, help_text="The membership's end, absent when it has none")


class ExplainedGrant(KebabSerializer):
    privilege = Text()
    principal = GrantPrincipal(help_text="To whom it is granted")
    through = ExplainedMembership(
        many=True,
        required=False,
        help_text="The memberships that lead to the principal, the nearest first; empty for a grant to the user, "
        "absent where the caller may not read who is in these roles",
    )
    expires_at = serializers.DateTimeField(required=False, help_text="The grant's end, absent when it has none")


class ExplainedStep(KebabSerializer):
    withheld = serializers.BooleanField(
        help_text="True: here stand steps on objects on which the caller may not read grants; nothing else is told"
    )
    relation = Text(required=False, help_text="A privilege, or `can_` and an action, in the words of the rights model")
    object = ExplainedObject(required=False)
    grant = ExplainedGrant(required=False, help_text="Absent where the step follows from those before")


class ExplainedCure(KebabSerializer):
    privilege = Text()
    object = ExplainedObject()


class ExplainResponse(KebabSerializer):
    allowed = serializers.BooleanField(help_text="What `permissions/check` answers")
    by_grants = serializers.BooleanField(
        help_text="Whether what is granted allows it. Other than `allowed` where `standing` says why; while OpenFGA "
        "has not been told of a change; and where a backend of another making decides"
    )
    standing = serializers.ChoiceField(
        STANDING,
        required=False,
        help_text="What settles it whatever is granted: a server that refuses nobody, a user who is locked out, what "
        "everybody may, an instance admin",
    )
    chain = ExplainedStep(
        many=True, help_text="Where grants allow it: the shortest way from a grant to the action, in its order"
    )
    cures = ExplainedCure(
        many=True,
        help_text="Where grants do not: those any one of which would, the nearest and weakest first, at most 50, on "
        "the object and above it",
    )


def explanation_json(explained: Explained) -> dict[str, Any]:
    return {
        "allowed": explained.is_allowed,
        "by-grants": explained.is_by_grants,
        **({} if explained.standing is None else {"standing": explained.standing}),
        "chain": [{"withheld": True} if step is None else _step_json(step) for step in explained.chain],
        "cures": [{"privilege": each.privilege, "object": _object_json(each.object)} for each in explained.cures],
    }


def _step_json(step: VisibleStep) -> dict[str, Any]:
    told = {"withheld": False, "relation": step.relation, "object": _object_json(step.object)}
    return told if step.grant is None else told | {"grant": _grant_json(step.grant)}


def _grant_json(grant: VisibleGrant) -> dict[str, Any]:
    grantee = grant.grantee
    told: dict[str, Any] = {
        "privilege": grant.privilege,
        "principal": {"user": grantee.user_id} if grantee.role_id is None else {"role": str(grantee.role_id)},
    }
    if grant.through is not None:
        told["through"] = [
            {
                "role": str(each.role_id),
                "name": each.role_name,
                "entry": each.entry.value,
                **({} if each.expires_at is None else {"expires-at": each.expires_at}),
            }
            for each in grant.through
        ]
    return told if grant.expires_at is None else told | {"expires-at": grant.expires_at}


def _object_json(named: NamedObject) -> dict[str, Any]:
    told: dict[str, Any] = {"type": resource_type(named.securable_type), "id": named.object_id}
    if named.warehouse_id is not None:
        told["warehouse-id"] = named.warehouse_id
    if named.levels:
        told["namespace"] = list(named.levels)
    return told if named.name is None else told | {"name": named.name}
