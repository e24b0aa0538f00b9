"""qkv's attention in transformers: `qkv.transformers.register()`, then attn_implementation="qkv".

    >>> qkv.transformers.register()
    >>> model = AutoModel.from_pretrained(name, attn_implementation="qkv")
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import sdpa_mask

from . import _core
from . import torch as qkv_torch

__all__ = ["register"]


def register(name: str = "qkv") -> None:
    """Registers attention and masks under this name: without the masks' part, transformers would leave them out."""
    AttentionInterface.register(name, _attention)
    AttentionMaskInterface.register(name, sdpa_mask)


def _attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    position_bias: torch.Tensor | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    output_attentions: bool = False,
    **_: Any,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """[B, N, H, E], and the weights on request. A sliding window is in the mask, as for "sdpa"."""
    if dropout > 0:
        raise _core.Error(
            'attention: qkv draws other numbers than PyTorch for dropout; train with attention_dropout=0, or "sdpa"'
        )
    if is_causal is None:
        is_causal = getattr(module, "is_causal", True)
    settings: dict[str, Any] = {
        "attn_mask": attention_mask,
        "is_causal": bool(is_causal) and attention_mask is None and query.shape[2] > 1,
        "scale": scaling,
        "enable_gqa": key.shape[1] != query.shape[1],
        "bias": position_bias,
        "softcap": softcap or 0.0,
        "sinks": s_aux,
    }
    out = qkv_torch.scaled_dot_product_attention(query, key, value, **settings)
    weights = None
    if output_attentions:
        from ._functional import attention

        settings["mask"] = settings.pop("attn_mask")
        with torch.no_grad():
            _, weights = attention(query, key, value, **settings, return_weights=True)
    return out.transpose(1, 2).contiguous(), weights
