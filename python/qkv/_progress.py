"""Progress by tqdm, where it is installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def bar(progress: bool | None, total: int, unit: str) -> Iterator[Callable[[int], object] | None]:
    """A function that takes how many more are done, or None. progress None: shown for long work on a terminal."""
    if progress is False or total < 2:
        yield None
        return
    try:
        from tqdm.auto import tqdm
    except ImportError:
        if progress:
            raise ImportError("progress=True needs tqdm: pip install tqdm") from None
        yield None
        return
    # disable=None: tqdm shows nothing where the output is no terminal; delay: short work shows nothing.
    disable, delay = (False, 0.0) if progress else (None, 1.0)
    with tqdm(total=total, unit=f" {unit}", disable=disable, delay=delay, leave=bool(progress)) as shown:
        yield shown.update
