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
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

FOLDER = pathlib.Path(__file__).parent / "golden"
VOCABULARY, OUTPUTS, LENGTH, WIDTH, DEPTH, HEADS, HIDDEN, BASE = 11, 7, 10, 16, 2, 2, 32, 100.0
BATCH, STEPS = 4, 20
ADAMW = {"lr": 4e-3, "betas": (0.9, 0.999), "eps": 1e-8}
WEIGHT_DECAY = 0.05  # of the matrices of linear layers only
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


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, WIDTH)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x)))


class Block(nn.Module):
    def __init__(self, positions):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH, eps=1e-6), nn.LayerNorm(WIDTH, eps=1e-6)
        self.attn, self.mlp = Attention(positions), Mlp()

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Sequence(nn.Module):
    def __init__(self, positions):
        super().__init__()
        self.positions = positions
        self.token_embed = nn.Embedding(VOCABULARY, WIDTH)
        if positions == "learned":
            self.pos_embed = nn.Parameter(torch.empty(1, LENGTH, WIDTH))
        self.blocks = nn.Sequential(*(Block(positions) for _ in range(DEPTH)))
        self.norm = nn.LayerNorm(WIDTH, eps=1e-6)
        self.head = nn.Linear(WIDTH, OUTPUTS)
        for name, parameter in self.named_parameters():
            mean = 1.0 if "norm" in name and name.endswith("weight") else 0.0
            nn.init.normal_(parameter, mean, 0.1 if mean or parameter.dim() < 2 else 0.3)

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
    decays = [p for name, p in model.named_parameters() if p.dim() > 1 and not name.endswith(("embed", "embed.weight"))]
    others = [p for p in model.parameters() if not any(p is q for q in decays)]
    optimizer = torch.optim.AdamW(
        [{"params": decays, "weight_decay": WEIGHT_DECAY}, {"params": others, "weight_decay": 0.0}], **ADAMW)  # fmt: skip
    losses, first = [], {}
    for step in range(STEPS):
        optimizer.zero_grad()
        logits = model(tokens)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss.backward()
        if step == 0:
            first = {f"gradients/{name}": p.grad.clone() for name, p in model.named_parameters()}
            first["logits"] = logits.detach()
        optimizer.step()
        losses.append(loss.item())
    return first | {"losses": torch.tensor(losses, dtype=dtype)}


def main():
    FOLDER.mkdir(exist_ok=True)
    for seed, positions in enumerate(POSITIONS):
        torch.manual_seed(100 + seed)
        weights = Sequence(positions).state_dict()
        tokens = torch.randint(VOCABULARY, (BATCH, LENGTH), dtype=torch.int32)
        # What stands a token before, so that positions are needed.
        targets = tokens.roll(1, dims=1).long() % OUTPUTS
        golden = {f"weights/{name}": w for name, w in weights.items()} | {"tokens": tokens.float(), "targets": targets.float()}
        golden |= train(positions, weights, tokens, targets, torch.float32)
        exact = train(positions, weights, tokens, targets, torch.float64)
        golden |= {f"{name}.float64": tensor for name, tensor in exact.items()}
        losses = exact["losses"]
        assert losses[-1] < losses[0] / 2, f"nothing was learned: {losses}"
        path = FOLDER / f"sequence_{positions}.safetensors"
        save_file({name: t.contiguous() for name, t in golden.items()}, path, {"torch": torch.__version__})
        print(f"{path.name}: {path.stat().st_size} bytes, loss {losses[0]:.4f} to {losses[-1]:.4f}")


if __name__ == "__main__":
    main()
