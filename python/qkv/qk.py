"""The algebra of queries and keys: what a head compares is one matrix, M = W_Qᵀ W_K.

    >>> layer = qkv.qk.weights("digits", 3)      # or of any model that qkv.load takes
    >>> layer
    <weights of digits, block 3: 4 heads, E = 24, D = 96, b_q and b_k; LayerNorm before them>
    >>> merged = qkv.qk.merge(layer)             # or merge(w_q, w_k, b_q, b_k, heads=4) of any array
    >>> qkv.qk.spectra(layer).symmetry.round(2)  # [heads]
    array([0.03, 0.05, 0.02, 0.04])
    >>> qkv.qk.spectra("digits")                 # every block and head; a notebook shows a picture
    <spectra of digits: 4 blocks, 4 heads, effective rank 5.1 to 8.0 of 24>
    >>> model = qkv.load(qkv.qk.truncate_model("digits", "small", rank=4))

Weights are stored output by input, [heads · E, D], as by torch.nn.Linear; float32, float64 or half precision of NumPy,
PyTorch or JAX. Everything is computed in float64, which results are arrays of. https://arxiv.org/abs/1706.03762 has the
scores; docs/algebra.md of qkv each statement with its conditions.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, overload

from . import _core, _images, _progress
from ._arguments import boolean, positive, text, text_or_none, whole
from ._circuits import Merged, Pair, Weights, epsilon, float64
from ._load import files_of
from ._model import Model
from ._qk_results import Certificates, Directions, Plan, Rewritten, Spectra

if TYPE_CHECKING:
    from ._types import Images

__all__ = [
    "Certificates",
    "Directions",
    "Merged",
    "Pair",
    "Plan",
    "Rewritten",
    "Spectra",
    "Weights",
    "certificate",
    "directions",
    "merge",
    "merge_model",
    "plan",
    "plan_model",
    "regauge",
    "regauge_model",
    "spectra",
    "split",
    "split_model",
    "truncate",
    "truncate_model",
    "weights",
]

Terms = Literal["exact", "softmax"]
ModelOrPath = Model | str | os.PathLike


# Arrays.


def merge(
    w_q: Any, w_k: Any = None, b_q: Any = None, b_k: Any = None, *, heads: int | None = None, terms: Terms = "exact"
) -> Merged:
    """M = W_Qᵀ W_K of each head, with u = W_Kᵀ b_Q and, exact, w = W_Qᵀ b_K and c = b_Q · b_K.

    w_q: [heads · E, D_q], or a Pair, which has all of it; w_k: [heads · E, D_k], or fewer heads, which groups of
    queries share; b_q, b_k: their biases, [rows].
    terms: "softmax" leaves out w and c, which are the same for all keys of a query and so cancel in a softmax over the
        keys; not if scores have sinks, a soft cap, or go elsewhere.
    """
    pair = _pair("merge", w_q, w_k, b_q, b_k, heads, terms)
    m, u, w, c = _core.qk_merge(*pair._arrays, pair.heads, _exact("merge", terms))
    import numpy

    c = numpy.array(c) if w is not None and u is not None else None
    return Merged(m, u, w, c, terms).inherit(pair)


def split(m: Any, rank: int | None = None) -> Pair:
    """W_Q and W_K of a Merged, or of M [heads, D_q, D_k] or [D_q, D_k] alone, balanced: W_Q W_Qᵀ = W_K W_Kᵀ.

    The scores are the same, the weights are not the original ones, which M does not know; biases count as one more
    input.
    rank: E of the result; None: the greatest rank of a head. Raises Error if a head's rank is above it: that is
    `truncate`. Of an array alone the scores are x M y, without a scale.
    """
    merged = _merged("split", m)
    rank = 0 if rank is None else positive("rank", rank)
    stacked = _core.qk_split(merged.m, merged.u, merged.w, merged.c, rank, merged.epsilon / 2)
    return _of_heads(stacked, merged)


def regauge(
    w_q: Any,
    w_k: Any = None,
    b_q: Any = None,
    b_k: Any = None,
    *,
    heads: int | None = None,
    gauge: Literal["balanced", "orthonormal_keys", "identity_block"] | Any = "balanced",
) -> Pair:
    """Other weights of the same scores: W_Q → Tᵀ W_Q, W_K → T⁻¹ W_K, biases too, with a T for each head of keys.

    gauge: "balanced": W_Q W_Qᵀ = W_K W_Kᵀ, the least ‖W_Q‖² + ‖W_K‖²; "orthonormal_keys": W_K W_Kᵀ = I;
        "identity_block": E columns of W_K are the identity; or T, invertible, [key_heads, E, E] or [E, E] for all.
    Raises Error if T is singular, or a gauge by name needs weights of full rank (`split` does not).
    """
    import numpy

    pair = _pair("regauge", w_q, w_k, b_q, b_k, heads, "exact")
    if isinstance(gauge, str):
        transforms = _core.qk_gauge(text("gauge", gauge), pair.w_q, pair.w_k, pair.heads)
    else:
        transforms = float64("gauge", gauge)
        if transforms.ndim == 2:
            transforms = numpy.broadcast_to(transforms, (pair.key_heads, *transforms.shape))
    w_q, w_k, b_q, b_k = _core.qk_regauge(*pair._arrays, pair.heads, transforms)
    group = pair.heads // pair.key_heads  # the keys of a group are the same
    return _of_heads((w_q, w_k[::group], b_q, None if b_k is None else b_k[::group]), pair)


def truncate(
    w_q: Any,
    w_k: Any = None,
    b_q: Any = None,
    b_k: Any = None,
    *,
    rank: int,
    heads: int | None = None,
    x: Any = None,
    y: Any = None,
    terms: Terms = "exact",
) -> Pair:
    """The best pair with `rank` features a head, and the same scale: every head has keys of its own then.

    Without tokens the least ‖M − M_r‖; with x [N, D_q] or [B, N, D_q] (and y, the tokens of keys, if they are others)
    the least error of these tokens' scores. Biases count as one more input. terms="softmax": up to a constant for each
    query, of which nothing is left in softmax; b_K is dropped. Neither is optimal after softmax. Raises Error unless
    1 <= rank <= min(E, D).
    """
    pair = _pair("truncate", w_q, w_k, b_q, b_k, heads, terms)
    exact = _exact("truncate", terms)
    if x is None and y is not None:
        raise TypeError("truncate: y: tokens of keys without x, those of queries")
    if x is not None:
        x = float64("x", x)
        y = x if y is None else float64("y", y)
        if min(x.ndim, y.ndim) < 2:
            raise _core.Error(f"truncate: x {list(x.shape)} and y {list(y.shape)}, expected tokens [N, D] or [B, N, D]")
        if x.shape[:-2] != y.shape[:-2]:
            raise _core.Error(f"truncate: x {list(x.shape)} and y {list(y.shape)}, expected as many batches of each")
        if not exact:
            y = y - y.mean(-2, keepdims=True)  # softmax sees differences of keys alone
        x, y = x.reshape(-1, x.shape[-1]), y.reshape(-1, y.shape[-1])
    return _of_heads(_core.qk_truncate(*pair._arrays, pair.heads, positive("rank", rank), exact, x, y), pair)


def directions(w_q: Any, w_k: Any = None, *, heads: int | None = None) -> Directions:
    """The singular vectors of M, which a head compares; w_q: weights as of `merge`, a Pair or a Merged.

    Biases are left out. Fold the norm before the projections in, so that lengths mean something: weights(…, fold=True).
    """
    import numpy

    pair = _factors("directions", w_q, w_k, heads)
    values, left, right, firsts = _core.qk_directions(pair.w_q, pair.w_k, pair.heads, pair.epsilon)
    return Directions(numpy.array(values), left, right, firsts, pair.caveats)


@overload
def spectra(
    w_q: ModelOrPath, *, part: str | None = None, progress: bool | None = None, **hints: Any
) -> Spectra: ...
@overload
def spectra(w_q: Any, w_k: Any = None, *, heads: int | None = None, cross: bool = False) -> Spectra: ...
def spectra(
    w_q: Any,
    w_k: Any = None,
    *,
    heads: int | None = None,
    cross: bool = False,
    part: str | None = None,
    progress: bool | None = None,
    **hints: Any,
) -> Spectra:
    """What M is of each head: singular values, ranks, symmetry, eigenvalues. Biases are left out.

    w_q: weights as of `merge`, a Pair or a Merged; cross: tokens of keys are of another space than those of queries, so
    that M has no symmetric part and no eigenvalues.
    Or a model or its path, of which every block is measured as `qkv qk inspect` does: the norm before a layer folded in
    and its mean taken off, so that components that tokens never have do not count. part: "encoder", "decoder" or
    "cross" of a text model that has several; hints: as of `qkv.load`.
    """
    if isinstance(w_q, (Model, str, os.PathLike)):
        if w_k is not None or heads is not None or cross:
            raise TypeError("spectra: of a model expected no weights, heads or cross")
        entry, name = files_of("spectra", w_q, hints)
        with _progress.bar(progress, _core.qk_count_blocks(entry), "blocks") as report:
            return Spectra.of_model(_core.qk_inspect(entry, report), part, name)
    if hints or part is not None:
        raise TypeError(f"spectra: of weights expected no {next(iter(hints), 'part')}")
    pair = _factors("spectra", w_q, w_k, heads)
    numbers = _core.qk_spectra(pair.w_q, pair.w_k, pair.heads, boolean("cross", cross) or pair.cross)
    return Spectra.of_heads(numbers, pair.caveats)


def plan(
    *,
    width: int,
    heads: int = 1,
    tokens: int = 197,
    queries: int | None = None,
    head_width: int | None = None,
    value_width: int | None = None,
    batch: int = 1,
    cached: Literal["nothing", "tokens", "keys", "latent"] = "nothing",
    latent: int | None = None,
    read: Literal["outputs", "scores"] = "outputs",
    dtype: Literal["float32", "float64"] = "float32",
    predict: bool = False,
) -> Plan:
    """The orders of attention's products for one shape, which is the cheapest, and whether merging W_Q and W_K pays.

    width: D, of a token; tokens: that are looked at; queries: that look, such as 1 for the class token (default: all);
        head_width: E (default: width / heads); value_width: of values (default: E).
    cached: "nothing", "tokens", "keys" (and values) or "latent", with its width; read: what is wanted.
    predict: measures this machine for some two seconds, and adds the orders' times.
    """
    for name, value, expected in (
        ("cached", cached, ("nothing", "tokens", "keys", "latent")),
        ("read", read, ("outputs", "scores")),
        ("dtype", dtype, ("float32", "float64")),
    ):
        if value not in expected:
            raise _core.Error(f"plan: {name}: expected {', '.join(expected)}, got {value!r}")
    if (latent is None) != (cached != "latent"):
        raise _core.Error('plan: cached="latent" and latent=, its width, belong together')

    def size(name: str, value: int | None) -> int:
        return 0 if value is None else positive(name, value)

    workload = _core.workload(
        positive("width", width),
        positive("heads", heads),
        positive("tokens", tokens),
        size("queries", queries),
        size("head_width", head_width),
        size("value_width", value_width),
        size("latent", latent),
        positive("batch", batch),
        cached,
        read,
    )
    return Plan(*_core.qk_plan_shape(workload, dtype == "float64", predict))


def _pair(
    work: str, w_q: Any, w_k: Any, b_q: Any, b_k: Any, heads: int | None, terms: str | None = None
) -> Pair:
    """The weights as a Pair. terms: what of the scores a rewriting keeps; None: no scores are asked for."""
    if isinstance(w_q, Pair):
        if any(given is not None for given in (w_k, b_q, b_k, heads)):
            raise TypeError(f"{work}: a Pair has weights, biases and heads of its own: give nothing beside it")
        if terms is not None:
            w_q.require_bilinear(work, terms)
        return w_q
    if isinstance(w_q, Merged):
        raise TypeError(f"{work}: expected w_q and w_k; split(merged) gives them")
    if isinstance(w_q, (Model, str, os.PathLike)):
        raise TypeError(f"{work}: expected weights, got a model: {work}(qkv.qk.weights(model, block))")
    if w_k is None or heads is None:
        raise TypeError(f"{work}: {'w_k' if w_k is None else 'heads='} is missing: {work}(w_q, w_k, heads=12)")
    return Pair(w_q, w_k, b_q, b_k, heads=heads)


def _factors(work: str, w_q: Any, w_k: Any, heads: int | None) -> Pair:
    """Factors of M, without biases: of a Merged as many as its rank."""
    if not isinstance(w_q, Merged):
        return _pair(work, w_q, w_k, None, None, heads)
    if w_k is not None or heads is not None:
        raise TypeError(f"{work}: a Merged has all of its heads: give nothing beside it")
    return split(Merged(w_q.m).inherit(w_q))


def _merged(work: str, m: Any) -> Merged:
    if isinstance(m, Merged):
        return m
    if isinstance(m, Pair):
        raise TypeError(f"{work}: expected M; a Pair has W_Q and W_K already (regauge gives others)")
    matrix = float64("m", m)
    if matrix.ndim not in (2, 3):
        raise _core.Error(f"{work}: m: an array {list(matrix.shape)}, expected [heads, D_q, D_k] or [D_q, D_k]")
    merged = Merged(matrix if matrix.ndim == 3 else matrix[None])
    merged.epsilon = epsilon(m)
    return merged


def _of_heads(stacked: tuple[Any, Any, Any, Any], origin: Pair | Merged) -> Pair:
    """Weights [heads, E, D] and biases [heads, E] as one layer's."""
    w_q, w_k, b_q, b_k = stacked
    flat = (None if bias is None else bias.reshape(-1) for bias in (b_q, b_k))
    pair = Pair(w_q.reshape(-1, w_q.shape[-1]), w_k.reshape(-1, w_k.shape[-1]), *flat, heads=w_q.shape[0])
    return pair.inherit(origin)


