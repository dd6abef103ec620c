from __future__ import annotations

from typing import Any, ClassVar

from django.contrib.auth.models import AbstractBaseUser, BaseUserManager
from django.db import models

from icekeeper.kernel.names import name_key

MAX_NAME_KEY_LENGTH = 2048
"""Characters; what a name unfolds to beyond them is not searched."""


class NameKeyField(models.CharField):  # type: ignore[type-arg]  # Django's own cannot be subscripted
    """The form of the row's `name` that searches look at; it follows the name whenever the row is saved."""

    def pre_save(self, model_instance: models.Model, add: bool) -> Any:  # noqa: FBT001 - Django's own signature
        setattr(model_instance, self.attname, name_key(model_instance.name)[:MAX_NAME_KEY_LENGTH])  # type: ignore[attr-defined]
        return super().pre_save(model_instance, add)


class UserManager(BaseUserManager["User"]):
    def create_user(self, *, id: str, name: str = "", email: str = "") -> User:  # noqa: A002
        """A user known by an identity provider: no password can sign them in."""
        user = self.model(id=id, name=name, email=email)
        user.set_unusable_password()
        user.save(using=self._db)
        return user


class User(AbstractBaseUser):
    """A person or program, the same in API, grants, audit and console. `id` is `<provider>~<subject>`.

    One with `deleted_at` is gone for every API; the row is kept, since others name who it was. One without a name was
    named by others and never called: the first call registers them.
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
        """Who says the name and mail of a user."""

        TOKEN = "token"  # noqa: S105 - a name
        ADMINISTRATOR = "administrator"
        USER = "user"

    id = models.CharField(primary_key=True, max_length=255)
    name = models.CharField(max_length=255, blank=True)
    name_key = NameKeyField(max_length=MAX_NAME_KEY_LENGTH, blank=True, editable=False, default="")
    email = models.CharField(max_length=320, blank=True)
    user_type = models.CharField(max_length=16, choices=Type.choices, default=Type.HUMAN)
    last_updated_with = models.CharField(max_length=32, choices=Provenance.choices, default=Provenance.CREATE_ENDPOINT)
    origin = models.CharField(max_length=16, choices=Origin.choices, default=Origin.USER, db_default=Origin.USER)
    is_active = models.BooleanField(default=True)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)
    deleted_at = models.DateTimeField(null=True)

    objects: ClassVar[UserManager] = UserManager()

    USERNAME_FIELD = "id"
    EMAIL_FIELD = "email"
    REQUIRED_FIELDS: ClassVar[list[str]] = []

    @property
    def has_called(self) -> bool:
        """Whether they are registered, by themselves or by an administrator, and not only named in grants and roles."""
        return bool(self.name)

    def __str__(self) -> str:
        return self.name or self.id
