"""DRF parser, renderer and negotiation of the APIs: strict JSON, whatever the Accept header is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO, Any

from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from icekeeper.kernel.json.strict import read_json_object, write_json


class StrictJSONParser(BaseParser):
    """Accepts any content type: every request body of these APIs is a JSON object."""

    media_type = "*/*"

    def parse(self, stream: IO[bytes], media_type: str | None = None, parser_context: Any = None) -> dict[str, Any]:
        return read_json_object(stream.read())


class JSONRenderer(BaseRenderer):
    media_type = "application/json"
    format = "json"

    def render(self, data: Any, accepted_media_type: str | None = None, renderer_context: Any = None) -> bytes:
        return b"" if data is None else write_json(data)


class FirstFormat(BaseContentNegotiation):
    """No negotiation: a view's first parser and first renderer."""

    def select_parser(self, request: Request, parsers: Iterable[BaseParser]) -> BaseParser:
        return next(iter(parsers))

    def select_renderer(
        self, request: Request, renderers: Iterable[BaseRenderer], format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        renderer = next(iter(renderers))
        return renderer, renderer.media_type