def _exact(work: str, terms: str) -> bool:
    if terms not in ("exact", "softmax"):
        raise _core.Error(f'{work}: terms: expected "exact" or "softmax", got {terms!r}')
    return terms == "exact"


# Models.


def weights(model: ModelOrPath, block: int, *, part: str | None = None, fold: bool = False, **hints: Any) -> Weights:
    """The attention weights of one block, of all heads, from a model's files.

    part: "encoder", "decoder" or "cross" of a text model that has several. fold: the norm before the projections goes
    into them: W diag(gamma), b + W beta, and a LayerNorm's mean taken off. hints: as of `qkv.load`.
    """
    asked = text_or_none("part", part) or "", whole("block", block), boolean("fold", fold)
    entry, name = files_of("weights", model, hints)
    return Weights(name, *asked, _core.qk_weights(entry, *asked))


def certificate(model: ModelOrPath, *, rank: int | None = None, traits: str = "", **hints: Any) -> Certificates:
    """Which rewritings of every head are exact, exact after softmax only, within a bound, or impossible, and why.

    rank: that truncation would keep (default: half). traits: as if around the attention there were also some of "rope",
    "rope=16", "rms-norm", "sink", "soft-cap", "added-keys", "not-softmax", "dropout", separated by commas.
    """
    entry, _ = files_of("certificate", model, hints)
    return Certificates(*_core.qk_certify(entry, 0 if rank is None else positive("rank", rank), text("traits", traits)))


