from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final, Self
from uuid import UUID

from django.conf import settings
from django.contrib.sessions.base_session import AbstractBaseSession
from django.db import models
from django.db.models import Q

from icekeeper.kernel.ids import new_id

NO_WAREHOUSE: Final = UUID(int=0)
"""The id in rows without a warehouse, so that one unique constraint and one upsert cover every row."""


class EndpointStatistic(models.Model):
    """The number of calls of an endpoint in one hour (UTC), by status code, project and warehouse.

    `endpoint` is `METHOD /route/{pattern}`. `hour` is the start of the hour; `created_at` and `updated_at` are the
    times of the first and the last call in it, the latter null after a single call. The history of a deleted
    warehouse is kept, so `warehouse_id` is not a foreign key.
    """

    project = models.ForeignKey("tenancy.Project", on_delete=models.CASCADE, related_name="+", db_index=False)
    warehouse_id = models.UUIDField(default=NO_WAREHOUSE)
    endpoint = models.CharField(max_length=255)
    status = models.PositiveSmallIntegerField()
    hour = models.DateTimeField()
    count = models.BigIntegerField()
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["project", "hour", "warehouse_id", "endpoint", "status"], name="endpoint_statistic_once_an_hour"
            )
        ]
        indexes = [models.Index(fields=["hour"], name="endpoint_statistic_by_age")]

    def __str__(self) -> str:
        return f"{self.endpoint} {self.status}"


class CallHour(models.Model):
    """Sums of `EndpointStatistic` over endpoints and status codes: the calls of a warehouse in one hour, by result.

    Written by the statement that writes those, so that a chart over many days reads one row an hour and warehouse.
    """

    project = models.ForeignKey("tenancy.Project", on_delete=models.CASCADE, related_name="+", db_index=False)
    warehouse_id = models.UUIDField(default=NO_WAREHOUSE)
    hour = models.DateTimeField()
    succeeded = models.BigIntegerField()
    client_errors = models.BigIntegerField()
    server_errors = models.BigIntegerField()
    commits = models.BigIntegerField(help_text="Successful commits of tables and views, part of `succeeded`.")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "hour", "warehouse_id"], name="call_hour_once")]
        indexes = [models.Index(fields=["hour"], name="call_hour_by_age")]

    def __str__(self) -> str:
        return f"{self.warehouse_id} at {self.hour}"


class LoadDuration(models.Model):
    """How many successful loads of tables of a warehouse took up to `limit_ms` in one hour, and longer than the limit
    before it (`management.load_durations`)."""

    project = models.ForeignKey("tenancy.Project", on_delete=models.CASCADE, related_name="+", db_index=False)
    warehouse_id = models.UUIDField(default=NO_WAREHOUSE)
    hour = models.DateTimeField()
    limit_ms = models.IntegerField("limit", help_text="Milliseconds.")
    count = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "hour", "warehouse_id", "limit_ms"], name="load_duration_once")
        ]
        indexes = [models.Index(fields=["hour"], name="load_duration_by_age")]

    def __str__(self) -> str:
        return f"{self.limit_ms} ms in {self.warehouse_id} at {self.hour}"


class ConsoleSessionQuerySet(models.QuerySet["ConsoleSession"]):
    def live(self, at: datetime) -> Self:
        """Return the sessions that are still valid at a time, with user and access token in the same statement.

        The user exists and is not blocked, and the access token of the sign-in, if any, was neither revoked nor
        expired.
        """
        idle_since = at - timedelta(seconds=settings.ICEKEEPER.console.session_idle_timeout)
        has_token = Q(access_token__revoked_at=None, access_token__expires_at__gt=at)
        return self.filter(
            Q(access_token=None) | has_token,
            user__deleted_at=None,
            user__is_active=True,
            expire_date__gt=at,
            last_seen_at__gt=idle_since,
        ).select_related("user", "access_token")

    def ended_before(self, at: datetime) -> Self:
        """Return the sessions that are no longer valid at a time, for whatever reason."""
        return self.exclude(pk__in=self.model.objects.live(at).select_related(None).values("pk"))


