"""Attention on arrays of NumPy, PyTorch, JAX and all who know DLPack."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, overload

from . import _core
from ._arguments import array as array_of, boolean, number, require_dense, whole

if TYPE_CHECKING:
    from typing import Unpack

    from ._types import AttentionOptions

    _Array = TypeVar("_Array")  # of NumPy, PyTorch or JAX


class AttentionGradient(NamedTuple):
    """The gradient of `attention`; None for what was not given."""

    q: Any
    k: Any
    v: Any
    bias: Any
    sinks: Any


@overload
def attention(
    q: _Array,
    k: Any,
    v: Any,
    *,
    return_weights: Literal[False] = False,
    return_lse: Literal[False] = False,
    **options: Unpack[AttentionOptions],
) -> _Array: ...
@overload
def attention(
    q: _Array,
    k: Any,
    v: Any,
    *,
    return_weights: Literal[True],
    return_lse: Literal[False] = False,
    **options: Unpack[AttentionOptions],
) -> tuple[_Array, _Array]: ...
@overload
def attention(
    q: _Array,
    k: Any,
    v: Any,
    *,
    return_weights: Literal[False] = False,
    return_lse: Literal[True],
    **options: Unpack[AttentionOptions],
) -> tuple[_Array, _Array]: ...
@overload
def attention(
    q: _Array,
    k: Any,
    v: Any,
    *,
    return_weights: Literal[True],
    return_lse: Literal[True],
    **options: Unpack[AttentionOptions],
) -> tuple[_Array, _Array, _Array]: ...
def attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    mask: Any = None,
    bias: Any = None,
    is_causal: bool | str = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    softcap: float = 0.0,
    window: int | tuple[int, int] | None = None,
    lengths: Any = None,
    sinks: Any = None,
    first_position: int = 0,
    return_weights: bool = False,
    return_lse: bool = False,
) -> Any:
    """softmax(mask(softcap(scale · q kᵀ) + bias)) v: scaled dot-product attention, without a copy of its inputs.

    q: [B, H, N_q, E]; k: [B, H_kv, N_k, E]; v: [B, H_kv, N_k, E_v], of float32, float64, float16 or bfloat16; or all three
    [B, N, width] or [N, width]. Leading axes are broadcast.

    Returns [B, H, N_q, E_v] of the same type and library, and with return_weights or return_lse a tuple with the weights
    [B, H, N_q, N_k] and log Σ exp of each row's scores [B, H, N_q]. Half precision is computed in float32.

    mask: bool, true where attention is allowed; or floats, which are added, as in PyTorch. bias: floats that are added to
        the scores. Both [B|1, H|1, N_q|1, N_k].
    is_causal: query i sees keys j <= i; "bottom_right": j <= i + N_k − N_q, as in decoding.
    scale: of the scores; None: 1 / sqrt(E).
    enable_gqa: H may be a multiple of H_kv.
    softcap: scores become softcap · tanh(scores / softcap); 0: off.
    window: a query sees so many keys before it and, with (left, right), after it; −1: no limit.
    lengths: [B], the number of keys of each batch entry; a list too.
    sinks: [H], a learned score of each head that has no value.
    first_position: added to the positions of the queries.

    A row without visible keys is zeros. For tensors of PyTorch that need a gradient there is `qkv.torch`.

    >>> x = numpy.ones((1, 1, 2, 4), numpy.float32)
    >>> out, weights = qkv.attention(x, x, x, is_causal=True, return_weights=True)
    >>> weights
    array([[[[1. , 0. ],
             [0.5, 0.5]]]], dtype=float32)
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(q, torch.Tensor):
        tensors = (q, k, v, mask, bias, sinks)
        if any(isinstance(x, torch.Tensor) and x.requires_grad for x in tensors):
            if torch.is_grad_enabled():
                raise _core.Error("attention: a tensor needs a gradient: use qkv.torch.scaled_dot_product_attention, or .detach() it")
            q, k, v, mask, bias, sinks = (x.detach() if isinstance(x, torch.Tensor) else x for x in tensors)
    try:
        return _call(q, k, v, mask, bias, is_causal, scale, enable_gqa, softcap, window, lengths, sinks, first_position,
                     return_weights, return_lse)  # fmt: skip
    except (TypeError, AttributeError, RuntimeError) as error:  # RuntimeError: PyTorch's, of sparse tensors
        _require_types({"q": q, "k": k, "v": v, "mask": mask, "bias": bias, "lengths": _lengths(lengths), "sinks": sinks}, scale,
                       softcap, first_position, {"return_weights": return_weights, "return_lse": return_lse})  # fmt: skip
        if not (isinstance(return_weights, bool) and isinstance(return_lse, bool)):  # NumPy's
            return attention(q, k, v, mask=mask, bias=bias, is_causal=is_causal, scale=scale, enable_gqa=enable_gqa,
                             softcap=softcap, window=window, lengths=lengths, sinks=sinks, first_position=first_position,
                             return_weights=bool(return_weights), return_lse=bool(return_lse))  # fmt: skip
        raise error