def plan_model(model: ModelOrPath, *, batch: int = 1, **hints: Any) -> Plan:
    """The orders of attention's products that inference takes in each block of an image model, and what they save."""
    entry, _ = files_of("plan_model", model, hints)
    return Plan(*_core.qk_plan_model(entry, positive("batch", batch)))


@contextmanager
def _writing(
    work: str,
    model: ModelOrPath,
    out: str | os.PathLike[str],
    dtype: str | None,
    force: bool,
    progress: bool | None,
    hints: dict[str, Any],
) -> Iterator[tuple[Any, Any]]:
    """The model's files, and how the new ones are written, with progress over blocks."""
    entry, _ = files_of(work, model, hints)
    names = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "fp32": "fp32", "fp16": "fp16", "bf16": "bf16"}
    name = str(dtype).split(".")[-1].removesuffix("'>")
    if dtype is not None and name not in names:
        raise _core.Error(f"{work}: dtype: expected float32, float16 or bfloat16, got {dtype}")
    with _progress.bar(progress, _core.qk_count_blocks(entry), "blocks") as report:
        yield entry, _core.Writing(os.fspath(out), "" if dtype is None else names[name], force, report)


def merge_model(
    model: ModelOrPath,
    out: str | os.PathLike[str],
    *,
    dtype: str | None = None,
    force: bool = False,
    progress: bool | None = None,
    **hints: Any,
) -> Rewritten:
    """Writes an image model whose heads have M and u in place of W_Q and W_K, with the same attention.

    out: a folder that does not exist or is empty; it appears whole or not at all. dtype: of the new tensors, "float32",
    "float16" or "bfloat16" (default: that of the weights they replace). force: replace what is in the folder. Raises
    Error if queries and keys are normalised or rotated. The logger "qkv" and `notes` say what it costs.
    """
    with _writing("merge_model", model, out, dtype, force, progress, hints) as (entry, writing):
        return Rewritten(os.fspath(out), _core.qk_merge_model(entry, writing))


