from __future__ import annotations

from importlib import import_module

from django.apps import AppConfig


class DeploymentConfig(AppConfig):
    """The composition root as an app: it has no models, only deployment checks."""

    name = "icekeeper"

    def ready(self) -> None:
        import_module("icekeeper.checks")
