"""Requests and responses about the server itself."""

from __future__ import annotations

from rest_framework import serializers

from management.api.serializers import Flag, KebabSerializer, ResponseSerializer, Text
from tenancy.models import User
from tenancy.services.registration import MAX_EMAIL_LENGTH, MAX_NAME_LENGTH


class BootstrapRequest(KebabSerializer):
    accept_terms_of_use = Flag(help_text="Must be true. The terms are the Apache License 2.0")
    is_operator = Flag(
        default=False,
        help_text="Give the caller the privilege `operator` on the server instead of `admin`, for automation",
    )
    user_name = Text(
        required=False,
        allow_null=True,
        max_length=MAX_NAME_LENGTH,
        help_text="Default: from the token, like the other members about the user",
    )
    user_email = Text(required=False, allow_null=True, max_length=MAX_EMAIL_LENGTH)
    user_type = serializers.ChoiceField(User.Type.values, required=False, allow_null=True)


class LicenseStatus(ResponseSerializer):
    """Icekeeper is free software: no license key exists, so most members are always null."""

    license_type = Text(help_text="`Apache-2.0`")
    valid = serializers.BooleanField(help_text="Always true")
    customer = Text(allow_null=True)
    issuer = Text(allow_null=True)
    audience = Text(allow_null=True)
    expiration = serializers.DateTimeField(allow_null=True)
    license_id = Text(allow_null=True)
    error = Text(allow_null=True)


class ConsoleInfo(ResponseSerializer):
    """The console that is served at `/ui`."""

    edition = Text()
    version = Text()
    commit_sha = Text(allow_null=True)


class ServerInfo(ResponseSerializer):
    version = Text(source="lakekeeper_version", help_text="The same as `lakekeeper-version`")
    lakekeeper_version = Text(help_text="The release of Lakekeeper whose APIs this server follows")
    lakekeeper_commit_sha = Text(allow_null=True, help_text="Always null: the server contains none of its code")
    lakekeeper_enterprise_version = Text(allow_null=True, help_text="Always null")
    lakekeeper_enterprise_commit_sha = Text(allow_null=True, help_text="Always null")
    bootstrapped = serializers.BooleanField()
    server_id = serializers.UUIDField(help_text="Created with the database; it never changes")
    default_project_id = Text(
        allow_null=True, help_text="The project of requests that name none; null when every request must name one"
    )
    authz_backend = Text(help_text="The authorizer: `allow-all`, `builtin`, `openfga`, or the name of a custom one")
    aws_system_identities_enabled = serializers.BooleanField(
        help_text="Whether warehouses on S3 may use the server's own identity"
    )
    azure_system_identities_enabled = serializers.BooleanField(help_text="The same for Azure")
    gcp_system_identities_enabled = serializers.BooleanField(help_text="The same for Google Cloud")
    queues = serializers.ListField(child=Text(), help_text="Task queues with routes under `/task-queue/`")
    license_status = LicenseStatus()
    console = ConsoleInfo(allow_null=True)


class IcekeeperInfo(ResponseSerializer):
    version = Text(help_text="The release of this server")
    commit_sha = Text(allow_null=True, help_text="The commit that the server was built from, if known")
