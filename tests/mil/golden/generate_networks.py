"""Goldens of training over tiles: logits and gradients of PyTorch modules with the tensors and the arithmetic of
qkv/mil/network.h, in both precisions.

    python3 tests/mil/golden/generate_networks.py     needs torch and safetensors; then tests/golden/pack.py pack

Each case is a folder network_NAME with config.json and golden.safetensors: weights/…, features, places, logits,
gradients/…, and their .float64.
"""
import json
import math
import shutil
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch.nn import functional as F

HERE = Path(__file__).resolve().parent
TILES, INPUTS, WIDTH, GATE, HEADS, HIDDEN, CLASSES = 11, 5, 8, 3, 2, 6, 3
E = WIDTH // HEADS
BASE, TARGET, EPS = 100.0, 1, 1e-6


def shapes(config):
    gated = config["qkv_mil"] == "abmil"
    linear = lambda name, outputs, inputs: {name + ".weight": (outputs, inputs), name + ".bias": (outputs,)}
    table = linear("attention_net.0" if gated else "embed", WIDTH, INPUTS)
    if config.get("pool") == "token":
        table["cls_token"] = (1, WIDTH)
    else:
        pool = "attention_net.3." if gated else "pool."
        table |= linear(pool + "attention_a.0", GATE, WIDTH) | linear(pool + "attention_b.0", GATE, WIDTH)
        table |= linear(pool + "attention_c", 1, GATE)
    if gated:
        return table | linear("classifiers", CLASSES, WIDTH)
    for i in range(config["depth"]):
        block = f"blocks.{i}."
        table |= {block + "norm1.weight": (WIDTH,), block + "norm1.bias": (WIDTH,)}
        kind = config["qkv_attention"]
        if kind == "separate":
            table |= linear(block + "attn.qkv", 3 * WIDTH, WIDTH)
        elif kind == "shared":
            table |= linear(block + "attn.qk", WIDTH, WIDTH) | linear(block + "attn.v", WIDTH, WIDTH)
        elif kind == "shared_kv":
            table |= linear(block + "attn.qk.query", WIDTH, WIDTH) | linear(block + "attn.qk.key", WIDTH, WIDTH)
        elif kind == "symmetric":
            rank = config["qkv_attention_rank"]
            table |= {block + "attn.qk.weight": (HEADS * rank, WIDTH), block + "attn.qk.eigenvalues": (HEADS, rank)}
            table |= linear(block + "attn.v", WIDTH, WIDTH)
        elif kind == "merged":
            table |= {block + "attn.qk.merged": (HEADS, WIDTH, WIDTH), block + "attn.qk.key_term": (HEADS, WIDTH)}
            table |= linear(block + "attn.v", WIDTH, WIDTH)
        table |= linear(block + "attn.proj", WIDTH, WIDTH)
        table |= {block + "norm2.weight": (WIDTH,), block + "norm2.bias": (WIDTH,)}
        table |= linear(block + "mlp.fc1", HIDDEN, WIDTH) | linear(block + "mlp.fc2", WIDTH, HIDDEN)
    return table | {"norm.weight": (WIDTH,), "norm.bias": (WIDTH,)} | linear("head", CLASSES, WIDTH)


