"""Services of the server itself: bootstrap (terms, administrator, default project), and maintenance mode."""

from __future__ import annotations

import logging
from itertools import chain, count
from typing import Final

from django.conf import settings

from icekeeper.kernel.clock import now
from icekeeper.kernel.errors.types import BadRequest, Unauthorized
from icekeeper.kernel.names import name_key
from tenancy import maintenance
from tenancy.actor import Actor, require_user_id
from tenancy.audit.recording import actor_name
from tenancy.authn.providers import authenticators
from tenancy.authz.openfga.outbox import enqueue_grant
from tenancy.authz.securables import add_securable
from tenancy.changes.kinds import Change
from tenancy.changes.transaction import change
from tenancy.models import Grant, Project, Securable, Server, User
from tenancy.models.securable import ObjectRef, securable_id
from tenancy.selectors.projects import get_server
from tenancy.services.automatic_grants import PROJECT_ADMIN
from tenancy.services.registration import register_principal

DEFAULT_PROJECT_NAME: Final = "Default Project"
ADMIN: Final = "admin"
OPERATOR: Final = "operator"
logger = logging.getLogger("icekeeper.bootstrap")


class AlreadyBootstrapped(BadRequest):
    wire_type = "CatalogAlreadyBootstrapped"


class ConcurrentBootstrap(BadRequest):
    """A concurrent request bootstrapped the server first."""

    wire_type = "ConcurrentBootstrap"


class TermsNotAccepted(BadRequest):
    wire_type = "TermsOfUseNotAccepted"


class AnonymousBootstrap(Unauthorized):
    """With authentication, an anonymous caller cannot become administrator."""

    wire_type = "AnonymousBootstrap"


def bootstrap(
    *,
    actor: Actor,
    accept_terms_of_use: bool,
    is_operator: bool = False,
    name: str | None = None,
    email: str | None = None,
    user_type: str | None = None,
) -> None:
    """Accept the terms and create the default project, all or nothing; works once, until `reopen_bootstrap`.

    The actor's user is registered (`name`, `email` and `user_type` take precedence over the token) and becomes
    administrator or operator of the server, and administrator of a new default project; an assumed role does not. No
    user is registered for an anonymous caller while authentication is off, nor for the server's own commands.

    Raises `TermsNotAccepted`, `AlreadyBootstrapped`, `ConcurrentBootstrap` (400), `AnonymousBootstrap` (401).
    """
    if actor.is_anonymous and authenticators():
        raise AnonymousBootstrap("Bootstrap needs a user: send a token")
    if not accept_terms_of_use:
        raise TermsNotAccepted("The terms of use must be accepted: accept-terms-of-use")
    if Server.objects.filter(bootstrapped_at__isnull=False).exists():
        raise AlreadyBootstrapped("The catalog is bootstrapped already")
    with change(actor) as tx:
        at = now()
        if not Server.objects.filter(bootstrapped_at=None).update(bootstrapped_at=at, terms_accepted_at=at):
            raise ConcurrentBootstrap("The catalog has just been bootstrapped by another request")
        server = Server.objects.get()
        if server.authz_backend is None:
            Server.objects.update(authz_backend="")  # not served yet: no client relies on unrestricted access
        project_id = _create_default_project(server)
        if actor.user_id is not None:
            _register_administrator(
                server, actor, by=actor, is_operator=is_operator, name=name, email=email, user_type=user_type
            )
            if project_id is not None:
                on_project = securable_id(Securable.Type.PROJECT, project_id)
                _grant(actor.user_id, PROJECT_ADMIN, on_project, actor_name(actor))
        privilege = None if actor.user_id is None else OPERATOR if is_operator else ADMIN
        tx.record(
            Change.SERVER_BOOTSTRAPPED, subject=server.server_id, project=project_id, user=actor.user_id,
            privilege=privilege,
        )  # fmt: skip


