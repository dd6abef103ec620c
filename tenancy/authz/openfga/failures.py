"""What can go wrong between this server and OpenFGA."""

from __future__ import annotations

from typing import Final

from tenancy.authz.refusals import AuthorizationBackendError

_MESSAGE: Final = "Nobody can tell at the moment who may do what: nothing was changed, try again"


class OpenFgaUnavailable(AuthorizationBackendError):
    """OpenFGA cannot be asked, or does not answer as it should.

    Callers are told no more than that; `reason` is for the log. `is_in_doubt` is whether what was sent may still come
    about.
    """

    is_on_purpose = True

    def __init__(self, reason: str, *, is_in_doubt: bool = False) -> None:
        super().__init__(_MESSAGE)
        self.reason, self.is_in_doubt = reason, is_in_doubt


class NoHttpAnswer(OpenFgaUnavailable):
    """The other side took the connection, and ended it without an answer in HTTP/1.1."""


class OpenFgaSpeaksGrpc(OpenFgaUnavailable):
    """The address is that of a gRPC interface. The reason names the cure."""


class OpenFgaRefused(OpenFgaUnavailable):
    """OpenFGA understood, and does not do it: `answered` (its status) and `code` are its own.

    In doubt is a copy that was sent before this one.
    """

    def __init__(self, status: int, code: str, text: str, *, is_in_doubt: bool = False) -> None:
        super().__init__(f"OpenFGA answered {status} {code}: {text}", is_in_doubt=is_in_doubt)
        self.answered, self.code = status, code