def attention_backward(
    q: Any,
    k: Any,
    v: Any,
    out: Any,
    lse: Any,
    dout: Any,
    *,
    mask: Any = None,
    bias: Any = None,
    is_causal: bool | str = False,
    scale: float | None = None,
    softcap: float = 0.0,
    window: int | tuple[int, int] | None = None,
    lengths: Any = None,
    sinks: Any = None,
    first_position: int = 0,
) -> AttentionGradient:
    """The gradient of `attention` with the same arguments. out, lse: its results (return_lse=True); dout: the gradient of
    the loss with respect to out. Memory does not grow with N_q · N_k. Arrays are of the library of q."""
    lengths = _lengths(lengths)
    _require_types({"q": q, "k": k, "v": v, "out": out, "lse": lse, "dout": dout, "mask": mask, "bias": bias,
                    "lengths": lengths, "sinks": sinks}, scale, softcap, first_position, {})  # fmt: skip
    mask, bias = _mask_and_bias(mask, bias)
    given = bias
    mask, bias = _over_keys(mask, k), _over_keys(bias, k)
    left, right = _window(window)
    wrap = _library(q)
    gradient = _core.attention_backward(
        q, k, v, out, lse, dout, bias, mask, lengths, sinks, _scale(scale), softcap, _causal(is_causal), left, right,
        first_position, wrap is None,
    )  # fmt: skip
    dq, dk, dv, dbias, dsinks = (one if one is None or wrap is None else wrap(one) for one in gradient)
    if bias is not given:
        dbias = dbias.sum(-1).reshape(given.shape)
    return AttentionGradient(dq, dk, dv, dbias, dsinks)


def _require_types(arrays: dict[str, Any], scale: Any, softcap: Any, first_position: Any, flags: dict[str, Any]) -> None:
    """Throws TypeError for what is of a wrong type."""
    for name, array in arrays.items():
        needed = name not in ("mask", "bias", "lengths", "sinks")
        known = hasattr(array, "shape") and (hasattr(array, "__dlpack__") or hasattr(array, "__array_interface__"))
        numbers = getattr(getattr(array, "dtype", None), "kind", "f") not in "OSUVTMm"
        if not (known and numbers) and (needed or array is not None):
            raise TypeError(
                f"attention: {name} is a {type(array).__name__}; expected an array of numbers by NumPy, PyTorch or JAX"
            )
        require_dense(name, array)
    if scale is not None:
        number("attention: scale", scale)
    number("attention: softcap", softcap)
    whole("attention: first_position", first_position)
    for name, flag in flags.items():
        boolean(f"attention: {name}", flag)


def _call(q, k, v, mask, bias, is_causal, scale, enable_gqa, softcap, window, lengths, sinks, first_position,
          return_weights, return_lse):  # fmt: skip
    wrap = _library(q)
    q, k, v, mask, bias, lead = _operands(q, k, v, mask, bias, enable_gqa)
    left, right = (-1, -1) if window is None else _window(window)
    lengths = _lengths(lengths)
    result = _core.attention(
        q, k, v, bias, mask, lengths, sinks, 0.0 if scale is None else _scale(scale), softcap,
        0 if is_causal is False else _causal(is_causal), left, right, first_position, return_weights, return_lse,
        wrap is None,
    )  # fmt: skip
    if not return_weights and not return_lse:
        return _finish(result, wrap, lead, 2)
    out, weights, lse = result
    kept = [_finish(out, wrap, lead, 2)]
    if return_weights:
        kept.append(_finish(weights, wrap, lead, 2))
    if return_lse:
        kept.append(_finish(lse, wrap, lead, 1))
    return tuple(kept)


def _operands(q, k, v, mask, bias, enable_gqa):  # fmt: skip
    """What the engine takes, and the caller's leading axes if they are others."""
    lead = None
    if not (2 <= len(q.shape) <= 4 and q.shape[:-2] == k.shape[:-2] == v.shape[:-2]):
        q, k, v, mask, bias, lead = _fit(q, k, v, mask, bias, enable_gqa)
    if mask is not None or bias is not None:
        mask, bias = _mask_and_bias(mask, bias)
        mask, bias = _over_keys(mask, k), _over_keys(bias, k)
    return q, k, v, mask, bias, lead


def _finish(array: Any, wrap: Any, lead: tuple[int, ...] | None, own: int) -> Any:
    """The array in the caller's library, with the caller's leading axes before its own last ones."""
    if wrap is not None:
        array = wrap(array)
    return array if lead is None else array.reshape(*lead, *array.shape[-own:])


