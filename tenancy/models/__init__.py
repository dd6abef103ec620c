"""Django finds models through this package; every other package's `__init__` stays empty."""

from tenancy.models.audit_record import AuditChain, AuditRecord
from tenancy.models.grant import Grant
from tenancy.models.openfga import UndeliveredTuple
from tenancy.models.outbox import ObjectSequence, OutboxEvent, OutboxState
from tenancy.models.role import Role, RoleMember
from tenancy.models.securable import Securable
from tenancy.models.server import Project, RightsVersion, Server, SigningSecret
from tenancy.models.tag import TagAttachment, TagDefinition
from tenancy.models.user import AccessToken, ServiceAccount, User

__all__ = [
    "AccessToken",
    "AuditChain",
    "AuditRecord",
    "Grant",
    "ObjectSequence",
    "OutboxEvent",
    "OutboxState",
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
