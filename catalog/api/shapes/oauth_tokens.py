from __future__ import annotations

from typing import Any

from rest_framework import serializers

from icekeeper.kernel.http.serializers import Text
from tenancy.authn.own_tokens.oauth import ACCESS_TOKEN_TYPE, CLIENT_CREDENTIALS, OTHER_TYPES, OWN_TYPES, TOKEN_EXCHANGE
from tenancy.authn.own_tokens.scopes import ALL

TOKEN_TYPES = sorted(OWN_TYPES | OTHER_TYPES)


class OAuthTokenRequest(serializers.Serializer[Any]):
    """Client credentials (RFC 6749 §4.4) or token exchange (RFC 8693). No field may be given twice."""

    grant_type = serializers.ChoiceField([CLIENT_CREDENTIALS, TOKEN_EXCHANGE])
    scope = Text(
        required=False,
        help_text=f"Of {', '.join(f'`{scope}`' for scope in ALL)}, separated by spaces; default: all of the client's",
    )
    client_id = Text(
        required=False,
        help_text="The id of a service account, with or without `icekeeper~`, of another user, or of the token. Id and "
        "secret may come by HTTP Basic instead",
    )
    client_secret = Text(required=False, help_text="An access token that the management API made")
    subject_token = Text(required=False, help_text="Token exchange: the token of this server to renew")
    subject_token_type = serializers.ChoiceField(TOKEN_TYPES, required=False)
    actor_token = Text(required=False, help_text="Token exchange: must be good, and changes nothing")
    actor_token_type = serializers.ChoiceField(TOKEN_TYPES, required=False)
    requested_token_type = serializers.ChoiceField(TOKEN_TYPES, required=False)


class OAuthTokenResponse(serializers.Serializer[Any]):
    access_token = Text(help_text="For `Authorization: Bearer`")
    token_type = serializers.ChoiceField(["bearer"])
    expires_in = serializers.IntegerField(help_text="Seconds")
    issued_token_type = serializers.ChoiceField([ACCESS_TOKEN_TYPE])
    scope = Text(help_text="What the token carries, which may be less than what was asked for")


class OAuthError(serializers.Serializer[Any]):
    error = Text(help_text="What clients switch on")
    error_description = Text(required=False, help_text="For people")
