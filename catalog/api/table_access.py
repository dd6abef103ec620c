"""How engines get at a table's files with credentials of their own; `signing` has the other way."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from rest_framework.request import Request

from catalog.api.base import IcebergView
from catalog.api.operations import table_access as operations
from catalog.models import Tabular


class TableCredentialsView(IcebergView):
    @operations.load_credentials
    def get(self, request: Request, **_: Any) -> HttpResponse:
        return self.credentials(request, Tabular.Kind.TABLE)