class ConsoleSession(AbstractBaseSession):
    """A session of the console. Its key is in a cookie of the browser; here is only the hash of the key."""

    class Method(models.TextChoices):
        """How the user signed in."""

        PROVIDER = "provider"
        TOKEN = "token"  # noqa: S105 - a name
        PASSWORD = "password"  # noqa: S105 - a name
        ADDRESS = "address"

    id = models.UUIDField(primary_key=True, default=new_id, help_text="Id of the session in lists and audit records.")
    session_key = models.CharField(max_length=64, unique=True, help_text="SHA-256 of the session key, in hex.")
    expire_date = models.DateTimeField(help_text="When the session expires in any case.")
    user = models.ForeignKey("tenancy.User", on_delete=models.CASCADE, related_name="+")
    access_token = models.ForeignKey(
        "tenancy.AccessToken", on_delete=models.CASCADE, null=True, related_name="+", help_text="Token of the sign-in."
    )
    method = models.CharField(max_length=16, choices=Method.choices)
    created_at = models.DateTimeField(help_text="When the user signed in.")
    last_seen_at = models.DateTimeField(help_text="Last request; written at most once a minute.")
    address = models.CharField(max_length=64, blank=True, help_text="Address of the browser at sign-in.")
    user_agent = models.CharField(max_length=256, blank=True, help_text="User-Agent of the browser at sign-in.")

    objects = ConsoleSessionQuerySet.as_manager()  # type: ignore[assignment, misc]  # Django's manager saves rows

    class Meta:
        verbose_name = "console session"
        indexes = [models.Index(fields=["expire_date"], name="console_session_by_expiry")]

    def __str__(self) -> str:
        return f"{self.method} of {self.user_id}"


class SignInAddressQuerySet(models.QuerySet["SignInAddress"]):
    def unused(self) -> Self:
        return self.filter(used_at=None)

    def valid(self, at: datetime) -> Self:
        """Return the addresses that sign in at a time."""
        return self.unused().filter(expires_at__gt=at)


class SignInAddress(models.Model):
    """A one-time address that signs a user in. Its code is in the address; here is only the hash of the code.

    A used one is kept until it expires, so that the audit record of another use names the user.
    """

    digest = models.CharField(primary_key=True, max_length=64, help_text="SHA-256 of the code, in hex.")
    user = models.ForeignKey("tenancy.User", on_delete=models.CASCADE, related_name="+")
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)

    objects = SignInAddressQuerySet.as_manager()

    class Meta:
        verbose_name = "sign-in address"
        verbose_name_plural = "sign-in addresses"

    def __str__(self) -> str:
        return f"for {self.user_id} until {self.expires_at:%Y-%m-%d %H:%M}"


class PasswordAttempt(models.Model):
    """The number of sign-ins with a password in a period of time, for one user id from one address, or for an address.

    A successful one deletes the row of the user id and address.
    """

    key = models.CharField(
        primary_key=True, max_length=64, help_text="SHA-256 of user id and address, or of the address, in hex."
    )
    attempts = models.PositiveIntegerField()
    started_at = models.DateTimeField(help_text="When the period began.")

    class Meta:
        verbose_name = "password attempt"
        indexes = [models.Index(fields=["started_at"], name="password_attempt_by_age")]

    def __str__(self) -> str:
        return f"{self.attempts} since {self.started_at:%Y-%m-%d %H:%M}"


class SqlQuery(models.Model):
    """A query of a user on the page SQL. Its text may contain personal data: only this user can read it.

    While it runs `finished_at` is null, which one row of a user can have at most.
    """

    class Status(models.TextChoices):
        RUNNING = "running"
        SUCCEEDED = "succeeded"
        FAILED = "failed"

    id = models.UUIDField(primary_key=True, default=new_id)
    user = models.ForeignKey("tenancy.User", on_delete=models.CASCADE, related_name="+", db_index=False)
    warehouse_id = models.UUIDField(help_text="Not a foreign key: the text outlives the warehouse.")
    sql = models.TextField()
    status = models.CharField(max_length=16, choices=Status.choices, default=Status.RUNNING)
    row_count = models.PositiveIntegerField(null=True, help_text="Rows on the page, null unless it succeeded.")
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)

    class Meta:
        verbose_name = "SQL query"
        verbose_name_plural = "SQL queries"
        constraints = [
            models.UniqueConstraint(fields=["user"], condition=Q(finished_at=None), name="sql_query_one_runs_a_user")
        ]
        indexes = [models.Index(fields=["user", "-started_at"], name="sql_query_by_user")]

    def __str__(self) -> str:
        return f"{self.status} of {self.user_id}"
