"""Kinds of attention that timm has not got, as timm's own Attention with its queries and keys exchanged.

What each computes is the definition of qkv's `nn::AttentionKind`, written out naively. Tensors are named as qkv stores
them: `attn.v` the values, `attn.qk` whatever scores are made of.
"""
import torch
from timm.layers import Attention
from torch import nn


class KindOfAttention(Attention):
    """timm's Attention with `qkv` replaced by `qk` and, where values have weights of their own, `v`."""

    has_values = True

    def __init__(self, original, rank, grid, prefix):
        D, H, E = original.num_heads * original.head_dim, original.num_heads, original.head_dim
        super().__init__(D, H, qkv_bias=original.qkv.bias is not None)
        self.bias = original.qkv.bias is not None
        self.rank, self.grid, self.prefix = rank or E, grid, prefix
        self.q_norm, self.k_norm, self.proj = original.q_norm, original.k_norm, original.proj
        del self.qkv
        if self.has_values:
            self.v = nn.Linear(D, D, bias=self.bias)
        self.qk = self.make(D, H, self.rank)

    def heads(self, x):
        """[B, N, H·r] as [B, H, N, r]"""
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def forward(self, x, *args, **kwargs):
        scores = self.scores(x)  # [B|1, H, N, N]
        weights = self.attn_drop(scores.softmax(dim=-1).expand(len(x), -1, -1, -1))
        out = weights @ self.heads(self.values(x))
        return self.proj(out.transpose(1, 2).flatten(2))

    def values(self, x):
        return self.v(x)


class Shared(KindOfAttention):
    def make(self, D, H, r):
        return nn.Linear(D, D, bias=self.bias)

    def scores(self, x):
        projected = self.heads(self.qk(x))
        return self.scale * self.q_norm(projected) @ self.k_norm(projected).mT


class Unified(Shared):
    has_values = False

    def values(self, x):
        return self.qk(x)


class LowRank(KindOfAttention):
    def make(self, D, H, r):
        return nn.ModuleDict({name: nn.Linear(D, H * r, bias=self.bias) for name in ("query", "key")})

    def scores(self, x):
        return self.scale * self.heads(self.qk["query"](x)) @ self.heads(self.qk["key"](x)).mT


class SharedKeyValue(LowRank):
    has_values = False

    def values(self, x):
        return self.qk["key"](x)


class Merged(KindOfAttention):
    def make(self, D, H, r):
        module = nn.Module()
        module.merged = nn.Parameter(torch.zeros(H, D, D))
        if self.bias:
            module.key_term = nn.Parameter(torch.zeros(H, D))
        return module

    def scores(self, x):
        queries = x[:, None] @ self.qk.merged  # [B, H, N, D]
        if self.bias:
            queries = queries + self.qk.key_term[:, None]
        return self.scale * queries @ x[:, None].mT


class Symmetric(KindOfAttention):
    def make(self, D, H, r):
        module = nn.Linear(D, H * r, bias=False)
        module.eigenvalues = nn.Parameter(torch.zeros(H, r))
        return module

    def scores(self, x):
        projected = self.heads(self.qk(x))
        return self.scale * (projected * self.qk.eigenvalues[:, None]) @ projected.mT


class Gaussian(KindOfAttention):
    def make(self, D, H, r):
        module = nn.Module()
        module.bandwidth = nn.Parameter(torch.zeros(H))
        return module

    def scores(self, x):
        y, column = torch.meshgrid(*(torch.arange(n) for n in self.grid), indexing="ij")
        place = torch.stack([y, column], -1).flatten(0, 1).to(x)
        squares = (place[:, None] - place).square().sum(-1)
        distances = torch.nn.functional.pad(squares, (self.prefix, 0, self.prefix, 0))
        return (-distances / (2 * self.qk.bandwidth.square()[:, None, None]))[None]


class Positional(KindOfAttention):
    def make(self, D, H, r):
        tokens = self.prefix + self.grid[0] * self.grid[1]
        module = nn.Module()
        module.query = nn.Parameter(torch.zeros(H, tokens, r))
        module.key = nn.Parameter(torch.zeros(H, tokens, r))
        return module

    def scores(self, x):
        return self.scale * (self.qk.query @ self.qk.key.mT)[None]


KINDS = {
    "shared": Shared,
    "unified": Unified,
    "shared_kv": SharedKeyValue,
    "merged": Merged,
    "low_rank": LowRank,
    "symmetric": Symmetric,
    "gaussian": Gaussian,
    "positional": Positional,
}


def exchange(model, kind, rank):
    """The timm model with attention of another kind in every block."""
    for block in model.blocks:
        block.attn = KINDS[kind](block.attn, rank, model.patch_embed.grid_size, model.num_prefix_tokens)
    return model
