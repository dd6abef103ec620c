"""The first act of a deployment: accept the terms, make the default project."""

from __future__ import annotations

from django.conf import settings

from icekeeper.kernel.clock import now
from icekeeper.kernel.errors import BadRequest
from icekeeper.kernel.names import name_key
from icekeeper.kernel.write_transaction import write_transaction
from tenancy.actor import Actor
from tenancy.authz.securables import add_securable
from tenancy.models import Project, Securable, Server

DEFAULT_PROJECT_NAME = "Default Project"


class AlreadyBootstrapped(BadRequest):
    wire_type = "CatalogAlreadyBootstrapped"


class TermsNotAccepted(BadRequest):
    wire_type = "TermsOfUseNotAccepted"


def bootstrap(*, actor: Actor, accept_terms_of_use: bool) -> None:
    """Works once. Raises `AlreadyBootstrapped` the second time, `TermsNotAccepted` without acceptance."""
    if not accept_terms_of_use:
        raise TermsNotAccepted("The terms of use must be accepted: accept-terms-of-use")
    with write_transaction():
        at = now()
        if not Server.objects.filter(bootstrapped_at=None).update(bootstrapped_at=at, terms_accepted_at=at):
            raise AlreadyBootstrapped("The catalog is bootstrapped already")
        project_id = settings.ICEKEEPER.default_project_id
        if settings.ICEKEEPER.enable_default_project and not Project.objects.filter(pk=project_id).exists():
            Project.objects.create(id=project_id, name=DEFAULT_PROJECT_NAME, name_key=name_key(DEFAULT_PROJECT_NAME))
            server = Server.objects.get()
            add_securable(Securable.Type.PROJECT, project_id, parent=(Securable.Type.SERVER, server.server_id))
