#!/usr/bin/env python3
"""Writes tests/attention/golden/backward.safetensors: attention and its gradients by PyTorch's autograd, with sinks by
transformers' gpt-oss.

    PYTHON tests/attention/generate_golden.py      (tools/reference_env.sh prints the Python)

For each case "CASE/q", "/k", "/v", "/dout" in float32, and "/mask" (1: allowed), "/bias" or "/sinks" where there is
one; then "/out", "/dq", "/dk", "/dv", "/dbias", "/dsinks" as computed in float32, and the same with ".float64" as computed in float64 from
the same numbers. The case named "causal" is causal.
"""
import pathlib
import sys
from types import SimpleNamespace

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import torchvision_stub  # noqa: F401 (before transformers)

import torch
from safetensors.torch import save_file
from torch.nn.functional import scaled_dot_product_attention
from transformers.models.gpt_oss import modeling_gpt_oss

FOLDER = pathlib.Path(__file__).parent / "golden"
B, N, M, E, E_V = 2, 7, 9, 5, 6  # batch, queries, keys, widths


def inputs(name):
    heads, key_heads = (4, 2) if name in ("grouped", "sinks") else (2, 2)
    keys = N if name == "causal" else M
    tensors = {
        "q": torch.randn(B, heads, N, E),
        "k": torch.randn(B, key_heads, keys, E),
        "v": torch.randn(B, key_heads, keys, E_V),
        "dout": torch.randn(B, heads, N, E_V),
    }
    if name == "masked":
        mask = torch.rand(B, 1, N, M) < 0.6
        mask[..., 0] = True  # PyTorch's answer for a row without keys is NaN
        tensors["mask"] = mask.float()
    if name in ("bias", "sinks"):
        tensors["bias"] = torch.randn(1, heads, N, M)
    if name == "sinks":
        tensors["sinks"] = torch.randn(heads)
    return tensors


def with_sinks(q, k, v, bias, sinks):
    """By transformers' gpt-oss: a sink is one more score of every row, whose weight is dropped."""
    layer = SimpleNamespace(sinks=sinks, num_key_value_groups=q.shape[1] // k.shape[1], training=False)
    return modeling_gpt_oss.eager_attention_forward(layer, q, k, v, bias, scaling=E**-0.5)[0].transpose(1, 2)


def outputs(name, tensors, dtype):
    x = {key: tensor.to(dtype).requires_grad_(key != "mask") for key, tensor in tensors.items()}
    bias = x.get("bias")
    if name == "sinks":
        out = with_sinks(x["q"], x["k"], x["v"], bias, x["sinks"])
    else:
        out = scaled_dot_product_attention(
            x["q"], x["k"], x["v"], attn_mask=x["mask"].bool() if "mask" in x else bias, is_causal=name == "causal",
            enable_gqa=name == "grouped")  # fmt: skip
    wanted = [key for key in ("q", "k", "v", "bias", "sinks") if key in x]
    gradients = torch.autograd.grad(out, [x[key] for key in wanted], x["dout"].detach())
    return {"out": out.detach()} | {f"d{key}": gradient for key, gradient in zip(wanted, gradients)}


def main():
    torch.manual_seed(0)
    golden = {}
    for name in ("plain", "causal", "masked", "bias", "grouped", "sinks"):
        tensors = inputs(name)
        golden |= {f"{name}/{key}": tensor for key, tensor in tensors.items()}
        golden |= {f"{name}/{key}": tensor for key, tensor in outputs(name, tensors, torch.float32).items()}
        golden |= {f"{name}/{key}.float64": tensor for key, tensor in outputs(name, tensors, torch.float64).items()}
    FOLDER.mkdir(exist_ok=True)
    save_file({key: tensor.contiguous() for key, tensor in golden.items()}, FOLDER / "backward.safetensors",
              {"torch": torch.__version__})  # fmt: skip


if __name__ == "__main__":
    main()
