"""OpenAPI descriptions of the operations on the server itself."""

from __future__ import annotations

from functools import partial

from icekeeper.kernel.http.openapi import empty_response
from management.api.schema import describe, operation
from management.api.server.serializers import BootstrapRequest, IcekeeperInfo, ServerInfo

_operation = partial(operation, tag="server")

describe_server = describe(
    bootstrap=_operation(
        "bootstrap",
        "Bootstrap the server",
        description="Accepts the terms of use, gives the caller the privilege `admin` and creates the default project. "
        "A server is bootstrapped only once.",
        request=BootstrapRequest,
        success=empty_response("Bootstrapped"),
        errors={
            400: "`TermsOfUseNotAccepted`, `CatalogAlreadyBootstrapped`, `ConcurrentBootstrap`",
            401: "`AnonymousBootstrap`",
        },
    ),
    info=_operation("get_server_info", "Get the server's version and capabilities", success={200: ServerInfo}),
    icekeeper_info=_operation("get_icekeeper_info", "Get the version of this server", success={200: IcekeeperInfo}),
)
