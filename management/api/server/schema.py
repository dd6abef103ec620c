"""OpenAPI descriptions of the operations on the server itself."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema

from icekeeper.kernel.http.serializers import empty_response, operation_responses
from management.api.schema import describe
from management.api.server.serializers import BootstrapRequest, IcekeeperInfo, ServerInfo

TAGS = ["server"]

describe_server = describe(
    bootstrap=extend_schema(
        operation_id="bootstrap",
        tags=TAGS,
        summary="Bootstrap the server",
        description="Accepts the terms of use, gives the caller the privilege `admin` and creates the default project. "
        "A server is bootstrapped only once.",
        request=BootstrapRequest,
        responses=operation_responses(
            empty_response("Bootstrapped"),
            {
                400: "`TermsOfUseNotAccepted`, `CatalogAlreadyBootstrapped`, `ConcurrentBootstrap`",
                401: "`AnonymousBootstrap`",
            },
        ),
    ),
    info=extend_schema(
        operation_id="get_server_info",
        tags=TAGS,
        summary="Get the server's version and capabilities",
        responses=operation_responses({200: ServerInfo}),
    ),
    icekeeper_info=extend_schema(
        operation_id="get_icekeeper_info",
        tags=TAGS,
        summary="Get the version of this server",
        responses=operation_responses({200: IcekeeperInfo}),
    ),
)