def rotate(x, places):
    """x: [heads, tokens, e]; the first half of its pairs turns by rows, the second by columns."""
    e = x.shape[-1]
    frequencies = BASE ** (-4 * torch.arange(e // 4, dtype=torch.float64) / e)
    angles = torch.cat([places[:, :1] * frequencies, places[:, 1:] * frequencies], 1)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack([even * cos - odd * sin, odd * cos + even * sin], -1).flatten(-2)


def attend(config, w, x, places, block):
    tokens = x.shape[0]
    heads = lambda y: y.view(tokens, HEADS, -1).transpose(0, 1)
    linear = lambda name: F.linear(x, w[block + "attn." + name + ".weight"], w.get(block + "attn." + name + ".bias"))
    kind = config["qkv_attention"]
    if kind == "merged":
        q = torch.einsum("nd,hde->hne", x, w[block + "attn.qk.merged"]) + w[block + "attn.qk.key_term"][:, None]
        k, v = x.expand(HEADS, -1, -1), heads(linear("v"))
    elif kind == "separate":
        q, k, v = (heads(part) for part in linear("qkv").chunk(3, -1))
    elif kind == "shared":
        q = k = heads(linear("qk"))
        v = heads(linear("v"))
    elif kind == "shared_kv":
        q, k = heads(linear("qk.query")), heads(linear("qk.key"))
        v = k
    else:
        k = heads(linear("qk"))
        q, v = k * w[block + "attn.qk.eigenvalues"][:, None], heads(linear("v"))
    if config["positions"] == "rotary":
        q, k = rotate(q, places), rotate(k, places)
    weights = (q @ k.transpose(1, 2) / math.sqrt(E)).softmax(-1)
    joined = (weights @ v).transpose(0, 1).reshape(tokens, WIDTH)
    return F.linear(joined, w[block + "attn.proj.weight"], w[block + "attn.proj.bias"])


def forward(config, w, features, places):
    gated = config["qkv_mil"] == "abmil"
    linear = lambda x, name: F.linear(x, w[name + ".weight"], w[name + ".bias"])
    norm = lambda x, name: F.layer_norm(x, (WIDTH,), w[name + ".weight"], w[name + ".bias"], EPS)
    x = linear(features, "attention_net.0" if gated else "embed")
    if gated:
        x = x.relu()
    elif config["positions"] == "sines":
        quarter = WIDTH // 4
        frequencies = BASE ** (-torch.arange(quarter, dtype=torch.float64) / quarter)
        angles = [places[:, axis:axis + 1] * frequencies for axis in (0, 1)]
        x = x + torch.cat([f(angle) for angle in angles for f in (torch.sin, torch.cos)], 1).to(x.dtype)
    token = config.get("pool") == "token"
    if token:
        x = torch.cat([w["cls_token"], x])
        places = torch.cat([torch.zeros(1, 2, dtype=torch.float64), places])
    if not gated:
        for i in range(config["depth"]):
            block = f"blocks.{i}."
            x = x + attend(config, w, norm(x, block + "norm1"), places, block)
            x = x + linear(F.gelu(linear(norm(x, block + "norm2"), block + "mlp.fc1")), block + "mlp.fc2")
        x = norm(x, "norm")
    if token:
        return linear(x[:1], "head")
    pool = "attention_net.3." if gated else "pool."
    z = linear(x, pool + "attention_a.0").tanh() * linear(x, pool + "attention_b.0").sigmoid()
    pooled = linear(z, pool + "attention_c").softmax(0).T @ x
    return linear(pooled, "classifiers" if gated else "head")


def transformer(kind, positions, pool="attention", rank=0, depth=1):
    return {"qkv_mil": "transformer", "inputs": INPUTS, "width": WIDTH, "gate_width": GATE,
            "classes": [str(c) for c in range(CLASSES)], "depth": depth, "heads": HEADS, "mlp_width": HIDDEN,
            "qkv_attention": kind, "qkv_attention_rank": rank, "qk_norm": False, "positions": positions,
            "rotary_base": BASE, "pool": pool}


CASES = {
    "abmil": {"qkv_mil": "abmil", "inputs": INPUTS, "width": WIDTH, "gate_width": GATE,
              "classes": [str(c) for c in range(CLASSES)]},
    "separate": transformer("separate", "rotary", "token", depth=2),
    "shared": transformer("shared", "rotary"),
    "shared_kv": transformer("shared_kv", "rotary", "token"),
    "symmetric": transformer("symmetric", "sines", rank=3),
    "merged": transformer("merged", "sines"),
}


def main():
    for i, (name, config) in enumerate(CASES.items()):
        torch.manual_seed(100 + i)
        table = shapes(config)
        weights = {key: 0.4 * torch.randn(shape) + (1 if "norm" in key and key.endswith("weight") else 0)
                   for key, shape in table.items()}
        features = torch.randn(TILES, INPUTS)
        places = torch.stack([torch.arange(TILES) // 4, torch.arange(TILES) % 4], 1).double()
        golden = {"features": features, "places": places} | {f"weights/{key}": value for key, value in weights.items()}
        for suffix, kind in ("", torch.float32), (".float64", torch.float64):
            w = {key: value.clone().to(kind).requires_grad_() for key, value in weights.items()}
            logits = forward(config, w, features.to(kind), places)
            F.cross_entropy(logits, torch.tensor([TARGET])).backward()
            golden["logits" + suffix] = logits.detach()
            golden |= {f"gradients/{key}{suffix}": value.grad for key, value in w.items()}
        folder = HERE / f"network_{name}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
        save_file({key: value.contiguous() for key, value in golden.items()}, folder / "golden.safetensors")


if __name__ == "__main__":
    main()