def split_model(
    model: ModelOrPath,
    out: str | os.PathLike[str],
    *,
    width: int | None = None,
    dtype: str | None = None,
    force: bool = False,
    progress: bool | None = None,
    **hints: Any,
) -> Rewritten:
    """Writes a merged model with queries and keys again, balanced. Arguments as of `merge_model`.

    width: features of a head's queries and keys (default: those of its values, which every library can load). Raises
    Error if a head's M has a higher rank.
    """
    width = 0 if width is None else positive("width", width)
    with _writing("split_model", model, out, dtype, force, progress, hints) as (entry, writing):
        return Rewritten(os.fspath(out), _core.qk_split_model(entry, width, writing))


def regauge_model(
    model: ModelOrPath,
    out: str | os.PathLike[str],
    *,
    gauge: Literal["balanced", "orthonormal_keys", "identity_block"] = "balanced",
    dtype: str | None = None,
    force: bool = False,
    progress: bool | None = None,
    **hints: Any,
) -> Rewritten:
    """Writes an image model with other W_Q and W_K of the same attention, by `regauge`.

    Arguments as of `merge_model`.
    """
    with _writing("regauge_model", model, out, dtype, force, progress, hints) as (entry, writing):
        return Rewritten(os.fspath(out), _core.qk_regauge_model(entry, gauge, writing))


def truncate_model(
    model: ModelOrPath,
    out: str | os.PathLike[str],
    *,
    rank: int,
    images: Images | None = None,
    sample: int = 32,
    dtype: str | None = None,
    force: bool = False,
    progress: bool | None = None,
    **hints: Any,
) -> Rewritten:
    """Writes an image model with `rank` features of queries and keys a head. Arguments as of `merge_model`.

    images: fit the logits of `sample` of these, at equal distances; without them the weights, whatever comes in.
    """
    items = None if images is None else _images.all_of(images)
    if items is not None and not items:
        raise _core.Error("truncate_model: images: no image")
    rank, sample = positive("rank", rank), positive("sample", sample)
    with _writing("truncate_model", model, out, dtype, force, progress, hints) as (entry, writing):
        return Rewritten(os.fspath(out), _core.qk_truncate_model(entry, rank, items, sample, writing))
