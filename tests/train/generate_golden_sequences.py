#!/usr/bin/env python3
"""Writes tests/train/golden/sequence_NAME.safetensors: a small sequence model trained by PyTorch, for each kind of
positions: decoders with rotary (as in RoFormer: neighbouring features are a pair) and learned positions, and an encoder
with sinusoidal ones.

    PYTHON tests/train/generate_golden_sequences.py      (tools/reference_env.sh prints the Python)

"weights/NAME" (qkv's names), "tokens" and "targets" [B, N] (whole numbers) are where training starts. "logits" are those of the first
step, "gradients/NAME" the gradients of its mean cross entropy over all tokens, "losses" those of STEPS steps of AdamW on
the same batch: all as computed in float32, and with ".float64" in float64 from the same numbers.
"""
import pathlib

import torch
import training
from torch import nn
from torch.nn import functional as F

FOLDER = pathlib.Path(__file__).parent / "golden"
VOCABULARY, OUTPUTS, LENGTH, WIDTH, DEPTH, HEADS, HIDDEN, BASE = 11, 7, 10, 16, 2, 2, 32, 100.0
BATCH, STEPS, RATE = 4, 20, 4e-3
POSITIONS = ("rotary", "learned", "sinusoidal")  # the last one not causal


def angles(width, base):
    """[N, width / 2]: of each place and pair, exact in float64."""
    frequency = base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    return torch.arange(LENGTH, dtype=torch.float64)[:, None] * frequency


def turned(x):
    """x [B, H, N, E], features 2i and 2i + 1 as a complex number times e^(i angle)."""
    turns = torch.polar(torch.ones(LENGTH, x.shape[-1] // 2, dtype=torch.float64), angles(x.shape[-1], BASE))
    turns = turns.to(torch.complex64 if x.dtype == torch.float32 else torch.complex128)
    return torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous()) * turns).flatten(-2)


class Attention(nn.Module):
    def __init__(self, positions):
        super().__init__()
        self.positions = positions
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        query, key, value = (y.unflatten(-1, (HEADS, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, dim=-1))
        if self.positions == "rotary":
            query, key = turned(query), turned(key)
        out = F.scaled_dot_product_attention(query, key, value, is_causal=self.positions != "sinusoidal")
        return self.proj(out.transpose(1, 2).flatten(2))


class Sequence(nn.Module):
    def __init__(self, positions):
        super().__init__()
        self.positions = positions
        self.token_embed = nn.Embedding(VOCABULARY, WIDTH)
        if positions == "learned":
            self.pos_embed = nn.Parameter(torch.empty(1, LENGTH, WIDTH))
        self.blocks = nn.Sequential(*(training.Block(WIDTH, HIDDEN, Attention(positions)) for _ in range(DEPTH)))
        self.norm = nn.LayerNorm(WIDTH, eps=1e-6)
        self.head = nn.Linear(WIDTH, OUTPUTS)
        training.initialise(self)

    def forward(self, tokens):
        x = self.token_embed(tokens)
        if self.positions == "learned":
            x = x + self.pos_embed
        if self.positions == "sinusoidal":
            angle = angles(WIDTH, 10000.0)
            x = x + torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1).to(x.dtype)
        return self.head(self.norm(self.blocks(x)))


def train(positions, weights, tokens, targets, dtype):
    model = Sequence(positions)
    model.load_state_dict(weights)
    model = model.to(dtype)
    # The matrices of linear layers.
    decays, others = training.split(model, lambda name, p: p.dim() > 1 and not name.endswith(("embed", "embed.weight")))

    def loss_of():
        logits = model(tokens)
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    return training.train(decays, others, RATE, STEPS, loss_of,
                          lambda logits: training.gradients(model) | {"logits": logits})  # fmt: skip


def main():
    for seed, positions in enumerate(POSITIONS):
        torch.manual_seed(100 + seed)
        weights = Sequence(positions).state_dict()
        tokens = torch.randint(VOCABULARY, (BATCH, LENGTH), dtype=torch.int32)
        # What stands a token before, so that positions are needed.
        targets = tokens.roll(1, dims=1).long() % OUTPUTS
        golden = {f"weights/{name}": w for name, w in weights.items()} | {"tokens": tokens.float(), "targets": targets.float()}
        single, double = (train(positions, weights, tokens, targets, dtype) for dtype in (torch.float32, torch.float64))
        training.write(FOLDER / f"sequence_{positions}.safetensors", golden, single, double, 0.5)


if __name__ == "__main__":
    main()
