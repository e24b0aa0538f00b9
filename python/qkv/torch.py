"""qkv's attention in PyTorch: a function with a gradient, and a mode that puts it in place of PyTorch's own.

    >>> with qkv.torch.attention():
    ...     features = model(pixels)    # its calls of scaled_dot_product_attention are qkv's

The operators are torch.ops.qkv.attention and its gradient, with shapes for torch.compile. PyTorch's own function is as fast
where its fused kernel applies, without a mask, and whole models of some 200 tokens take the same time with both. qkv's gains
with float masks, biases, sinks, soft caps, windows and key lengths, which PyTorch computes through the whole matrix of weights.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from . import _core
from ._functional import _causal, _finish, _operands, _scale, _window

__all__ = ["attention", "scaled_dot_product_attention"]

_PYTORCHS = functional.scaled_dot_product_attention
_TYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
_ARGUMENTS = (
    "Tensor? bias, Tensor? mask, Tensor? lengths, Tensor? sinks, float scale, float softcap, int causal, "
    "int window_left, int window_right, int first_position"
)

torch.library.define("qkv::attention", f"(Tensor q, Tensor k, Tensor v, {_ARGUMENTS}) -> (Tensor, Tensor)")
torch.library.define(
    "qkv::attention_backward",
    f"(Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, Tensor dout, {_ARGUMENTS}) "
    "-> (Tensor, Tensor, Tensor, Tensor, Tensor)",
)


def _sums_type(q: torch.Tensor) -> torch.dtype:
    return torch.float64 if q.dtype == torch.float64 else torch.float32


@torch.library.impl("qkv::attention", "CPU")
def _forward(q, k, v, bias, mask, lengths, sinks, *settings):  # fmt: skip
    out, _, lse = _core.attention(q, k, v, bias, mask, lengths, sinks, *settings, False, True, False)
    return torch.from_dlpack(out), torch.from_dlpack(lse)


@torch.library.register_fake("qkv::attention")
def _forward_shapes(q, k, v, bias, mask, lengths, sinks, *settings):  # fmt: skip
    rows = q.shape[:-1]
    return q.new_empty((*rows, v.shape[-1])), q.new_empty(rows, dtype=_sums_type(q))


@torch.library.impl("qkv::attention_backward", "CPU")
def _backward(q, k, v, out, lse, dout, bias, mask, lengths, sinks, *settings):  # fmt: skip
    gradient = _core.attention_backward(
        q, k, v, out, lse.contiguous(), dout, bias, mask, lengths, sinks, *settings, False
    )
    return tuple(q.new_empty(0) if one is None else torch.from_dlpack(one) for one in gradient)


@torch.library.register_fake("qkv::attention_backward")
def _backward_shapes(q, k, v, out, lse, dout, bias, mask, lengths, sinks, *settings):  # fmt: skip
    def like(x: torch.Tensor | None) -> torch.Tensor:
        return q.new_empty(0) if x is None else q.new_empty(x.shape)

    return like(q), like(k), like(v), like(bias), like(sinks)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, torch.Tensor]) -> None:
    q, k, v, bias, mask, lengths, sinks, *settings = inputs
    out, lse = output
    ctx.mark_non_differentiable(lse)
    ctx.save_for_backward(q, k, v, out, lse, bias, mask, lengths, sinks)
    ctx.settings = settings


def _differentiate(ctx: Any, dout: torch.Tensor, _: Any) -> tuple[Any, ...]:
    q, k, v, out, lse, bias, mask, lengths, sinks = ctx.saved_tensors
    dq, dk, dv, dbias, dsinks = torch.ops.qkv.attention_backward(
        q, k, v, out, lse, dout, bias, mask, lengths, sinks, *ctx.settings
    )
    return (
        dq, dk, dv, None if bias is None else dbias.to(bias.dtype), None, None,
        None if sinks is None else dsinks.to(sinks.dtype), *[None] * len(ctx.settings),
    )  # fmt: skip


torch.library.register_autograd("qkv::attention", _differentiate, setup_context=_keep)


def scaled_dot_product_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool | str = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    bias: torch.Tensor | None = None,
    softcap: float = 0.0,
    window: int | tuple[int, int] | None = None,
    lengths: torch.Tensor | None = None,
    sinks: torch.Tensor | None = None,
    first_position: int = 0,
    return_lse: bool = False,
) -> Any:
    """torch.nn.functional.scaled_dot_product_attention with the further options of `qkv.attention`, and their gradient.

    lse has no gradient. Raises Error for dropout, and for tensors that are not on the CPU.
    """
    if dropout_p > 0:
        raise _core.Error("attention: dropout_p: qkv draws other numbers than PyTorch; expected 0")
    q, k, v, mask, bias, lead = _operands(query, key, value, attn_mask, bias, enable_gqa)
    out, lse = torch.ops.qkv.attention(
        q, k, v, bias, mask, lengths, sinks, _scale(scale), softcap, _causal(is_causal), *_window(window),
        first_position,
    )  # fmt: skip
    out, lse = _finish(out, None, lead, 2), _finish(lse, None, lead, 1)
    return (out, lse) if return_lse else out


class attention(TorchFunctionMode):
    """While it is entered, torch.nn.functional.scaled_dot_product_attention is qkv's, with the same results, for dense
    tensors on the CPU without dropout; for all others it stays PyTorch's. The name in torch.nn.functional is replaced
    for all threads meanwhile, as torch.nn.MultiheadAttention calls it where no mode reaches. PyTorch's compiled encoder
    layer, which evaluation without a gradient takes, stays as it is."""

    def __enter__(self) -> attention:
        self._before = functional.scaled_dot_product_attention
        functional.scaled_dot_product_attention = _either
        return super().__enter__()

    def __exit__(self, *raised: Any) -> None:
        super().__exit__(*raised)
        functional.scaled_dot_product_attention = self._before

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        return (_either if func is _PYTORCHS else func)(*args, **kwargs)


def _either(*args: Any, **kwargs: Any) -> Any:
    with torch._C.DisableTorchFunction():  # else every shape and type that is asked for passes through the mode
        if _takes(*args, **kwargs):
            return scaled_dot_product_attention(*args, **kwargs)
    return _PYTORCHS(*args, **kwargs)


def _takes(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> bool:
    tensors = [x for x in (query, key, value, attn_mask) if x is not None]
    return (
        dropout_p == 0
        and scale != 0
        and not (is_causal and attn_mask is not None)
        and query.dtype in _TYPES
        and query.dtype == key.dtype == value.dtype
        and min(query.dim(), key.dim(), value.dim()) >= 2
        and all(x.device.type == "cpu" and x.layout == torch.strided and not x.is_nested for x in tensors)
    )
