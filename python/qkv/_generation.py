"""How a text is written: the settings of its tokens, and the text as it comes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from . import _core
from ._arguments import boolean, number, positive, text, whole

if TYPE_CHECKING:
    from ._types import Generation

# transformers' names, with the engine's and what reads the value.
_SETTINGS: dict[str, tuple[str, Callable[[str, Any], Any]]] = {
    "max_new_tokens": ("max_tokens", positive),
    "max_length": ("max_length", positive),
    "min_new_tokens": ("min_tokens", whole),
    "num_beams": ("beams", positive),
    "no_repeat_ngram_size": ("no_repeat_ngram", whole),
    "temperature": ("temperature", number),
    "top_k": ("top_k", whole),
    "top_p": ("top_p", number),
    "min_p": ("min_p", number),
    "length_penalty": ("length_penalty", number),
    "repetition_penalty": ("repetition_penalty", number),
    "seed": ("seed", whole),
}
NAMES: tuple[str, ...] = (*_SETTINGS, "do_sample")


def choices(work: str, generation: Generation) -> dict[str, Any]:
    """Keywords in transformers' words as the engine's choices."""
    given: dict[str, Any] = {key: value for key, value in generation.items() if value is not None}
    if "do_sample" in given:
        if boolean("do_sample", given.pop("do_sample")):
            given.setdefault("temperature", 1.0)
        elif given.get("temperature"):
            raise _core.Error(f"{work}: do_sample=False is the most probable token, which has no temperature")
        else:
            given["temperature"] = 0.0
    if "max_new_tokens" in given:  # which has precedence, as in transformers
        given.pop("max_length", None)
    return {_SETTINGS[key][0]: _SETTINGS[key][1](key, value) for key, value in given.items()}


def stops(stop: Any) -> list[str]:
    """The texts that end a text."""
    if stop is not None and not isinstance(stop, Iterable):
        raise TypeError(f"stop: expected a text or several, got {stop!r}")
    given = [stop] if isinstance(stop, str) else list(stop or ())
    for one in given:
        if not text("stop", one):
            raise _core.Error("stop: an empty text would end every text")
    return given


def stream(work: Callable[[Callable[[bytes], bool]], Any]) -> Iterator[str]:
    """Runs `work` on a thread of its own and yields what it shows, whole characters at a time."""
    import codecs
    import queue
    import threading

    pieces: queue.SimpleQueue[Any] = queue.SimpleQueue()
    stop = threading.Event()

    def show(piece: bytes) -> bool:
        pieces.put(piece)
        return not stop.is_set()

    def run() -> None:
        try:
            work(show)
            pieces.put(None)
        except BaseException as error:
            pieces.put(error)

    thread = threading.Thread(target=run, daemon=True, name="qkv generate")
    thread.start()
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    try:
        while True:
            piece = pieces.get()
            if piece is None:
                rest = decoder.decode(b"", True)
                if rest:
                    yield rest
                return
            if isinstance(piece, BaseException):
                raise piece
            shown = decoder.decode(piece)
            if shown:
                yield shown
    finally:
        stop.set()
        thread.join()
