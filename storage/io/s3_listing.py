"""Parses pages of ListObjectsV2: botocore would take forty times as long, mostly for unused modification times."""

from __future__ import annotations

from typing import Any, Final
from xml.etree import ElementTree as ET  # botocore uses it for the same responses

from storage.io.bucket import listed_size

OK: Final = 200


def parse_objects(response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: Any) -> None:
    """Move the objects from the body of a list to the result, with `Key` and `Size` alone: `before-parse` of botocore.

    botocore decodes the names afterwards and parses the rest of the body, or all of it if it is no list.
    """
    if response_dict["status_code"] != OK:
        return
    try:
        root = ET.fromstring(response_dict["body"])  # noqa: S314 - as botocore does
    except ET.ParseError:
        return
    if _tag(root) != "ListBucketResult":
        return
    objects = [_text_by_tag(each) for each in root if _tag(each) == "Contents"]
    root[:] = [each for each in root if _tag(each) != "Contents"]
    response_dict["body"] = ET.tostring(root)
    customized_response_dict["Contents"] = [
        {"Key": each["Key"], "Size": listed_size(each.get("Size"))} for each in objects if "Key" in each
    ]


def _tag(element: ET.Element) -> str:
    return element.tag.rpartition("}")[2]


def _text_by_tag(element: ET.Element) -> dict[str, str]:
    return {_tag(child): child.text or "" for child in element}
