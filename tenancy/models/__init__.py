"""Django finds models through this package; every other package's `__init__` stays empty."""

from tenancy.models.access_token import AccessToken
from tenancy.models.audit_record import AuditChain, AuditRecord
from tenancy.models.grant import Grant
from tenancy.models.project import Project
from tenancy.models.rights_version import RightsVersion
from tenancy.models.role import Role
from tenancy.models.role_member import RoleMember
from tenancy.models.securable import Securable
from tenancy.models.server import Server
from tenancy.models.service_account import ServiceAccount
from tenancy.models.signing_secret import SigningSecret
from tenancy.models.tag_attachment import TagAttachment
from tenancy.models.tag_definition import TagDefinition
from tenancy.models.undelivered_tuple import UndeliveredTuple
from tenancy.models.user import User

__all__ = [
    "AccessToken",
    "AuditChain",
    "AuditRecord",
    "Grant",
    "Project",
    "RightsVersion",
    "Role",
    "RoleMember",
    "Securable",
    "Server",
    "ServiceAccount",
    "SigningSecret",
    "TagAttachment",
    "TagDefinition",
    "UndeliveredTuple",
    "User",
]
