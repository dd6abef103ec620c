"""Child process that decodes the manifest list and the manifests of one snapshot and sums up its files.

Frames: `S` and a JSON object with the partition specs, the target size and the limits; `L` and a manifest list; `M`, a
spec id (or -1) in four bytes, and a manifest; `E` for the summary. A response has a member `error` for an unreadable
file.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any, Final

from catalog.iceberg.file_totals import FileTotals
from catalog.iceberg.manifests import ManifestCounter, ManifestUnreadable, SpecField, read_manifest_list
from icekeeper.kernel.bounded_program import serve_frames

PROGRAM: Final = "catalog.programs.read_manifests"
MAX_FRAME: Final = 80 * 1024 * 1024
SPEC_ID_BYTES: Final = 4


class Session:
    def __init__(self) -> None:
        self._counter = ManifestCounter(FileTotals(1), {}, 0)
        self._max_manifests = 0

    def respond(self, frame: bytes) -> Any:
        kind, content = frame[:1], frame[1:]
        try:
            if kind == b"S":
                return self._start(json.loads(content))
            if kind == b"L":
                return [asdict(each) for each in read_manifest_list(content, limit=self._max_manifests)]
            if kind == b"M":
                spec_id = int.from_bytes(content[:SPEC_ID_BYTES], signed=True)
                return self._counter.count(content[SPEC_ID_BYTES:], None if spec_id < 0 else spec_id)
        except ManifestUnreadable as error:
            return {"error": str(error)}
        return self._counter.summary()

    def _start(self, given: dict[str, Any]) -> int:
        specs = {
            int(spec_id): [SpecField(name, transform) for name, transform in fields]
            for spec_id, fields in given["specs"].items()
        }
        self._counter = ManifestCounter(FileTotals(given["target"]), specs, given["max-files"])
        self._max_manifests = given["max-manifests"]
        return 0


if __name__ == "__main__":
    serve_frames(Session().respond, max_frame=MAX_FRAME)
