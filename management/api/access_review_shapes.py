"""Access reviews on the wire: as JSON, and as rows of CSV."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final

from rest_framework import serializers

from icekeeper.kernel.http.serializers import Flag, KebabSerializer, Text
from management.api.serializers import IdText, resource_type
from tenancy.authz.access_review import Rights, Source, instance_admins, standing_actions
from tenancy.authz.port import authorizer
from tenancy.models import Securable
from tenancy.selectors.access_reviews import Names, ObjectReviewChunk, ReachableChunk, SourceChunk
from tenancy.selectors.object_reviews import Principal
from tenancy.selectors.objects import NamedObject

T = Securable.Type
_TYPES: Final = [resource_type(each) for each in T if each is not T.USER]
LEVELS: Final = " / "
"""Between the parts of a name in CSV."""


class ReviewedObject(KebabSerializer):
    type = serializers.ChoiceField(_TYPES)
    id = Text(required=False, help_text="As clients know it. Absent where one may not know of the object")
    warehouse_id = IdText(required=False, help_text="Of what is in a warehouse, and of one")
    name = serializers.ListField(
        child=Text(), required=False, help_text="From the warehouse down; empty where it is hidden"
    )
    dropped = Flag(required=False, help_text="There, and true, of what was dropped and can be restored")


class ReviewedRole(KebabSerializer):
    id = IdText()
    name = Text()


class ReviewedGrant(KebabSerializer):
    privilege = Text(help_text="`assignee`: a membership of the role")
    on = ReviewedObject()
    via = ReviewedRole(many=True, help_text="Roles each of which is in the next; empty for what is granted directly")
    expires_at = serializers.DateTimeField(
        required=False, help_text="The end of the grant, or of the first of the memberships before it"
    )


class ReviewedPrincipal(KebabSerializer):
    type = serializers.ChoiceField(["user", "role"])
    id = Text()
    name = Text(allow_blank=True)
    blocked = Flag(required=False, help_text="There, and true, of users who are blocked: they may not come in")
    has_members_of_tokens = Flag(
        required=False,
        help_text="There, and true, of roles that tokens of an identity provider may bring, to users unknown",
    )


class PrincipalRights(KebabSerializer):
    principal = ReviewedPrincipal()
    privileges = serializers.ListField(child=Text(), help_text="All that hold, granted or following from others")
    actions = serializers.ListField(child=Text(), help_text="As `.../actions` names them")
    grants = ReviewedGrant(many=True, help_text="All of which something here follows")
    shown_from_below = Flag(help_text="Whether some of it is there only because something in the object can be seen")


class InstanceAdminRights(KebabSerializer):
    users = serializers.ListField(child=Text())
    actions = serializers.ListField(child=Text())


class ObjectReviewResponse(KebabSerializer):
    decided_by = Text(help_text="Who decides here: with `allowall` everybody may do everything, whatever is told here")
    object = ReviewedObject()
    principals = PrincipalRights(many=True)
    instance_admins = InstanceAdminRights(help_text="Whose rights are no grants; they are not among the principals")
    next_page_token = Text(required=False, help_text="Absent on the last page")


class ReachedBelow(KebabSerializer):
    type = serializers.ChoiceField(_TYPES)
    privileges = serializers.ListField(child=Text())


class PlaceRights(KebabSerializer):
    grant = ReviewedGrant()
    privileges = serializers.ListField(child=Text(), help_text="On the object, by this grant alone")
    actions = serializers.ListField(child=Text(), help_text="On the object, by this grant alone")
    below = ReachedBelow(many=True, help_text="What holds on all that lies in the object; empty when nothing does")


class PrincipalReviewResponse(KebabSerializer):
    decided_by = Text(help_text="Who decides here")
    is_instance_admin = Flag()
    places = PlaceRights(many=True)
    next_page_token = Text(required=False, help_text="Absent on the last page")


class ObjectRights(KebabSerializer):
    object = ReviewedObject()
    privileges = serializers.ListField(child=Text())
    actions = serializers.ListField(child=Text())
    grants = ReviewedGrant(many=True)
    shown_from_below = Flag()


class ReachedObjectsResponse(KebabSerializer):
    decided_by = Text(help_text="Who decides here")
    is_instance_admin = Flag()
    objects = ObjectRights(many=True)
    next_page_token = Text(required=False, help_text="Absent on the last page")


def object_review_json(part: ObjectReviewChunk, own_id: str, token: str | None) -> dict[str, Any]:
    kind = T(own_id.partition(":")[0])
    admins = {"users": list(instance_admins()), "actions": [each.value for each in standing_actions(kind)]}
    principals = [{"principal": _principal(who), **_rights(rights, part.names)} for who, rights in part.entries]
    told = {"object": _object(own_id, part.names), "principals": principals, "instance-admins": admins}
    return _paged(told, token)


def principal_review_json(part: SourceChunk, *, is_instance_admin: bool, token: str | None) -> dict[str, Any]:
    places = [
        {
            "grant": _grant(each.source, part.names),
            "privileges": list(each.effective.privileges),
            "actions": [action.value for action in each.effective.actions],
            "below": [
                {"type": resource_type(T(kind)), "privileges": list(privileges)} for kind, privileges in each.below
            ],
        }
        for each in part.entries
    ]
    return _paged({"is-instance-admin": is_instance_admin, "places": places}, token)


def reached_objects_json(part: ReachableChunk, *, is_instance_admin: bool, token: str | None) -> dict[str, Any]:
    objects = [
        {"object": _object(own_id, part.names), **_rights(rights, part.names)} for own_id, rights in part.entries
    ]
    return _paged({"is-instance-admin": is_instance_admin, "objects": objects}, token)


def _paged(told: dict[str, Any], token: str | None) -> dict[str, Any]:
    return {"decided-by": authorizer().name, **told, **({} if token is None else {"next-page-token": token})}


def _principal(who: Principal) -> dict[str, Any]:
    is_user = who.role_id is None
    told: dict[str, Any] = {"type": "user" if is_user else "role", "id": str(who.user_id if is_user else who.role_id)}
    told["name"] = who.name
    if who.is_blocked:
        told["blocked"] = True
    return told | ({"has-members-of-tokens": True} if who.has_members_of_tokens else {})


def _rights(rights: Rights, names: Names) -> dict[str, Any]:
    return {
        "privileges": list(rights.effective.privileges),
        "actions": [each.value for each in rights.effective.actions],
        "grants": [_grant(each, names) for each in rights.sources],
        "shown-from-below": rights.is_shown_from_below,
    }


def _grant(source: Source, names: Names) -> dict[str, Any]:
    via = [{"id": str(each), "name": names.roles.get(each, "")} for each in source.through]
    told = {"privilege": source.privilege, "on": _object(source.securable_id, names), "via": via}
    return told if source.expires_at is None else told | {"expires-at": source.expires_at}


def _object(own_id: str, names: Names) -> dict[str, Any]:
    known = names.objects.get(own_id)
    if known is None:
        return {"type": resource_type(T(own_id.partition(":")[0]))}
    told: dict[str, Any] = {"type": resource_type(known.securable_type), "id": known.object_id}
    if known.warehouse_id is not None:
        told["warehouse-id"] = known.warehouse_id
    told["name"] = list(known.path)
    return told | ({"dropped": True} if known.is_dropped else {})


_OBJECT: Final = ("object_type", "object_id", "warehouse_id", "object_name", "object_dropped")
_SOURCE: Final = (
    "granted_privilege", "granted_on_type", "granted_on_id", "granted_on_name", "via_role_ids", "via_role_names",
    "expires_at",
)  # fmt: skip
OBJECT_HEADER: Final = (
    *_OBJECT, "basis", "principal_type", "principal_id", "principal_name", "principal_blocked",
    "has_members_of_tokens", "privileges", "actions", *_SOURCE,
)  # fmt: skip
PLACES_HEADER: Final = (*_OBJECT, "privileges", "actions", "below", *_SOURCE)
REACHED_HEADER: Final = (*_OBJECT, "basis", "privileges", "actions", *_SOURCE)
GRANT, FROM_BELOW, STANDING = "grant", "shown-from-below", "instance-admin"
"""`basis` of a row: what the rights come from."""


def object_review_rows(parts: Iterable[ObjectReviewChunk], own_id: str) -> Iterator[Iterator[Sequence[object]]]:
    """A row for each principal and each grant of theirs; at the end one for each instance admin."""
    names = Names({}, {})
    for part in parts:
        names = part.names
        yield _principal_rows(part, own_id)
    kind = T(own_id.partition(":")[0])
    actions = " ".join(each.value for each in standing_actions(kind))
    here, blank = _object_cells(own_id, names), ("",) * len(_SOURCE)
    yield iter([(*here, STANDING, "user", each, "", "", "", "", actions, *blank) for each in instance_admins()])


def _principal_rows(part: ObjectReviewChunk, own_id: str) -> Iterator[Sequence[object]]:
    here = _object_cells(own_id, part.names)
    for who, rights in part.entries:
        is_user = who.role_id is None
        cells = (
            "user" if is_user else "role", who.user_id if is_user else who.role_id, who.name, _flag(who.is_blocked),
            _flag(who.has_members_of_tokens), *_words(rights),
        )  # fmt: skip
        for basis, source in _bases(rights, part.names):
            yield (*here, basis, *cells, *source)


def places_rows(parts: Iterable[SourceChunk]) -> Iterator[Iterator[Sequence[object]]]:
    """A row for each grant."""
    for part in parts:
        yield iter(
            [
                (
                    *_object_cells(each.source.securable_id, part.names),
                    " ".join(each.effective.privileges),
                    " ".join(action.value for action in each.effective.actions),
                    "; ".join(f"{resource_type(T(kind))}: {' '.join(below)}" for kind, below in each.below),
                    *_source_cells(each.source, part.names),
                )
                for each in part.entries
            ]
        )


def reached_rows(parts: Iterable[ReachableChunk]) -> Iterator[Iterator[Sequence[object]]]:
    """A row for each object and each grant of which something follows there."""
    for part in parts:
        yield iter(
            [
                (*_object_cells(own_id, part.names), basis, *_words(rights), *source)
                for own_id, rights in part.entries
                for basis, source in _bases(rights, part.names)
            ]
        )


def _bases(rights: Rights, names: Names) -> list[tuple[str, Sequence[object]]]:
    found: list[tuple[str, Sequence[object]]] = [(GRANT, _source_cells(each, names)) for each in rights.sources]
    return [*found, (FROM_BELOW, ("",) * len(_SOURCE))] if rights.is_shown_from_below else found


def _words(rights: Rights) -> tuple[str, str]:
    return " ".join(rights.effective.privileges), " ".join(each.value for each in rights.effective.actions)


def _object_cells(own_id: str, names: Names) -> Sequence[object]:
    known = names.objects.get(own_id, NamedObject(T(own_id.partition(":")[0]), ""))
    kind = resource_type(known.securable_type)
    return kind, known.object_id, known.warehouse_id, LEVELS.join(known.path), _flag(known.is_dropped)


def _source_cells(source: Source, names: Names) -> Sequence[object]:
    kind, own_id, _, name, _ = _object_cells(source.securable_id, names)
    ids = LEVELS.join(map(str, source.through))
    role_names = LEVELS.join(names.roles.get(each, "") for each in source.through)
    return source.privilege, kind, own_id, name, ids, role_names, _moment(source.expires_at)


def _flag(value: bool) -> str:  # noqa: FBT001 - a cell
    return "true" if value else ""


def _moment(at: datetime | None) -> str:
    return "" if at is None else at.isoformat()
