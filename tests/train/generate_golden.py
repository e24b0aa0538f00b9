#!/usr/bin/env python3
"""Writes tests/train/golden/KIND.safetensors: a small ViT trained by PyTorch, for each kind of queries and keys.

    PYTHON tests/train/generate_golden.py      (tools/reference_env.sh prints the Python)

"weights/NAME" (timm's names, those of docs/kinds.md for `shared`) and "pixels" are where training starts, image i is of
class i mod CLASSES. "gradients/NAME" are the gradients of the mean cross entropy in the first step, "losses" are those
of STEPS steps of AdamW on the same batch: all as computed in float32, and with ".float64" in float64 from the same
numbers.
"""
import pathlib

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

FOLDER = pathlib.Path(__file__).parent / "golden"
IMAGE, PATCH, CHANNELS, WIDTH, DEPTH, HEADS, HIDDEN, CLASSES = 12, 4, 3, 16, 2, 2, 32, 5
BATCH, STEPS = 6, 20
ADAMW = {"lr": 2e-3, "betas": (0.9, 0.999), "eps": 1e-8}
WEIGHT_DECAY = 0.05  # of matrices only
KINDS = ("separate", "shared", "no_bias", "qk_norm")


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


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, WIDTH)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x)))


class Block(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH, eps=1e-6), nn.LayerNorm(WIDTH, eps=1e-6)
        self.attn, self.mlp = Attention(kind), Mlp()

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Vit(nn.Module):
    def __init__(self, kind):
        super().__init__()
        tokens = 1 + (IMAGE // PATCH) ** 2
        self.cls_token = nn.Parameter(torch.empty(1, 1, WIDTH))
        self.pos_embed = nn.Parameter(torch.empty(1, tokens, WIDTH))
        self.patch_embed = nn.ModuleDict({"proj": nn.Conv2d(CHANNELS, WIDTH, PATCH, PATCH)})
        self.blocks = nn.Sequential(*(Block(kind) for _ in range(DEPTH)))
        self.norm = nn.LayerNorm(WIDTH, eps=1e-6)
        self.head = nn.Linear(WIDTH, CLASSES)
        for name, parameter in self.named_parameters():
            mean = 1.0 if "norm" in name and name.endswith("weight") else 0.0
            nn.init.normal_(parameter, mean, 0.1 if mean or parameter.dim() < 2 else 0.3)

    def forward(self, pixels):
        x = self.patch_embed["proj"](pixels).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], dim=1) + self.pos_embed
        return self.head(self.norm(self.blocks(x))[:, 0])


def train(kind, weights, pixels, labels, dtype):
    model = Vit(kind)
    model.load_state_dict(weights)
    model = model.to(dtype)
    decays = [p for name, p in model.named_parameters() if p.dim() > 1 and name not in ("cls_token", "pos_embed")]
    others = [p for p in model.parameters() if not any(p is q for q in decays)]
    optimizer = torch.optim.AdamW(
        [{"params": decays, "weight_decay": WEIGHT_DECAY}, {"params": others, "weight_decay": 0.0}], **ADAMW)  # fmt: skip
    losses, gradients = [], {}
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(pixels.to(dtype)), labels)
        loss.backward()
        if step == 0:
            gradients = {name: p.grad.clone() for name, p in model.named_parameters()}
        optimizer.step()
        losses.append(loss.item())
    return {f"gradients/{name}": g for name, g in gradients.items()} | {"losses": torch.tensor(losses, dtype=dtype)}


def main():
    FOLDER.mkdir(exist_ok=True)
    for seed, kind in enumerate(KINDS):
        torch.manual_seed(seed)
        weights = Vit(kind).state_dict()
        pixels, labels = torch.randn(BATCH, CHANNELS, IMAGE, IMAGE), torch.arange(BATCH) % CLASSES
        golden = {f"weights/{name}": w for name, w in weights.items()} | {"pixels": pixels}
        golden |= train(kind, weights, pixels, labels, torch.float32)
        exact = train(kind, weights, pixels, labels, torch.float64)
        golden |= {f"{name}.float64": tensor for name, tensor in exact.items()}
        losses = exact["losses"]
        assert losses[-1] < losses[0] / 2, "nothing was learned"
        path = FOLDER / f"{kind}.safetensors"
        save_file({name: t.contiguous() for name, t in golden.items()}, path, {"torch": torch.__version__})
        print(f"{path.name}: {path.stat().st_size} bytes, loss {losses[0]:.4f} to {losses[-1]:.4f}")


if __name__ == "__main__":
    main()
