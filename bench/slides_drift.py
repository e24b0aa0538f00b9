"""How far bf16 and int8 drift from fp32: the vectors of a slide's tiles, and the answers of a gated ABMIL head on them.

    PYTHONPATH=FOLDER python bench/slides_drift.py --slide SLIDE --model MODEL [--size 224] [--seed 0]

FOLDER has h5py. MODEL is a trained encoder: drift of random weights says nothing. The head is CLAM's, one branch, trained
here on half of the tiles' fp32 vectors: their two clusters are told apart by k-means, and a bag of 64 tiles is positive if
the rarer cluster gave it 4 to 12 of them, else it gave none. Bags of the other half are asked, and by `qkv slide run` the
whole slide.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

import common

TILE, BAG, BAGS, STEPS = 224, 64, 400, 300


def embed(options, dtype, folder, head=None):
    """([tiles, D] vectors, the slide's answer or None)"""
    import h5py

    command = [options.qkv, "slide", "run" if head else "embed", "-q", options.slide, "-m", options.model, "-o",
               folder / dtype, "--tile", TILE, "--overlap", options.overlap, "--dtype", dtype, "--min-tissue", "0.25",
               "--size", f"{options.size}x{options.size}", "--name", "encoder"]  # fmt: skip
    if head:
        command += ["--head", head, "--no-maps"]
    state = json.loads(common.output(command))
    with h5py.File(next((folder / dtype).rglob("features_encoder/*.h5"))) as file:
        return file["features"][:], state.get("answers")


def rarer_cluster(vectors):
    """[tiles] bool: k-means with two clusters, from the tiles that are farthest apart along the first component."""
    import torch

    centred = vectors - vectors.mean(0)
    along = centred @ torch.linalg.svd(centred, full_matrices=False).Vh[0]
    centres = vectors[[int(along.argmin()), int(along.argmax())]]
    for _ in range(50):
        chosen = torch.cdist(vectors, centres).argmin(1)
        centres = torch.stack([vectors[chosen == k].mean(0) for k in range(2)])
    return chosen == int((chosen == 1).sum() < (chosen == 0).sum())


def make_bag(rare, positive, generator):
    """Indices of tiles, the rarer cluster's first."""
    import torch

    def some(where, count):
        there = where.nonzero().flatten()
        return there[torch.randint(len(there), (count,), generator=generator)]

    planted = int(torch.randint(4, 13, (1,), generator=generator)) if positive else 0
    return torch.cat([some(rare, planted), some(~rare, BAG - planted)])


def gated_head(width):
    """CLAM's layout and names."""
    import torch
    from torch import nn

    class Gate(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention_a = nn.Sequential(nn.Linear(256, 128), nn.Tanh())
            self.attention_b = nn.Sequential(nn.Linear(256, 128), nn.Sigmoid())
            self.attention_c = nn.Linear(128, 1)

        def forward(self, x):
            return self.attention_c(self.attention_a(x) * self.attention_b(x)), x

    class Head(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention_net = nn.Sequential(nn.Linear(width, 256), nn.ReLU(), nn.Dropout(0.25), Gate())
            self.classifiers = nn.Linear(256, 2)

        def forward(self, vectors):
            """([2] probabilities' logits, [tiles] attention)"""
            scores, x = self.attention_net(vectors)
            attention = torch.softmax(scores[:, 0], 0)
            return self.classifiers(attention @ x), attention

    return Head()


def train_head(vectors, rare, generator):
    import torch

    head = gated_head(vectors.shape[1])
    optimizer = torch.optim.AdamW(head.parameters(), 2e-4, weight_decay=1e-2)
    for step in range(STEPS):
        loss = 0
        for positive in (0, 1):
            logits, _ = head(vectors[make_bag(rare, positive, generator)])
            loss = loss + torch.nn.functional.cross_entropy(logits[None], torch.tensor([positive]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return head.eval()


def compare_bags(head, vectors, other, rare, generator):
    """Of BAGS bags: (correct in fp32, other answers, greatest and mean difference of the probability, greatest and mean
    total variation of the attention)."""
    import torch

    right, flips, moved, variation = 0, 0, [], []
    with torch.no_grad():
        for number in range(BAGS):
            bag = make_bag(rare, number % 2, generator)
            (a, attention), (b, other_attention) = head(vectors[bag]), head(other[bag])
            right += int(a.argmax()) == number % 2
            flips += int(a.argmax() != b.argmax())
            moved.append(float((a.softmax(0) - b.softmax(0)).abs().max()))
            variation.append(float((attention - other_attention).abs().sum() / 2))
    return right, flips, max(moved), sum(moved) / BAGS, max(variation), sum(variation) / BAGS


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--slide", type=Path, required=True)
    add("--model", type=Path, required=True, help="a trained encoder")
    add("--size", type=int, default=TILE, help="the encoder's input (default: %(default)s)")
    add("--overlap", type=int, default=168, help="of tiles; more tiles of a small slide (default: %(default)s)")
    add("--seed", type=int, default=0)
    add("--qkv", type=Path, default=common.ROOT / "build/release/qkv", metavar="PROGRAM")
    options = parser.parse_args()
    common.require_program(options.qkv)
    import torch

    torch.manual_seed(options.seed)
    generator = torch.Generator().manual_seed(options.seed)
    with tempfile.TemporaryDirectory(prefix="qkv-drift-") as temporary:
        folder = Path(temporary)
        vectors = {dtype: torch.tensor(embed(options, dtype, folder)[0]) for dtype in common.PRECISIONS}
        exact = vectors["fp32"]
        rare = rarer_cluster(exact)
        training = torch.rand(len(exact), generator=generator) < 0.5
        scale = exact.norm(dim=1).mean()
        head = train_head(exact[training], rare[training], generator)
        torch.save(head.state_dict(), folder / "head.pt")
        print(f"{len(exact)} tiles, {int(rare.sum())} in the rarer cluster; vectors' length {scale:.1f}")
        for dtype in common.PRECISIONS:
            cosine = torch.cosine_similarity(vectors[dtype].double(), exact.double(), dim=1)
            bags = compare_bags(head, exact[~training], vectors[dtype][~training], rare[~training],
                                torch.Generator().manual_seed(1))  # fmt: skip
            answer = embed(options, dtype, folder, folder / "head.pt")[1]
            print(f"{dtype}: cosine mean {cosine.mean():.6f}, 1 % quantile {cosine.quantile(0.01):.6f}, least "
                  f"{cosine.min():.6f}; bags: {bags[0]} of {BAGS} right in fp32, {bags[1]} answered otherwise, probability "
                  f"moved by {bags[2]:.4f} at most, {bags[3]:.5f} on average; attention by {bags[4]:.4f} at most, "
                  f"{bags[5]:.5f} on average (total variation); the slide's answer {answer}")  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
