from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from django.core.management.base import CommandError, CommandParser

from catalog.objects import name_objects
from management.api.permissions.serializers import ExplainResponse
from management.management.cli_lookup import (
    USAGE,
    describe_grantee,
    resolve_object,
    resolve_principal,
    resolve_project,
)
from management.management.operator_command import OperatorCommand
from tenancy.actor import INTERNAL, Grantee
from tenancy.authz.actions import ACTION_NAMES, ASSIGNEE, Can
from tenancy.authz.explanation import ALLOWALL
from tenancy.authz.permissions import Standing
from tenancy.authz.port import authorizer
from tenancy.authz.role_paths import Entry
from tenancy.models import Securable
from tenancy.models.securable import securable_id
from tenancy.selectors.explanations import Explained, VisibleMembership, VisibleStep, explain_to_operator
from tenancy.selectors.objects import NamedObject

OWN_PROVIDERS: Final = ("local", "icekeeper")
"""Tokens of users of these providers are issued by this server and name no roles."""

_REASONS: Final = {ALLOWALL: "authorization is off", Standing.EVERYBODY: "allowed for every user"}


class Command(OperatorCommand):
    help = (
        "Explain why a user or role has a permission, or list the grants that would give it, each of which is "
        "sufficient: explain oidc~ada read_data table lake finance sales orders. The explanation follows the grants "
        "in the database and also prints the decision of the active backend. Roles that only a token names are not "
        "known here and are not considered."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("who", help="a user such as oidc~ada, or a role by name or id")
        parser.add_argument("action", help="action to check, such as read_data; an unknown one lists the valid actions")
        parser.add_argument("type", choices=[each.value for each in USAGE], help="type of the object")
        parser.add_argument(
            "object",
            nargs="*",
            help="the object by name or id: PROJECT (default: --project-id), WAREHOUSE, ROLE, TAG, WAREHOUSE LEVEL "
            "[LEVEL ...] for a namespace, WAREHOUSE LEVEL [LEVEL ...] NAME for a table or view. Each level is an "
            "argument. Find dropped objects with WAREHOUSE ID",
        )
        parser.add_argument("--project-id", metavar="PROJECT", help="by id or name; default: the default project")
        parser.add_argument("--json", action="store_true", help="print the response of POST .../permissions/explain")

    def handle(self, *args: Any, **options: Any) -> None:
        kind = Securable.Type(options["type"])
        action = _action(kind, options["action"])
        project = resolve_project(options["project_id"])
        ref = resolve_object(project, kind, options["object"])
        grantee = resolve_principal(project, options["who"])
        explained = explain_to_operator(
            actor=INTERNAL, grantee=grantee, ref=ref, action=action, name_objects=name_objects
        )
        if options["json"]:
            content = {**ExplainResponse(explained).data, "backend": authorizer().name}
            self.print_json(content)
            return
        own_id = securable_id(*ref)
        named = name_objects([own_id]).get(own_id)
        if named is None:
            raise CommandError("The object was deleted meanwhile")
        who = describe_grantee(grantee)
        for line in _lines(explained, who, f"{options['action']} on {_display_name(named)}"):
            self.stdout.write(line)
        for note in _notes(explained, grantee):
            self.stderr.write(note)


def _action(kind: Securable.Type, word: str) -> Can:
    action = ACTION_NAMES[kind].get(word)
    if action is None:
        raise CommandError(
            f"{word!r} is not an action on a {kind.value}. Valid actions: {', '.join(sorted(ACTION_NAMES[kind]))}"
        )
    return action


def _lines(explained: Explained, who: str, what: str) -> Iterator[str]:
    yield _decision(explained, who, what)
    if explained.is_by_grants:
        steps = (line for step in explained.chain if step is not None for line in _step(step, who))
        yield from dict.fromkeys(f"  {line}" for line in steps)
    elif explained.cures:
        yield "One of these grants would allow it:"
        for cure in explained.cures:
            yield f"  {cure.privilege} on {_display_name(cure.object)}"
    elif explained.standing != Standing.EVERYBODY:
        yield "No single grant would allow it."


def _decision(explained: Explained, who: str, what: str) -> str:
    by_grants = "yes" if explained.is_by_grants else "no"
    if explained.is_allowed is None:
        return (
            f"{authorizer().name} is unavailable, so every request is denied. "
            f"By the grants in the database, {who} may {what}: {by_grants}."
        )
    may = f"{who} may {what}" if explained.is_allowed else f"{who} may not {what}"
    if explained.standing is not None:
        reason = _REASONS.get(explained.standing, explained.standing)
        return f"{may}, independent of grants ({reason}). By grants: {by_grants}."
    if explained.is_allowed is not explained.is_by_grants:
        return f"{may}, as {authorizer().name} decides. By the grants in the database: {by_grants}."
    return f"{may}."


def _step(step: VisibleStep, who: str) -> Iterator[str]:
    name = _display_name(step.object)
    if step.grant is None:
        action = step.relation.removeprefix("can_")
        yield f"so {step.relation if action == step.relation else f'may {action}'} on {name}"
        return
    holder = who
    for membership in step.grant.through or ():
        if membership.entry is not Entry.ASSUMED:  # the subject of the explanation
            yield _membership(membership, holder)
        holder = f"role {membership.role_name}"
    if step.grant.privilege != ASSIGNEE:
        yield f"{holder} has {step.grant.privilege} on {name}{_until(step.grant.expires_at)}"
    elif str(step.grant.grantee.role_id) != step.object.object_id:  # a role is always in itself
        yield f"{holder} is in {name}{_until(step.grant.expires_at)}"


def _membership(membership: VisibleMembership, holder: str) -> str:
    verb = "owns" if membership.entry is Entry.OWNER else "is in"
    return f"{holder} {verb} role {membership.role_name}{_until(membership.expires_at)}"


def _until(end: datetime | None) -> str:
    return "" if end is None else f" until {end:%Y-%m-%d %H:%M} UTC"


def _display_name(named: NamedObject) -> str:
    if named.securable_type is Securable.Type.SERVER:
        return "the server"
    own_name = () if named.name is None else (named.name,)
    return f"{named.securable_type.value.replace('-', ' ')} {'.'.join((*named.levels, *own_name))}"


def _notes(explained: Explained, grantee: Grantee) -> Iterator[str]:
    is_decided = explained.is_allowed is not None and explained.standing is None
    if authorizer().name == "openfga" and is_decided and explained.is_allowed is not explained.is_by_grants:
        yield "OpenFGA may lack tuples: `manage.py openfga_reconcile --dry-run` compares."
    if grantee.user_id is None or explained.standing == Standing.EVERYBODY:
        return
    if explained.standing == Standing.BLOCKED:
        yield f"`manage.py unblock_user {grantee.user_id}` unblocks the user."
    if not explained.is_by_grants and grantee.user_id.partition("~")[0] not in OWN_PROVIDERS:
        yield f"Roles that only a token of {grantee.user_id} names are not known here."
