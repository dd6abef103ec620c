from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from tenancy.actor import INTERNAL
from tenancy.services.bootstrap import AlreadyBootstrapped, bootstrap


class Command(BaseCommand):
    help = (
        "Bootstrap the catalog: make the default project and accept the terms of use (the Apache License 2.0) in the "
        "name of the operator. Works once; later calls say so and change nothing."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            bootstrap(actor=INTERNAL, accept_terms_of_use=True)
        except AlreadyBootstrapped:
            self.stdout.write("The catalog is bootstrapped already.")
        else:
            self.stdout.write("The catalog is bootstrapped.")
