"""Explanations of permission checks."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from catalog.objects.names import name_objects
from management.api.base import ManagementViewSet
from management.api.explanations.schema import describe_explanations
from management.api.explanations.serializers import ExplainRequest, ExplainResponse
from management.api.permissions.checks import read_check
from tenancy.authz.action_names import ACTION_NAMES
from tenancy.selectors.explanations import explain_for


@describe_explanations
class ExplanationViewSet(ManagementViewSet):
    reading_actions = {"explain"}

    def explain(self, request: Request) -> Response:
        check = read_check(self, ExplainRequest, ACTION_NAMES)
        explained = explain_for(
            actor=self.actor,
            grantee=check.grantee,
            ref=check.target.ref,
            action=check.action,
            missing=check.target.missing,
            name_objects=name_objects,
        )
        return self.respond(ExplainResponse, explained)
