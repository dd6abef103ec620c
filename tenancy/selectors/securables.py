from __future__ import annotations

from tenancy.authz.securables import Ref, securable_id
from tenancy.models import Securable


def is_securable(ref: Ref) -> bool:
    """Whether there is such an object: for types whose rights alone are asked about."""
    return Securable.objects.filter(pk=securable_id(*ref)).exists()
