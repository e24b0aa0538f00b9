"""A pass with its activations: kept and changed by name."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Union

from . import _core
from ._arguments import array

if TYPE_CHECKING:
    import numpy

    # What a change makes of an activation, [images, …], which has this name; None: what is in it then.
    Change = Callable[["numpy.ndarray", str], Union["numpy.ndarray", None]]
    Edit = Union[float, "numpy.ndarray", Change]

# Activations whose second axis are heads, of which one can be named: "blocks.3.attn.heads.5".
_OF_HEAD = re.compile(r"(.*\.(?:q|k|v|scores|weights|heads))\.(\d+)")


class Run(Mapping[str, "numpy.ndarray"]):
    """What a pass left: its outputs ("logits" or "pooled", "tokens", …) and the activations that were asked for, by name."""

    def __init__(self, arrays: dict[str, numpy.ndarray], inputs: dict[str, numpy.ndarray]) -> None:
        self._arrays = arrays
        self.inputs = inputs
        """What the model read: "pixels", or "input_ids" and "attention_mask", "decoder_input_ids"."""

    def __getitem__(self, name: str) -> numpy.ndarray:
        if name not in self._arrays:
            raise KeyError(f"{name}: ask for it by cache=[…]; here are {', '.join(self._arrays)}")
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    @property
    def logits(self) -> numpy.ndarray:
        """[images, classes], or of a text model [texts, tokens, vocabulary]."""
        return self["logits"]

    def __repr__(self) -> str:
        return "<qkv.Run " + ", ".join(f"{name} {list(array.shape)}" for name, array in self._arrays.items()) + ">"


def run(
    core: Any,
    inputs: dict[str, numpy.ndarray],
    cache: str | Iterable[str] | None,
    edits: Mapping[str, Edit] | None,
) -> Run:
    """core: of a model built as its files store it. inputs: as of Run.inputs."""
    names: list[str] = core.activations
    if edits is not None and not isinstance(edits, Mapping):
        raise TypeError(f"run: edits: expected a dict of names and changes, got {edits!r}")
    if cache is not None and not isinstance(cache, Iterable):
        raise TypeError(f'run: cache: expected names of activations, or "*" for all, got {cache!r}')
    kept = [name for pattern in ([cache] if isinstance(cache, str) else cache or ()) for name in _matching(pattern, names)]
    changes: dict[str, list[tuple[int | None, Edit]]] = {}
    for pattern, edit in (edits or {}).items():
        if edit is None:
            raise TypeError(f"run: edits: {pattern}: None changes nothing; expected a number, an array or a function")
        of_head = _OF_HEAD.fullmatch(pattern) if isinstance(pattern, str) else None
        head = int(of_head[2]) if of_head else None
        for name in _matching(of_head[1] if of_head else pattern, names):
            changes.setdefault(name, []).append((head, edit))

    def change(name: str, activation: numpy.ndarray) -> numpy.ndarray:
        for head, edit in changes[name]:
            _apply(name, activation, head, edit)
        return activation

    rest = dict(inputs)
    pixels = rest.pop("pixels", None)
    asked = kept, list(changes), change if changes else None
    arrays = core.forward_texts(rest, [], pixels, *asked) if rest else core.forward(pixels, [], [], *asked)
    order = {name: i for i, name in enumerate(names)}
    return Run(dict(sorted(arrays.items(), key=lambda item: order.get(item[0], len(names)))), inputs)


def _matching(pattern: Any, names: list[str]) -> list[str]:
    if not isinstance(pattern, str):
        raise TypeError(f"run: the names of activations are texts, got {pattern!r}")
    found = fnmatch.filter(names, pattern)
    if not found:
        import difflib  # slow to import

        near = difflib.get_close_matches(pattern, names, 3, 0.5)
        raise _core.Error(
            f"run: no activation is called {pattern}; "
            + (f"near: {', '.join(near)}; " if near else "")
            + "model.activations has all"
        )
    return found


def _apply(name: str, activation: numpy.ndarray, head: int | None, edit: Edit) -> None:
    """Changes it in place."""
    import numpy

    part = activation
    if head is not None:
        if head >= activation.shape[1]:
            raise _core.Error(f"run: {name} has heads 0 to {activation.shape[1] - 1}, not {head}")
        part = activation[:, head : head + 1]
    value = edit(part, name if head is None else f"{name}.{head}") if callable(edit) else edit
    if value is None or value is part:
        return
    try:
        part[...] = array("the value", value, numpy.float32)
    except (ValueError, TypeError) as error:
        raise _core.Error(
            f"run: {name}: an edit is a number, an array that fits {list(part.shape)}, or a function that gives one: "
            f"{error}"
        ) from None
