from __future__ import annotations

from django.conf import settings
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from icekeeper.kernel.api_shapes import KebabSerializer, Text, answers, done
from icekeeper.version import VERSION
from management.api.base import ManagementView
from tasks.queue.models import Task
from tenancy.selectors.server import get_server
from tenancy.services.bootstrap import bootstrap

TAGS = ["server"]


class BootstrapRequest(KebabSerializer):
    accept_terms_of_use = serializers.BooleanField()
    is_operator = serializers.BooleanField(required=False)
    user_name = Text(required=False, allow_null=True)
    user_email = Text(required=False, allow_null=True)
    user_type = serializers.ChoiceField(["human", "application"], required=False, allow_null=True)


class LicenseStatus(KebabSerializer):
    valid = serializers.BooleanField()
    license_type = Text()


class ServerInfo(KebabSerializer):
    version = Text()
    lakekeeper_version = Text(help_text="The release of the peer whose API this one follows")
    bootstrapped = serializers.BooleanField()
    server_id = serializers.UUIDField()
    default_project_id = Text(allow_null=True)
    authz_backend = Text()
    aws_system_identities_enabled = serializers.BooleanField()
    azure_system_identities_enabled = serializers.BooleanField()
    gcp_system_identities_enabled = serializers.BooleanField()
    queues = serializers.ListField(child=Text())
    license_status = LicenseStatus()


PEER_VERSION = "0.13.3"


class BootstrapView(ManagementView):
    @extend_schema(
        operation_id="bootstrap",
        tags=TAGS,
        summary="Accept the terms of use and make the default project; works once",
        request=BootstrapRequest,
        responses=answers(done("Bootstrapped"), {400: "`TermsOfUseNotAccepted`, `CatalogAlreadyBootstrapped`"}),
    )
    def post(self, request: Request) -> Response:
        body = self.body(BootstrapRequest)
        bootstrap(actor=self.actor, accept_terms_of_use=body["accept_terms_of_use"])
        return Response(status=204)


class ServerInfoView(ManagementView):
    @extend_schema(
        operation_id="get_server_info", tags=TAGS, summary="What this server is", responses=answers({200: ServerInfo})
    )
    def get(self, request: Request) -> Response:
        server = get_server()
        own = settings.ICEKEEPER
        return Response(
            {
                "version": VERSION,
                "lakekeeper-version": PEER_VERSION,
                "bootstrapped": server.bootstrapped_at is not None,
                "server-id": str(server.server_id),
                "default-project-id": own.default_project_id if own.enable_default_project else None,
                "authz-backend": own.authz_backend,
                "aws-system-identities-enabled": False,
                "azure-system-identities-enabled": False,
                "gcp-system-identities-enabled": False,
                "queues": [queue.value for queue in Task.Queue],
                "license-status": {"valid": True, "license-type": "Apache-2.0"},
            }
        )
