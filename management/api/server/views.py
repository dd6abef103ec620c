"""The server itself: its bootstrap, version and capabilities."""

from __future__ import annotations

from typing import Final

from django.conf import settings
from rest_framework.request import Request
from rest_framework.response import Response

from icekeeper.version import LAKEKEEPER_VERSION, VERSION, commit_sha
from management.api.base import ManagementViewSet
from management.api.server.schema import describe_server
from management.api.server.serializers import BootstrapRequest, IcekeeperInfo, ServerInfo
from tasks.models import Task
from tenancy.authz.port import AllowAll, authorizer
from tenancy.selectors.projects import get_server
from tenancy.services.server import bootstrap

AUTHZ_BACKENDS: Final = {AllowAll.name: "allow-all"}
"""Lakekeeper's names for authorizers whose names differ from ours."""

QUEUES: Final = (Task.Queue.SOFT_DELETION.value, Task.Queue.TABULAR_PURGE.value)
"""The task queues of warehouses: clients call the routes under `/task-queue/` for each queue that is listed."""

LICENSE_STATUS: Final = {"license_type": "Apache-2.0", "valid": True}


@describe_server
class ServerViewSet(ManagementViewSet):
    def bootstrap(self, request: Request) -> Response:
        body = self.body(BootstrapRequest)
        bootstrap(
            actor=self.actor,
            accept_terms_of_use=body["accept_terms_of_use"],
            is_operator=body["is_operator"],
            name=body.get("user_name"),
            email=body.get("user_email"),
            user_type=body.get("user_type"),
        )
        return Response(status=204)

    def info(self, request: Request) -> Response:
        server, own, backend = get_server(), settings.ICEKEEPER, authorizer().name
        found = {
            "lakekeeper_version": LAKEKEEPER_VERSION,
            "bootstrapped": server.bootstrapped_at is not None,
            "server_id": server.server_id,
            "default_project_id": own.default_project_id if own.enable_default_project else None,
            "authz_backend": AUTHZ_BACKENDS.get(backend, backend),
            "aws_system_identities_enabled": own.enable_aws_system_credentials,
            "azure_system_identities_enabled": own.enable_azure_system_credentials,
            "gcp_system_identities_enabled": own.enable_gcp_system_credentials,
            "queues": QUEUES,
            "license_status": LICENSE_STATUS,
        }
        return self.respond(ServerInfo, found)

    def icekeeper_info(self, request: Request) -> Response:
        return self.respond(IcekeeperInfo, {"version": VERSION, "commit_sha": commit_sha()})
