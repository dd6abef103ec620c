from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar, Final, Self

from django.contrib.auth.hashers import check_password, make_password
from django.contrib.auth.models import AbstractBaseUser, BaseUserManager
from django.db import models
from django.db.models import Q

from icekeeper.kernel.ids import new_id
from icekeeper.kernel.names import name_key
from tenancy.models.querysets import VisibleQuerySet

MAX_NAME_KEY_LENGTH = 2048
"""Characters; search ignores the rest of a normalised name."""


class NameKeyField(models.CharField):  # type: ignore[type-arg]  # Django's own cannot be subscripted
    """The normalised `name` of the row, for searches; written whenever the row is saved."""

    def pre_save(self, model_instance: models.Model, add: bool) -> Any:  # noqa: FBT001 - Django's own signature
        setattr(model_instance, self.attname, name_key(model_instance.name)[:MAX_NAME_KEY_LENGTH])  # type: ignore[attr-defined]
        return super().pre_save(model_instance, add)


class UserQuerySet(VisibleQuerySet["User"]):
    def existing(self) -> Self:
        """Return the users who are not deleted."""
        return self.filter(deleted_at__isnull=True)


class UserManager(BaseUserManager["User"]):
    def create_user(self, *, id: str, name: str = "", email: str = "") -> User:  # noqa: A002
        """Create a user without a usable password: an identity provider signs them in."""
        user = self.model(id=id, name=name, email=email)
        user.set_unusable_password()
        user.save(using=self._db)
        return user


class User(AbstractBaseUser):
    """A user, human or application: the same in API, grants, audit and console.

    A user with `deleted_at` exists for no API; the row stays, since other rows name them. A user without a name
    was only named in grants or roles: the first call registers them.
    """

    class Type(models.TextChoices):
        HUMAN = "human"
        APPLICATION = "application"

    class Provenance(models.TextChoices):
        CREATE_ENDPOINT = "create-endpoint"
        CONFIG_CALL_CREATION = "config-call-creation"
        UPDATE_ENDPOINT = "update-endpoint"
        ROLE_PROVIDER = "role-provider"

    class Origin(models.TextChoices):
        """Where name and mail of a user come from."""

        TOKEN = "token"  # noqa: S105 - a name
        ADMINISTRATOR = "administrator"
        USER = "user"

    id = models.CharField(primary_key=True, max_length=255, help_text="PROVIDER~SUBJECT.")
    name = models.CharField(max_length=255, blank=True)
    name_key = NameKeyField(max_length=MAX_NAME_KEY_LENGTH, blank=True, editable=False, default="")
    email = models.CharField(max_length=320, blank=True)
    user_type = models.CharField(max_length=16, choices=Type.choices, default=Type.HUMAN)
    last_updated_with = models.CharField(
        max_length=32,
        choices=Provenance.choices,
        default=Provenance.CREATE_ENDPOINT,
        help_text="What last wrote name and mail.",
    )
    origin = models.CharField(
        max_length=16,
        choices=Origin.choices,
        default=Origin.USER,
        db_default=Origin.USER,
        help_text="Where name and mail come from.",
    )
    is_active = models.BooleanField(default=True, help_text="Blocked users are denied, whatever their provider says.")
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)
    deleted_at = models.DateTimeField(null=True, help_text="When the user was deleted.")

    objects = UserManager.from_queryset(UserQuerySet)()

    USERNAME_FIELD = "id"
    EMAIL_FIELD = "email"
    REQUIRED_FIELDS: ClassVar[list[str]] = []

    def check_password(self, raw_password: str | None) -> bool:
        """Do what Django does, but never replace a password that was set meanwhile by a stronger hash of this one."""
        verified = self.password

        def store_stronger_hash(raw_password: str) -> None:
            encoded = make_password(raw_password)
            if User.objects.filter(pk=self.pk, password=verified).update(password=encoded):
                self.password = encoded

        return check_password(raw_password, verified, store_stronger_hash)

    @property
    def has_called(self) -> bool:
        """Whether the user is registered, by a call or by an administrator, and not only named in grants and roles."""
        return bool(self.name)

    def __str__(self) -> str:
        return self.name or self.id


