"""The explorer's page with what it shows of one image inside, for a notebook or a file: no engine, no network."""

from __future__ import annotations

import base64
import json
import math
import os
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from . import _core, _images, _progress
from ._results import Exploration

View = Literal["attention", "rollout", "relevance", "similarity", "colours", "heads"]
VIEWS: tuple[View, ...] = ("attention", "rollout", "relevance", "similarity", "colours", "heads")

_MODEL = "model"  # its id in the explorer
# As the page (web/app/src/bench.ts): beyond it, it asks for the maps of one block at a time.
_ALL_BLOCKS_BYTES = 96 << 20
# Cosines of all tokens after each block, beyond which only who asks for them gets them.
_SIMILARITY_BYTES = 24 << 20
_CLASSES = 6  # that have their relevance, the most probable ones


def explore(
    core: Any, model: str, image: Any, views: Sequence[str] | None, progress: bool | None
) -> Exploration:
    unknown = [view for view in views or () if view not in VIEWS]
    if unknown or isinstance(views, str) or views is not None and not views:
        raise _core.Error(f"explore: views: expected a list of {', '.join(VIEWS)}, got {views!r}")
    item = _images.only(image, "explore: expected a single image")
    template = _core.explorer_page()
    place = template.find('<script type="module" id="program">')
    if place < 0:
        raise _core.Error("explore: this qkv was built without Node.js, so it has no page of the explorer")
    title = os.path.basename(os.path.normpath(model)) if os.path.exists(model) else model
    recorder = _Recorder(core.explorer(title), item)
    kept: list[str] = []
    with _progress.bar(progress, len(views or VIEWS), "views") as report:
        for view in views or VIEWS:
            if recorder.record(view, asked=views is not None):
                kept.append(view)
            if report:
                report(1)
    first = "" if kept[0] == "attention" else f"#view={kept[0]}"
    recording = {"hash": first, "title": "", "views": kept, "calls": recorder.calls}
    data = json.dumps(recording, ensure_ascii=False).replace("<", "\\u003c")
    page = f'{template[:place]}<script type="application/json" id="recording">{data}</script>\n{template[place:]}'
    return Exploration(model, _images.names([item])[0], kept, page)


class _Recorder:
    """Asks what the page's views ask (web/app/src/views), and keeps the answers under the page's keys."""

    def __init__(self, engine: Any, item: Any) -> None:
        self.calls: list[tuple[str, str]] = []
        self._engine = engine
        (self._model,) = self._ask("models", {})["models"]
        seen = self._ask("image", {"model": _MODEL}, _picture(item))
        self._common = {"model": _MODEL, "image": seen["image"]}
        self._tokens = len(self._model["prefix"]) + math.prod(seen["grid"])
        blocks, heads = self._model["blocks"], self._model["heads"]
        whole = blocks * heads * self._tokens**2 <= _ALL_BLOCKS_BYTES
        # All views rest on the pass.
        self._top = self._ask("pass", {**self._common, "blocks": "all" if whole else [blocks - 1]})["top"]

    def record(self, view: str, asked: bool) -> bool:
        """False if the model has nothing to show there, unless it was asked for by name: then an Error says why."""
        blocks = range(self._model["blocks"])
        if view == "rollout":
            return self._try(asked, [("rollout", {})])
        if view == "relevance":
            classes = [{"class": one["index"]} for one in self._top[:_CLASSES]]
            if not classes and asked:
                raise _core.Error("explore: relevance is of a class, and the model has no classifier")
            return bool(classes) and self._try(asked, [("relevance", one) for one in classes])
        if view == "similarity" and not asked and 4 * len(blocks) * self._tokens**2 > _SIMILARITY_BYTES:
            return False
        if view in ("similarity", "colours"):
            what = "pca" if view == "colours" else view
            return self._try(asked, [("tokens", {"block": block, "what": what}) for block in blocks])
        if view == "heads":
            return self._try(asked, [("heads", {})], of_image=False)
        return True

    def _try(self, asked: bool, requests: list[tuple[str, dict[str, Any]]], of_image: bool = True) -> bool:
        common = self._common if of_image else {"model": _MODEL}
        try:
            for name, more in requests:
                self._ask(name, {**common, **more})
        except _core.Error:
            if asked:
                raise
            return False
        return True

    def _ask(self, name: str, fields: dict[str, Any], arrays: dict[str, Any] | None = None) -> dict[str, Any]:
        answer = self._engine.call(name, _packet(fields, arrays or {}))
        # As the page writes keys (web/app/src/transport/recording.ts).
        key = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        self.calls.append((f"{name} {key}", base64.b64encode(answer).decode()))
        (length,) = struct.unpack_from("<I", answer)
        return json.loads(answer[4 : 4 + length])


def _picture(item: Any) -> dict[str, Any]:
    """The array of a request: a file's bytes, or pixels."""
    import numpy

    if isinstance(item, str):
        try:
            item = Path(item).read_bytes()
        except OSError as error:
            raise _core.Error(f"explore: cannot read {item!r}: {error.strerror}") from None
    if isinstance(item, bytes):
        return {"file": numpy.frombuffer(item, numpy.uint8)}
    pixels = numpy.asarray(item)
    if pixels.ndim == 3 and pixels.shape[2] != 3:
        pixels = pixels[:, :, 0] if pixels.shape[2] <= 2 else pixels[:, :, :3]
    return {"pixels": numpy.ascontiguousarray(pixels)}


def _packet(fields: dict[str, Any], arrays: dict[str, Any]) -> bytes:
    """docs/explore_protocol.md"""
    data, facts = b"", {}
    for name, array in arrays.items():
        raw = array.tobytes()
        facts[name] = {"dtype": "u8", "shape": array.shape, "offset": len(data), "bytes": len(raw)}
        data += raw + bytes(-len(raw) % 8)
    text = json.dumps({**fields, "arrays": facts}).encode()
    return struct.pack("<I", len(text)) + text + bytes(-(4 + len(text)) % 8) + data
