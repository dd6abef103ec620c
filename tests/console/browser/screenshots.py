"""Create the pictures of the console in `docs/images/` from a catalog that is created for them.

    python -m tests.console.browser.screenshots [NAME ...]

With names, only those of `PICTURES`. It needs Chromium and no other part; the server runs on SQLite and local files.
"""

from __future__ import annotations

import base64
import struct
import sys
import tempfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from playwright.sync_api import Browser, sync_playwright

from tests.console.browser.picture_catalog import PictureCatalog
from tests.parts import chromium

FOLDER = Path(__file__).resolve().parents[3] / "docs" / "images"
MAX_BYTES = 150_000
FREQUENT = 96
"""Colours of a picture that are kept for their frequency."""

Pixels = npt.NDArray[np.uint8]

READ_PIXELS = """async png => {
    const image = await createImageBitmap(await (await fetch("data:image/png;base64," + png)).blob());
    const canvas = new OffscreenCanvas(image.width, image.height).getContext("2d");
    canvas.drawImage(image, 0, 0);
    const pixels = canvas.getImageData(0, 0, image.width, image.height).data;
    let text = "";
    for (let at = 0; at < pixels.length; at += 8192) text += String.fromCharCode(...pixels.subarray(at, at + 8192));
    return btoa(text);
}"""
"""Chromium decodes a picture into the bytes of its pixels."""


@dataclass(frozen=True)
class Picture:
    """A page of the console: `path` below `/ui/`, with the ids of `PictureCatalog` in braces."""

    path: str
    is_dark: bool = False
    is_phone: bool = False
    height: int = 800

    @property
    def width(self) -> int:
        return 390 if self.is_phone else 1440


TABLE = "warehouse/{warehouse}/table/{table}"
PICTURES = {
    "overview": Picture("?period=7d", height=900),
    "overview-dark": Picture("?period=7d", is_dark=True, height=900),
    "table": Picture(f"{TABLE}/", height=900),
    "snapshots": Picture(f"{TABLE}/snapshots/"),
    "snapshots-dark": Picture(f"{TABLE}/snapshots/", is_dark=True),
    "access": Picture(f"{TABLE}/access/?who=user:local~ben&action=write_data&view=matrix", height=1000),
    "warehouse": Picture("warehouse/add/", height=900),
    "tasks": Picture("task/?warehouse={warehouse}"),
    "deleted": Picture("deleted/?warehouse={warehouse}", height=600),
    "restore": Picture(
        "deleted/restore/?warehouse={warehouse}&target=table:{dropped}&target=table:{replaced}", height=600
    ),
    "phone": Picture(f"{TABLE}/", is_phone=True),
    "phone-dark": Picture(f"{TABLE}/access/", is_dark=True, is_phone=True),
}


def take(browser: Browser, catalog: PictureCatalog, picture: Picture) -> bytes:
    context = browser.new_context(
        viewport={"width": picture.width, "height": picture.height},
        color_scheme="dark" if picture.is_dark else "light",
        storage_state=catalog.signed_in(browser),
    )
    page = context.new_page()
    response = page.goto(f"{catalog.base_url}/ui/{picture.path.format_map(catalog.ids)}")
    assert response is not None
    assert response.ok, f"{response.url}: {response.status}"
    page.wait_for_load_state("networkidle")
    pixels = page.context.new_page().evaluate(READ_PIXELS, base64.b64encode(page.screenshot()).decode())
    context.close()
    width = picture.width
    return write_png(np.frombuffer(base64.b64decode(pixels), np.uint8).reshape(-1, width, 4)[:, :, :3])


def write_png(pixels: Pixels) -> bytes:
    """Return the picture with 256 colours, a third of the size: the most frequent ones and the most distinct others."""
    height, width, _ = pixels.shape
    colours, indexes, counts = np.unique(pixels.reshape(-1, 3), axis=0, return_inverse=True, return_counts=True)
    kept, nearest = _choose_colours(colours.astype(np.int32), counts)
    rows = nearest[indexes.reshape(-1)].reshape(height, width)
    lines = np.hstack([np.zeros((height, 1), np.uint8), rows]).tobytes()  # each with the filter 0
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
        (b"PLTE", kept.tobytes()),
        (b"IDAT", zlib.compress(lines, 9)),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        for kind, content in chunks
    )


def _choose_colours(colours: npt.NDArray[np.int32], counts: npt.NDArray[np.int64]) -> tuple[Pixels, Pixels]:
    """Return 256 of the colours, and for each colour the index of the nearest of them."""
    chosen = list(np.argsort(-counts)[:FREQUENT])
    distances = np.stack([((colours - colours[each]) ** 2).sum(axis=1) for each in chosen])
    while len(chosen) < min(256, len(colours)):
        chosen.append(distances.min(axis=0).argmax())
        distances = np.vstack([distances, ((colours - colours[chosen[-1]]) ** 2).sum(axis=1)])
    return colours[chosen].astype(np.uint8), distances.argmin(axis=0).astype(np.uint8)


def main(names: list[str]) -> int:
    wanted = names or list(PICTURES)
    program = chromium.find_program()
    if program is None:
        print("Chromium is not on this machine. Debian, Ubuntu: apt install chromium", file=sys.stderr)
        return 1
    too_large = 0
    with (
        tempfile.TemporaryDirectory(prefix="lake-") as home,
        PictureCatalog(Path(home)) as catalog,
        sync_playwright() as playwright,
    ):
        catalog.fill()
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for name in wanted:
            image = take(browser, catalog, PICTURES[name])
            (FOLDER / f"console-{name}.png").write_bytes(image)
            print(f"{name}: {len(image):,} bytes", flush=True)
            too_large += len(image) > MAX_BYTES
        browser.close()
    return int(too_large > 0)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
