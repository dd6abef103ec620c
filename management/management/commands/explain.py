from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError, CommandParser

from catalog.selectors.explanations import Explained, ToldMembership, ToldStep, explain_to_operator
from catalog.selectors.object_names import NamedObject, name_objects
from icekeeper.kernel.errors.types import CatalogError
from icekeeper.kernel.json.strict import write_json
from management.api.explanation_shapes import explanation_json
from management.selectors.spoken_names import (
    SPOKEN,
    describe_grantee,
    find_spoken_grantee,
    find_spoken_object,
    find_spoken_project,
)
from tenancy.actor import INTERNAL
from tenancy.authz.actions import Can
from tenancy.authz.explanation import ALLOWALL
from tenancy.authz.port import authorizer
from tenancy.authz.privileges import ASSIGNEE
from tenancy.authz.role_ways import Entry
from tenancy.authz.standing_rights import Standing
from tenancy.authz.vocabulary import ALL_WORDS
from tenancy.grantee import Grantee
from tenancy.models import Securable
from tenancy.refs import securable_id

OWN_PROVIDERS: Final = ("local", "icekeeper")
"""Their users come with tokens of this server, which name no roles."""

_REASONS: Final = {ALLOWALL: "nobody is refused", Standing.EVERYBODY: "everybody may"}


class Command(BaseCommand):
    help = (
        "Say why somebody may do something, or which grants would let them, any one of which is enough: "
        "explain oidc~ada read_data table lake finance sales orders. By the grants on record, and beside them what the "
        "backend in force says. Roles that only a token names are not known here and do not count."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("who", help="a user such as oidc~ada, or a role by its name or id")
        parser.add_argument(
            "action", help="what it is about, such as read_data; a wrong one lists those that there are"
        )
        parser.add_argument("type", choices=[each.value for each in SPOKEN], help="what kind of object")
        parser.add_argument(
            "place",
            nargs="*",
            help="which one, by name or id: a project (default: --project-id), warehouse, role or tag by itself, a "
            "namespace by its warehouse and its levels, a table or view by its warehouse, the levels of its namespace "
            "and its name; each level is a word. What was dropped is found by warehouse and id",
        )
        parser.add_argument("--project-id", metavar="PROJECT", help="by id or name; default: the default project")
        parser.add_argument("--json", action="store_true", help="print what POST .../permissions/explain answers")

    def handle(self, *args: Any, **options: Any) -> None:
        kind = Securable.Type(options["type"])
        action = _action(kind, options["action"])
        try:
            project = find_spoken_project(options["project_id"])
            ref = find_spoken_object(project, kind, options["place"])
            grantee = find_spoken_grantee(project, options["who"])
            explained = explain_to_operator(actor=INTERNAL, grantee=grantee, ref=ref, action=action)
        except CatalogError as error:
            raise CommandError(error.message) from None
        if options["json"]:
            told = explanation_json(explained) | {"backend": authorizer().name}
            self.stdout.write(write_json(told).decode())
            return
        own_id = securable_id(*ref)
        named = name_objects([own_id]).get(own_id)
        if named is None:
            raise CommandError("It has just been deleted")
        who = describe_grantee(grantee)
        for line in _lines(explained, who, f"{options['action']} on {_called(named)}"):
            self.stdout.write(line)
        for note in _notes(explained, grantee):
            self.stderr.write(note)


def _action(kind: Securable.Type, word: str) -> Can:
    action = ALL_WORDS[kind].get(word)
    if action is None:
        raise CommandError(f"{word!r} is nothing to be done with a {kind.value}: {', '.join(sorted(ALL_WORDS[kind]))}")
    return action


def _lines(explained: Explained, who: str, what: str) -> Iterator[str]:
    yield _answer(explained, who, what)
    if explained.is_by_grants:
        steps = (line for step in explained.chain if step is not None for line in _step(step, who))
        yield from dict.fromkeys(f"  {line}" for line in steps)
    elif explained.cures:
        yield "By grants, any one of these would let them:"
        for cure in explained.cures:
            yield f"  {cure.privilege} on {_called(cure.object)}"
    elif explained.standing != Standing.EVERYBODY:
        yield "No single grant would let them."


def _answer(explained: Explained, who: str, what: str) -> str:
    by_grants = "yes" if explained.is_by_grants else "no"
    if explained.is_allowed is None:
        return (
            f"{authorizer().name} cannot be asked, so nobody may at the moment. "
            f"By the grants on record, whether {who} may {what}: {by_grants}."
        )
    may = f"{who} may {what}" if explained.is_allowed else f"{who} may not {what}"
    if explained.standing is not None:
        reason = _REASONS.get(explained.standing, explained.standing)
        return f"{may}, whatever is granted ({reason}). By grants: {by_grants}."
    if explained.is_allowed is not explained.is_by_grants:
        return f"{may}, says {authorizer().name}, which counts. By the grants on record: {by_grants}."
    return f"{may}."


def _step(step: ToldStep, who: str) -> Iterator[str]:
    place = _called(step.object)
    if step.grant is None:
        action = step.relation.removeprefix("can_")
        yield f"so {step.relation if action == step.relation else f'may {action}'} on {place}"
        return
    holder = who
    for membership in step.grant.through or ():
        if membership.entry is not Entry.ASSUMED:  # which is whom this is about
            yield _membership(membership, holder)
        holder = f"role {membership.role_name}"
    if step.grant.privilege != ASSIGNEE:
        yield f"{holder} has {step.grant.privilege} on {place}{_until(step.grant.expires_at)}"
    elif str(step.grant.grantee.role_id) != step.object.object_id:  # that a role is in itself need not be told
        yield f"{holder} is in {place}{_until(step.grant.expires_at)}"


def _membership(membership: ToldMembership, holder: str) -> str:
    verb = "owns" if membership.entry is Entry.OWNER else "is in"
    return f"{holder} {verb} role {membership.role_name}{_until(membership.expires_at)}"


def _until(end: datetime | None) -> str:
    return "" if end is None else f" until {end:%Y-%m-%d %H:%M} UTC"


def _called(named: NamedObject) -> str:
    if named.securable_type is Securable.Type.SERVER:
        return "the server"
    own_name = () if named.name is None else (named.name,)
    return f"{named.securable_type.value.replace('-', ' ')} {'.'.join((*named.levels, *own_name))}"


def _notes(explained: Explained, grantee: Grantee) -> Iterator[str]:
    is_decided = explained.is_allowed is not None and explained.standing is None
    if authorizer().name == "openfga" and is_decided and explained.is_allowed is not explained.is_by_grants:
        yield "OpenFGA may not have been told of everything: `manage.py openfga_reconcile --dry-run` compares."
    if grantee.user_id is None or explained.standing == Standing.EVERYBODY:
        return
    if explained.standing == Standing.BLOCKED:
        yield f"`manage.py unblock_user {grantee.user_id}` lets them in again."
    if not explained.is_by_grants and grantee.user_id.partition("~")[0] not in OWN_PROVIDERS:
        yield f"Roles that only a token of {grantee.user_id} names are not known here."
