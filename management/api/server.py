from __future__ import annotations

from typing import Final

from django.conf import settings
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from icekeeper.kernel.http.serializers import Flag, KebabSerializer, Text, empty_response, operation_responses
from icekeeper.version import PEER_VERSION, VERSION, commit_sha
from management.api.base import ManagementView
from tenancy.authz.port import AllowAll, authorizer
from tenancy.models import User
from tenancy.selectors.server import get_server
from tenancy.services.bootstrap import bootstrap
from tenancy.services.registration import MAX_EMAIL_LENGTH, MAX_NAME_LENGTH

TAGS = ["server"]


class BootstrapRequest(KebabSerializer):
    accept_terms_of_use = Flag(help_text="Must be true. The terms are the Apache License 2.0")
    is_operator = Flag(
        default=False,
        help_text="Make the caller `operator` of the server instead of `admin`: for programs that set things up",
    )
    user_name = Text(
        required=False,
        allow_null=True,
        max_length=MAX_NAME_LENGTH,
        help_text="Default: what the token says, as for all",
    )
    user_email = Text(required=False, allow_null=True, max_length=MAX_EMAIL_LENGTH)
    user_type = serializers.ChoiceField(User.Type.values, required=False, allow_null=True)


class LicenseStatus(KebabSerializer):
    """Icekeeper is free: there is no key to check, so most of this is always null."""

    license_type = Text(help_text="`Apache-2.0`")
    valid = serializers.BooleanField(help_text="Always true")
    customer = Text(allow_null=True)
    issuer = Text(allow_null=True)
    audience = Text(allow_null=True)
    expiration = serializers.DateTimeField(allow_null=True)
    license_id = Text(allow_null=True)
    error = Text(allow_null=True)


class ConsoleInfo(KebabSerializer):
    """The console that is served at `/ui`."""

    edition = Text()
    version = Text()
    commit_sha = Text(allow_null=True)


class ServerInfo(KebabSerializer):
    version = Text(help_text="The same as `lakekeeper-version`")
    lakekeeper_version = Text(help_text="The release of Lakekeeper whose APIs this server follows")
    lakekeeper_commit_sha = Text(allow_null=True, help_text="Always null: none of its code is in here")
    lakekeeper_enterprise_version = Text(allow_null=True, help_text="Always null")
    lakekeeper_enterprise_commit_sha = Text(allow_null=True, help_text="Always null")
    bootstrapped = serializers.BooleanField()
    server_id = serializers.UUIDField(help_text="Made with the database, and kept")
    default_project_id = Text(
        allow_null=True, help_text="Of requests that name no project; null when they must name one"
    )
    authz_backend = Text(help_text="The authorizer: `allow-all`, `builtin`, `openfga`, or the name of a custom one")
    aws_system_identities_enabled = serializers.BooleanField(
        help_text="Whether warehouses may use the server's own identity"
    )
    azure_system_identities_enabled = serializers.BooleanField(help_text="Likewise")
    gcp_system_identities_enabled = serializers.BooleanField(help_text="Likewise")
    queues = serializers.ListField(child=Text(), help_text="Task queues that have routes under `/task-queue/`")
    license_status = LicenseStatus()
    console = ConsoleInfo(allow_null=True)


class IcekeeperInfo(KebabSerializer):
    version = Text(help_text="The release of this server")
    commit_sha = Text(allow_null=True, help_text="The commit that it was built from, if known")


AUTHZ_BACKENDS: Final = {AllowAll.name: "allow-all"}
"""Lakekeeper's names for authorizers whose names differ from ours."""

QUEUES: Final = ()
"""The task queues that have routes under `/task-queue/`: clients call these routes for each queue that is listed."""

LICENSE_STATUS = {
    "license-type": "Apache-2.0",
    "valid": True,
    "customer": None,
    "issuer": None,
    "audience": None,
    "expiration": None,
    "license-id": None,
    "error": None,
}


class BootstrapView(ManagementView):
    @extend_schema(
        operation_id="bootstrap",
        tags=TAGS,
        summary="Accept the terms of use, become administrator, make the default project; works once",
        request=BootstrapRequest,
        responses=operation_responses(
            empty_response("Bootstrapped"),
            {
                400: "`TermsOfUseNotAccepted`, `CatalogAlreadyBootstrapped`, `ConcurrentBootstrap`",
                401: "`AnonymousBootstrap`",
            },
        ),
    )
    def post(self, request: Request) -> Response:
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


class ServerInfoView(ManagementView):
    @extend_schema(
        operation_id="get_server_info",
        tags=TAGS,
        summary="What this server is",
        responses=operation_responses({200: ServerInfo}),
    )
    def get(self, request: Request) -> Response:
        server = get_server()
        own, backend = settings.ICEKEEPER, authorizer().name
        return Response(
            {
                "version": PEER_VERSION,
                "lakekeeper-version": PEER_VERSION,
                "lakekeeper-commit-sha": None,
                "lakekeeper-enterprise-version": None,
                "lakekeeper-enterprise-commit-sha": None,
                "bootstrapped": server.bootstrapped_at is not None,
                "server-id": str(server.server_id),
                "default-project-id": own.default_project_id if own.enable_default_project else None,
                "authz-backend": AUTHZ_BACKENDS.get(backend, backend),
                "aws-system-identities-enabled": own.enable_aws_system_credentials,
                "azure-system-identities-enabled": own.enable_azure_system_credentials,
                "gcp-system-identities-enabled": own.enable_gcp_system_credentials,
                "queues": list(QUEUES),
                "license-status": LICENSE_STATUS,
                "console": None,
            }
        )


class IcekeeperInfoView(ManagementView):
    @extend_schema(
        operation_id="get_icekeeper_info",
        tags=TAGS,
        summary="Get the version of this server",
        responses=operation_responses({200: IcekeeperInfo}),
    )
    def get(self, request: Request) -> Response:
        return Response({"version": VERSION, "commit-sha": commit_sha()})
