"""Django finds models through this package; every other package's `__init__` stays empty."""

from tenancy.models.project import Project
from tenancy.models.securable import Securable
from tenancy.models.server import Server
from tenancy.models.user import User

__all__ = ["Project", "Securable", "Server", "User"]
