#!/usr/bin/env python3
"""Writes tests/train/golden/KIND.safetensors: a small ViT trained by PyTorch, for each kind of queries and keys.

    PYTHON tests/train/generate_golden.py      (tools/reference_env.sh prints the Python)

"weights/NAME" (timm's names, those of docs/kinds.md for `shared`) and "pixels" are where training starts, image i is of
class i mod CLASSES. "gradients/NAME" are the gradients of the mean cross entropy in the first step, "losses" are those
of STEPS steps of AdamW on the same batch: all as computed in float32, and with ".float64" in float64 from the same
numbers.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import torchvision_stub  # noqa: F401  before timm

import torch
import training
from timm.layers import DiffAttention
from torch import nn
from torch.nn import functional as F

FOLDER = pathlib.Path(__file__).parent / "golden"
IMAGE, PATCH, CHANNELS, WIDTH, DEPTH, HEADS, HIDDEN, CLASSES = 12, 4, 3, 16, 2, 2, 32, 5
BATCH, STEPS, RATE = 6, 20, 2e-3
KINDS = ("separate", "shared", "no_bias", "qk_norm", "differential")


class Attention(nn.Module):
    def __init__(self, kind):
        super().__init__()
        bias = kind != "no_bias"
        self.kind = kind
        if kind == "shared":
            self.qk, self.v = nn.Linear(WIDTH, WIDTH, bias), nn.Linear(WIDTH, WIDTH, bias)
        else:
            self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias)
        if kind == "qk_norm":
            self.q_norm, self.k_norm = (nn.LayerNorm(WIDTH // HEADS, eps=1e-6) for _ in range(2))
        self.proj = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        if self.kind == "shared":
            key = self.qk(x)
            products = key, key, self.v(x)
        else:
            products = self.qkv(x).chunk(3, dim=-1)
        query, key, value = (y.unflatten(-1, (HEADS, -1)).transpose(1, 2) for y in products)
        if self.kind == "qk_norm":
            query, key = self.q_norm(query), self.k_norm(key)
        out = F.scaled_dot_product_attention(query, key, value)
        return self.proj(out.transpose(1, 2).flatten(2))


class Differential(DiffAttention):
    """timm's, whose λ is float32 in a float64 model."""

    def __init__(self, depth):
        super().__init__(WIDTH, HEADS, qkv_bias=True, depth=depth)

    def _compute_lambda(self):
        first, second = (self.lambda_q1 * self.lambda_k1).sum(), (self.lambda_q2 * self.lambda_k2).sum()
        return first.exp() - second.exp() + self.lambda_init


class Vit(nn.Module):
    def __init__(self, kind):
        super().__init__()
        tokens = 1 + (IMAGE // PATCH) ** 2
        self.cls_token = nn.Parameter(torch.empty(1, 1, WIDTH))
        self.pos_embed = nn.Parameter(torch.empty(1, tokens, WIDTH))
        self.patch_embed = nn.ModuleDict({"proj": nn.Conv2d(CHANNELS, WIDTH, PATCH, PATCH)})
        self.blocks = nn.Sequential(*(training.Block(WIDTH, HIDDEN, Differential(depth) if kind == "differential" else Attention(kind))
                                      for depth in range(DEPTH)))  # fmt: skip
        self.norm = nn.LayerNorm(WIDTH, eps=1e-6)
        self.head = nn.Linear(WIDTH, CLASSES)
        training.initialise(self)

    def forward(self, pixels):
        x = self.patch_embed["proj"](pixels).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], dim=1) + self.pos_embed
        return self.head(self.norm(self.blocks(x))[:, 0])


def train(kind, weights, pixels, labels, dtype):
    model = Vit(kind)
    model.load_state_dict(weights)
    model = model.to(dtype)
    decays, others = training.split(model, lambda name, p: p.dim() > 1 and name not in ("cls_token", "pos_embed"))

    def loss_of():
        logits = model(pixels.to(dtype))
        return logits, F.cross_entropy(logits, labels)

    return training.train(decays, others, RATE, STEPS, loss_of, lambda logits: training.gradients(model))


def main():
    for seed, kind in enumerate(KINDS):
        torch.manual_seed(seed)
        weights = Vit(kind).state_dict()
        pixels, labels = torch.randn(BATCH, CHANNELS, IMAGE, IMAGE), torch.arange(BATCH) % CLASSES
        golden = {f"weights/{name}": w for name, w in weights.items()} | {"pixels": pixels}
        single, double = (train(kind, weights, pixels, labels, dtype) for dtype in (torch.float32, torch.float64))
        training.write(FOLDER / f"{kind}.safetensors", golden, single, double, 0.5)


if __name__ == "__main__":
    main()
