"""The shapes of questions about rights, for the OpenAPI document; `management.api.action_checks` reads them."""

from __future__ import annotations

from typing import Any, Final

from rest_framework import serializers

from icekeeper.kernel.http.serializers import Flag, KebabSerializer, Text
from management.api.action_contexts import ActionField
from management.api.principals import UserOrRole
from management.api.schema import WITH_EXTENSIONS
from management.api.serializers import IdText
from tenancy.models import Securable

MOST_CHECKS: Final = 1000


class ServerActionOperation(KebabSerializer):
    action = ActionField(Securable.Type.SERVER)


class ProjectActionOperation(KebabSerializer):
    action = ActionField(Securable.Type.PROJECT)
    project_id = Text(required=False, allow_null=True, help_text="Default: the project of the request")


class WarehouseActionOperation(KebabSerializer):
    action = ActionField(Securable.Type.WAREHOUSE)
    warehouse_id = IdText()


class NamespaceActionOperation(KebabSerializer):
    action = ActionField(Securable.Type.NAMESPACE)
    warehouse_id = IdText()
    namespace_id = IdText(required=False, help_text="Or `namespace`")
    namespace = serializers.ListField(child=Text(), required=False, help_text="Its levels")


class TabularOperation(KebabSerializer):
    warehouse_id = IdText()
    table_id = IdText(required=False, help_text="As clients know it. Also `view_id`, `generic_table_id`")
    namespace = serializers.ListField(child=Text(), required=False, help_text="Without an id: the levels, and `table`")
    table = Text(required=False, help_text="Its name. Also `view`, `generic_table`")


class TableActionOperation(TabularOperation):
    action = ActionField(Securable.Type.TABLE)


class ViewActionOperation(TabularOperation):
    action = ActionField(Securable.Type.VIEW)


class GenericTableActionOperation(TabularOperation):
    action = ActionField(Securable.Type.GENERIC_TABLE)


class ActionCheckOperation(KebabSerializer):
    """Exactly one of these."""

    server = ServerActionOperation(required=False)
    project = ProjectActionOperation(required=False)
    warehouse = WarehouseActionOperation(required=False)
    namespace = NamespaceActionOperation(required=False)
    table = TableActionOperation(required=False)
    view = ViewActionOperation(required=False)
    generic_table = GenericTableActionOperation(required=False)


class ActionCheckItem(KebabSerializer):
    id = Text(required=False, allow_null=True, help_text="Returned with the answer; default: the place, from 0")
    identity = UserOrRole(required=False, allow_null=True, help_text="Default: the caller")
    operation = ActionCheckOperation()


class ActionsBatchCheckRequest(KebabSerializer):
    checks = serializers.ListField(child=ActionCheckItem(), max_length=MOST_CHECKS)
    error_on_not_found = Flag(
        default=False, help_text="404 for an object that there is not, or that the caller does not see; else a no"
    )


class ActionCheckError(serializers.Serializer[Any]):
    message = Text(help_text="For people")
    type = Text(help_text="`CannotInspectPermissions`, `RoleIdNotFound`, `BadRequestException`, ...")
    code = serializers.IntegerField(help_text="The status that a request for this alone would have")


class ActionCheckResult(KebabSerializer):
    id = Text()
    allowed = serializers.BooleanField()
    error = ActionCheckError(
        required=False, help_text=f"Why there is no answer; `allowed` is false beside it. {WITH_EXTENSIONS}"
    )


class ActionsBatchCheckResponse(KebabSerializer):
    results = serializers.ListField(child=ActionCheckResult(), help_text="In the order of the checks")
