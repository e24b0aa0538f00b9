"""Progress by tqdm, where it is installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def bar(progress: bool | None, total: int | None, unit: str) -> Iterator[Callable[[int], object] | None]:
    """A function that takes how many more are done, or None. progress None: shown for long work on a terminal."""
    if progress not in (None, True, False):
        raise TypeError(f"progress: expected True, False or None, got {progress!r}")
    if progress is False or (total is not None and total < 2):
        yield None
        return
    tqdm = _tqdm() if progress else _tqdm_if_there()
    if tqdm is None:
        yield None
        return
    # disable=None: tqdm shows nothing where the output is no terminal; delay: short work shows nothing.
    disable, delay = (False, 0.0) if progress else (None, 1.0)
    with tqdm(total=total, unit=f" {unit}", disable=disable, delay=delay, leave=bool(progress)) as shown:
        yield shown.update


class Steps:
    """A bar over steps whose number may only be known later. progress as in `bar`."""

    def __init__(self, progress: bool | None, name: str = "") -> None:
        self._progress, self._name = progress, name
        self._bar: Any = None
        if progress:
            _tqdm()

    def show(self, step: int, steps: int, words: dict[str, object]) -> None:
        if self._progress is False:
            return
        if self._bar is None:
            tqdm = _tqdm() if self._progress else _tqdm_if_there()
            if tqdm is None:
                self._progress = False
                return
            self._bar = tqdm(desc=self._name or None, initial=step - 1, unit=" steps", disable=False if self._progress else None)
        if self._bar.total != (steps or None):
            self._bar.total = steps or None
        self._bar.set_postfix(words, refresh=False)
        self._bar.update(step - self._bar.n)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


def _tqdm() -> Any:
    import warnings

    try:
        with warnings.catch_warnings(action="ignore"):  # a notebook without ipywidgets gets a bar of text
            from tqdm.auto import tqdm
    except ImportError:
        raise ImportError("progress=True needs tqdm: pip install tqdm") from None
    return tqdm


def _tqdm_if_there() -> Any:
    try:
        return _tqdm()
    except ImportError:
        return None
