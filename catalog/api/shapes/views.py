from __future__ import annotations

from typing import Any

from rest_framework import serializers

from catalog.api.shapes.fields import string_map
from catalog.api.shapes.specification_object import REST_SPEC, VIEW_SPEC, SpecificationObject
from catalog.api.shapes.table_parts import TableSchema
from catalog.iceberg.views.updates import VIEW_HANDLERS
from icekeeper.kernel.http.serializers import KebabSerializer, Text


class ViewMetadata(SpecificationObject):
    """The view's metadata, exactly as it lies in the file at `metadata-location`."""

    link = VIEW_SPEC


class ViewVersion(SpecificationObject):
    """A version: its representations, each the query in one dialect."""

    link = VIEW_SPEC


class ViewRequirement(SpecificationObject):
    """What must be true of the view, else nothing is done (409)."""

    link = REST_SPEC
    type = serializers.ChoiceField(["assert-view-uuid"])


class ViewUpdate(SpecificationObject):
    """One change, applied after those before it."""

    link = REST_SPEC
    action = serializers.ChoiceField(sorted(VIEW_HANDLERS))


class CreateViewRequest(KebabSerializer):
    name = Text()
    location = Text(
        required=False,
        allow_null=True,
        help_text="A folder in the warehouse that neither lies in another one's folder nor holds one. Default: "
        "`<location of the namespace>/<view uuid>`",
    )
    schema = TableSchema()
    view_version = ViewVersion()
    properties = string_map(required=False, allow_null=True)


class LoadViewResult(KebabSerializer):
    metadata_location = Text()
    metadata = ViewMetadata()
    config = string_map(help_text="Settings for this view; empty on local files")


class RegisterViewRequest(KebabSerializer):
    name = Text()
    metadata_location = Text(help_text="A metadata file in the warehouse")


class CommitViewRequest(serializers.Serializer[Any]):
    requirements = ViewRequirement(many=True, required=False, allow_null=True)
    updates = ViewUpdate(many=True, required=False, allow_null=True)