def _library(q: Any) -> Any:
    """What makes an array of q's library from one that knows DLPack; None for NumPy."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(q, numpy.ndarray):
        return None
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(q, torch.Tensor):
        return torch.from_dlpack
    traced = "Tracer" in type(q).__name__
    if hasattr(q, "__array_namespace__") and hasattr(q, "__dlpack__") and not traced:
        return q.__array_namespace__().from_dlpack
    if traced or not (hasattr(q, "__dlpack__") or hasattr(q, "__array_interface__")):
        advice = "inside of jax.jit, call it by jax.pure_callback" if traced else "expected an array of NumPy, PyTorch or JAX"
        raise TypeError(f"attention: q is a {type(q).__name__}; {advice}")
    return None


def _fit(q, k, v, mask, bias, enable_gqa):  # fmt: skip
    """q, k, v, mask and bias of [B, H, N, width], and the leading axes of the answer."""
    broadcast_shapes = _namespace(q).broadcast_shapes
    if min(len(q.shape), len(k.shape), len(v.shape)) < 2:
        raise _core.Error("attention: q, k and v have at least two axes, [N, width]")
    heads = [1 if len(x.shape) < 3 else x.shape[-3] for x in (q, k, v)]
    grouped = heads[0] != heads[1]
    if grouped and (heads[1] != heads[2] or heads[1] == 0 or heads[0] % heads[1]):
        grouped = False
    if grouped and not enable_gqa and heads[1] != 1:
        raise _core.Error(
            f"attention: q has {heads[0]} heads, k and v have {heads[1]}; enable_gqa=True lets heads share keys and values"
        )
    try:
        if grouped:
            outer = broadcast_shapes(q.shape[:-3], k.shape[:-3], v.shape[:-3])
            leads = [(*outer, h) for h in heads]
        else:
            lead = broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
            leads = [lead] * 3
    except (ValueError, RuntimeError):  # RuntimeError: PyTorch's
        raise _core.Error(
            f"attention: the leading axes of q {list(q.shape)}, k {list(k.shape)} and v {list(v.shape)} do not fit"
        ) from None
    lead = leads[0]

    def four(x: Any, wanted: tuple[int, ...]) -> Any:
        x = _namespace(x).broadcast_to(x, (*wanted, *x.shape[-2:]))
        if len(x.shape) <= 4:
            return x.reshape((1,) * (4 - len(x.shape)) + tuple(x.shape))
        batch = 1
        for extent in wanted[:-1]:
            batch *= extent
        return x.reshape((batch, *x.shape[-3:]))

    def fit_scores(x: Any) -> Any:
        if x is None or len(lead) <= 2 or len(x.shape) <= 2:
            return x
        return four(x, lead)

    return *(four(x, wanted) for x, wanted in zip((q, k, v), leads)), fit_scores(mask), fit_scores(bias), lead


def _namespace(x: Any) -> Any:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        return torch
    if hasattr(x, "__array_namespace__"):
        return x.__array_namespace__()
    import numpy

    return numpy


def _mask_and_bias(mask: Any, bias: Any) -> tuple[Any, Any]:
    """A mask of floats is added to the scores, as in PyTorch."""
    if mask is None or str(mask.dtype).endswith("bool"):
        return mask, bias
    if "float" not in str(mask.dtype):
        raise _core.Error(
            f"attention: mask: expected bool, true where attention is allowed, or floats, which are added; got {mask.dtype}"
        )
    try:
        return None, mask if bias is None else bias + mask
    except (ValueError, RuntimeError):  # RuntimeError: PyTorch's
        raise _core.Error(f"attention: mask {list(mask.shape)} and bias {list(bias.shape)} do not fit") from None


def _over_keys(x: Any, k: Any) -> Any:
    """Scores with a last axis of 1, over all keys."""
    if x is None or len(x.shape) == 0 or x.shape[-1] != 1 or k.shape[-2] == 1:
        return x
    return _namespace(x).broadcast_to(x, (*x.shape[:-1], k.shape[-2]))


def _lengths(lengths: Any) -> Any:
    """A list as an array."""
    if not isinstance(lengths, (list, tuple)):
        return lengths
    import numpy

    return array_of("attention: lengths", lengths, numpy.int64)


def _window(window: int | tuple[int, int] | None) -> tuple[int, int]:
    if window is None:
        return -1, -1
    if hasattr(window, "__index__"):
        return whole("attention: window", window), -1
    if not isinstance(window, (tuple, list)) or len(window) != 2:
        raise TypeError(f"attention: window: expected a number of keys or (left, right), got {window!r}")
    return whole("attention: window", window[0]), whole("attention: window", window[1])


def _causal(is_causal: bool | str) -> int:
    if isinstance(is_causal, int) and is_causal in (0, 1) or type(is_causal).__name__ == "bool_":  # NumPy's
        return int(is_causal)
    if not isinstance(is_causal, str) or is_causal != "bottom_right":
        raise _core.Error(f'attention: is_causal: expected a bool or "bottom_right", got {is_causal!r}')
    return 2


def _scale(scale: float | None) -> float:
    """The engine's 0 means 1 / sqrt(E)."""
    if scale is None:
        return 0.0
    if not isinstance(scale, (int, float)):
        scale = number("attention: scale", scale)
    if scale == 0:
        raise _core.Error("attention: scale: 0 makes all scores equal; expected another number, or None for 1 / sqrt(E)")
    return scale