def appoint_administrator(
    *,
    actor: Actor,
    user_id: str,
    is_operator: bool = False,
    name: str | None = None,
    email: str | None = None,
    user_type: str | None = None,
) -> bool:
    """Grant a user the administrator or operator privilege on a bootstrapped server; return whether it was new.

    For the server's own commands: checks no permission of `actor`. A registered user keeps name, email and type.
    Raises `BadRequest`.
    """
    user_id = require_user_id(user_id)
    with change(actor) as tx:
        server = Server.objects.select_for_update().get()
        if is_administrator(server, user_id, is_operator=is_operator):
            return False
        is_known = User.objects.existing().filter(pk=user_id).exists()
        _register_administrator(
            server,
            Actor(user_id=user_id),
            by=actor,
            is_operator=is_operator,
            name=None if is_known else name,
            email=None if is_known else email,
            user_type=None if is_known else user_type,
        )
        tx.record(
            Change.SERVER_ADMINISTRATOR_APPOINTED, subject=server.server_id, user=user_id,
            privilege=OPERATOR if is_operator else ADMIN,
        )  # fmt: skip
    return True


def is_administrator(server: Server, user_id: str, *, is_operator: bool) -> bool:
    """Return whether a user has the privilege that `appoint_administrator` grants."""
    on_server = securable_id(Securable.Type.SERVER, server.server_id)
    privilege = OPERATOR if is_operator else ADMIN
    return Grant.objects.filter(
        securable_id=on_server, user_id=user_id, privilege=privilege, user__deleted_at=None
    ).exists()


def reopen_bootstrap(*, actor: Actor) -> bool:
    """Allow another `bootstrap`; return whether it was closed before. Server id, data and grants stay."""
    server_id = get_server().server_id
    with change(actor) as tx:
        reopened = Server.objects.exclude(bootstrapped_at=None).update(bootstrapped_at=None)
        if reopened:
            tx.record(Change.SERVER_BOOTSTRAP_REOPENED, subject=server_id)
    if reopened:
        logger.warning("bootstrap is open again: its first caller becomes administrator")
    return bool(reopened)


def _create_default_project(server: Server) -> str | None:
    """Create the default project if it does not exist; return its id if it was created. The server's row is locked."""
    project_id: str = settings.ICEKEEPER.default_project_id
    if not settings.ICEKEEPER.enable_default_project or Project.objects.filter(pk=project_id).exists():
        return None
    # The name may be taken by an earlier default project with another id, or by a user's project.
    names = chain([DEFAULT_PROJECT_NAME, project_id], (f"{DEFAULT_PROJECT_NAME} {number}" for number in count(2)))
    name = next(each for each in names if not Project.objects.named(each).exists())
    Project.objects.create(id=project_id, name=name, name_key=name_key(name))
    add_securable(Securable.Type.PROJECT, project_id, parent=ObjectRef(Securable.Type.SERVER, server.server_id))
    return project_id


def _register_administrator(
    server: Server,
    principal: Actor,
    *,
    by: Actor,
    is_operator: bool,
    name: str | None,
    email: str | None,
    user_type: str | None,
) -> None:
    user = register_principal(actor=principal, name=name, email=email, user_type=user_type)
    on_server = securable_id(Securable.Type.SERVER, server.server_id)
    _grant(user.pk, OPERATOR if is_operator else ADMIN, on_server, actor_name(by))


def _grant(user_id: str, privilege: str, on: str, by: str) -> None:
    if not Grant.objects.on(on).granted_to(user_id=user_id, role_id=None).filter(privilege=privilege).exists():
        Grant.objects.create_on(securable_id=on, user_id=user_id, privilege=privilege, granted_by=by)
    enqueue_grant(on, privilege, user_id=user_id)


def switch_maintenance(*, actor: Actor, is_on: bool) -> bool:
    """Switch maintenance mode on or off; return whether that changed it.

    It takes effect in this process immediately, in others within `maintenance.KNOWN_SECONDS`.
    """
    server_id = get_server().server_id
    with change(actor) as tx:
        changed = bool(Server.objects.exclude(is_read_only=is_on).update(is_read_only=is_on))
        if changed:
            tx.record(Change.SERVER_MAINTENANCE_SWITCHED, subject=server_id, is_on=is_on)
    maintenance.switch.is_on = is_on
    return changed