SERVICE_ACCOUNT_PREFIX: Final = "icekeeper~"


class ServiceAccountQuerySet(VisibleQuerySet["ServiceAccount"]):
    def existing(self) -> Self:
        """Return the accounts whose user is not deleted."""
        return self.filter(user__deleted_at=None)

    def named(self, name: str) -> Self:
        """Return the accounts with a name, however it is spelled."""
        return self.filter(name_key=name_key(name))


class ServiceAccount(models.Model):
    """A program that only this server knows: the user `icekeeper~<id>`, who signs in with access tokens."""

    id = models.UUIDField(primary_key=True, default=new_id)
    user = models.OneToOneField("tenancy.User", on_delete=models.CASCADE, related_name="service_account")
    name = models.CharField(max_length=255, help_text="Unique on the server, ignoring case.")
    name_key = models.CharField(max_length=2048, help_text="Normalised name, which is unique.")
    description = models.TextField(blank=True)
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=255, help_text="User id of the actor who created the account.")

    objects = ServiceAccountQuerySet.as_manager()

    class Meta:
        verbose_name = "service account"
        constraints = [models.UniqueConstraint(fields=["name_key"], name="service_account_name_once")]

    def __str__(self) -> str:
        return self.name


class AccessTokenQuerySet(VisibleQuerySet["AccessToken"]):
    def of_user(self, user_id: str) -> Self:
        return self.filter(user_id=user_id)

    def live(self, at: datetime) -> Self:
        """Return the tokens that are neither revoked nor expired at a time."""
        return self.filter(revoked_at=None, expires_at__gt=at)

    def ended_before(self, at: datetime) -> Self:
        """Return the tokens that were revoked or expired before a time."""
        return self.filter(Q(expires_at__lt=at) | Q(revoked_at__lt=at))


class AccessToken(models.Model):
    """A token that this server issued to a user: a personal token, or a secret of a service account.

    The token itself is returned once and not stored. A rotated token expires at `expires_at`, and `replaced_by` is the
    new one. A token that was created with another one of the same user has `not_after`: neither it nor what replaces it
    expires later.
    """

    id = models.UUIDField(primary_key=True, default=new_id)
    user = models.ForeignKey("tenancy.User", on_delete=models.CASCADE, related_name="access_tokens", db_index=False)
    name = models.CharField(max_length=255, help_text="Name that the user gave the token.")
    prefix = models.CharField(
        max_length=32, help_text="Beginning of the token up to its secret, by which users recognise it."
    )
    digest = models.CharField(max_length=64, help_text="SHA-256 of the token, in hex.")
    scopes = models.CharField(max_length=255, help_text="Scopes that limit the token, separated by spaces.")
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=255, help_text="User id of the actor who created the token.")
    created_with = models.UUIDField(null=True, help_text="Access token that the actor used, if any.")
    expires_at = models.DateTimeField()
    not_after = models.DateTimeField(null=True, help_text="Latest expiry of the token and of all that replace it.")
    revoked_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True, help_text="Last use; recorded with a delay of up to 30 seconds.")
    replaced_by = models.OneToOneField("self", on_delete=models.SET_NULL, null=True, related_name="replaces")

    objects = AccessTokenQuerySet.as_manager()

    class Meta:
        verbose_name = "access token"
        indexes = [
            models.Index(fields=["user", "id"], name="access_token_of_user"),
            models.Index(fields=["expires_at"], name="access_token_by_expiry"),
            models.Index(fields=["revoked_at"], name="access_token_by_revocation"),
        ]

    def __str__(self) -> str:
        return f"{self.prefix}… of {self.user_id}"
