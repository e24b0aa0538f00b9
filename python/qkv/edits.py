"""Changes to attention for `model.run(…, edits={…})`: those of the explorer.

    >>> model = qkv.load("digits")
    >>> run = model.run("photo.jpg", edits={"blocks.*.attn.scores": qkv.edits.symmetry(0)})

Each is called with an activation, [images, heads, queries, keys] for scores, and its name.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from . import _core
from ._arguments import number, whole

if TYPE_CHECKING:
    import numpy

    Change = Callable[["numpy.ndarray", str], "numpy.ndarray"]


def _require(edit: str, kind: str, name: str) -> None:
    """name: of an activation, or of a head of one."""
    if not re.search(rf"\.{kind}(\.\d+)?$", name):
        raise _core.Error(f"edits.{edit} is for \"….{kind}\", not for {name}")


def _are_of_one_text(scores: numpy.ndarray, name: str) -> bool:
    """Queries and keys are the same tokens; those of cross-attention may be as many."""
    return scores.shape[-1] == scores.shape[-2] and ".cross." not in name


def symmetry(t: float) -> Change:
    """Of "….scores": M_s + t · M_a in place of M, the symmetric part and t times the antisymmetric; 1 leaves them.

    Raises Error for causal or padded texts, where a token may see another that does not see it.
    """
    number("symmetry: t", t)

    def change(scores: numpy.ndarray, name: str) -> numpy.ndarray:
        import numpy

        _require("symmetry", "scores", name)
        if not _are_of_one_text(scores, name):
            raise _core.Error(f"{name}: {list(scores.shape)}: only scores of tokens with each other have a symmetric part")
        mirrored, unseen = scores.swapaxes(-1, -2), numpy.isneginf(scores)
        if (unseen != unseen.swapaxes(-1, -2)).any():
            raise _core.Error(f"{name}: a token sees another that does not see it: they have no symmetric part")
        with numpy.errstate(invalid="ignore"):  # 0 · ∞ of those, which stay unseen
            mixed = (1 + t) / 2 * scores + (1 - t) / 2 * mirrored
        return numpy.where(unseen, scores, mixed)

    return change


def rank(r: int) -> Change:
    """Of "….scores": the best approximation of rank r of each head's scores, up to a constant of each query, which softmax
    cancels. Raises Error for causal or padded texts, some of whose scores are −∞."""
    if whole("rank", r) < 0:
        raise _core.Error(f"rank: expected at least 0, got {r}")

    def change(scores: numpy.ndarray, name: str) -> numpy.ndarray:
        import numpy

        _require("rank", "scores", name)
        if not numpy.isfinite(scores).all():
            raise _core.Error(f"{name}: scores of keys that a query does not see have no rank")
        centred = scores.astype(numpy.float64)
        centred -= centred.mean(-1, keepdims=True)
        left, values, right = numpy.linalg.svd(centred, full_matrices=False)
        return (left[..., :r] * values[..., None, :r]) @ right[..., :r, :]

    return change


def gauge(strength: float = 1.0, seed: int = 0) -> tuple[Change, Change]:
    """For "….q" and "….k": a random A of each layer and A⁻ᵀ, which change queries and keys and no score.

    >>> model = qkv.load("digits")
    >>> query, key = qkv.edits.gauge()
    >>> run = model.run("photo.jpg", edits={"blocks.*.attn.q": query, "blocks.*.attn.k": key})
    """

    number("gauge: strength", strength)
    if whole("gauge: seed", seed) < 0:
        raise _core.Error(f"gauge: seed: expected at least 0, got {seed}")

    def of_layer(width: int, name: str) -> numpy.ndarray:
        import numpy

        layer = re.split(r"\.[qk]\b", name)[0]
        random = numpy.random.default_rng([seed, zlib.crc32(layer.encode())])
        rotation, _ = numpy.linalg.qr(numpy.eye(width) + strength * random.standard_normal((width, width)))
        return rotation * numpy.exp(strength * random.uniform(-1, 1, width))

    def query(rows: numpy.ndarray, name: str) -> numpy.ndarray:
        _require("gauge's first", "q", name)
        return rows @ of_layer(rows.shape[-1], name)

    def key(rows: numpy.ndarray, name: str) -> numpy.ndarray:
        import numpy

        _require("gauge's second", "k", name)
        return rows @ numpy.linalg.inv(of_layer(rows.shape[-1], name)).T

    return query, key


def hide(*tokens: int) -> Change:
    """Of "….scores": no other token attends to these."""
    for token in tokens:
        whole("hide", token)

    def change(scores: numpy.ndarray, name: str) -> numpy.ndarray:
        import numpy

        _require("hide", "scores", name)
        keys, itself = scores.shape[-1], _are_of_one_text(scores, name)
        for token in tokens:
            if not 0 <= token < keys:
                raise _core.Error(f"{name}: there are tokens 0 to {keys - 1}, not {token}")
            own = scores[..., token, token].copy() if itself else None
            scores[..., token] = -numpy.inf
            if itself:
                scores[..., token, token] = own
        return scores

    return change
