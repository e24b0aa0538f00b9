"""Goldens of heads over tiles: checkpoints as CLAM, MIL-Lab (FEATHER) and TRIDENT store them, of small widths, and what
PyTorch modules of the same definition answer, in both precisions.

    python3 tests/mil/golden/generate.py        needs torch and safetensors; then tests/golden/pack.py pack

Each case is a folder: checkpoint.pt (or model.safetensors) and answers.safetensors (features, scores, weights, vector,
logits; the names with .float64 are those of double precision).
"""
import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn

HERE = Path(__file__).resolve().parent
TILES, WIDTH, HIDDEN, ATTENTION, CLASSES = 37, 12, 8, 6, 3


class Gated(nn.Module):
    """Two layers of the tile's features, multiplied, and a score per branch."""

    def __init__(self, width, hidden, branches, dropout):
        super().__init__()
        extra = [nn.Dropout(0.25)] if dropout else []
        self.attention_a = nn.Sequential(nn.Linear(width, hidden), nn.Tanh(), *extra)
        self.attention_b = nn.Sequential(nn.Linear(width, hidden), nn.Sigmoid(), *extra)
        self.attention_c = nn.Linear(hidden, branches)

    def forward(self, x):
        return self.attention_c(self.attention_a(x) * self.attention_b(x))


class Plain(nn.Module):
    def __init__(self, width, hidden, branches, dropout):
        super().__init__()
        extra = [nn.Dropout(0.25)] if dropout else []
        self.module = nn.Sequential(nn.Linear(width, hidden), nn.Tanh(), *extra, nn.Linear(hidden, branches))

    def forward(self, x):
        return self.module(x)


class Clam(nn.Module):
    """A branch for all classes, or with `multi` one for each."""

    def __init__(self, multi, gate, dropout, between):
        super().__init__()
        branches = CLASSES if multi else 1
        layers = [nn.Linear(WIDTH, HIDDEN), nn.ReLU()] + ([nn.Dropout(0.25)] if between else [])
        layers.append((Gated if gate else Plain)(HIDDEN, ATTENTION, branches, dropout))
        self.attention_net = nn.Sequential(*layers)
        self.multi = multi
        self.classifiers = (nn.ModuleList(nn.Linear(HIDDEN, 1) for _ in range(CLASSES)) if multi else
                            nn.Linear(HIDDEN, CLASSES))
        self.instance_classifiers = nn.ModuleList(nn.Linear(HIDDEN, 2) for _ in range(CLASSES))

    def forward(self, x):
        h = self.attention_net[:-1](x)
        scores = self.attention_net[-1](h).T
        weights = scores.softmax(1)
        vectors = weights @ h
        logits = (torch.cat([classify(vector) for classify, vector in zip(self.classifiers, vectors)])
                  if self.multi else self.classifiers(vectors)[0])
        return scores, weights, vectors if self.multi else vectors[0], logits


class MilLab(nn.Module):
    def __init__(self, layers, gate, heads, classes):
        super().__init__()
        sequence, width = [], WIDTH
        for _ in range(layers):
            sequence += [nn.Linear(width, HIDDEN), nn.ReLU(), nn.Dropout(0.25)]
            width = HIDDEN
        self.patch_embed = nn.Sequential(*sequence)
        self.global_attn = (Gated if gate else Plain)(HIDDEN, ATTENTION, heads, True)
        if classes:
            self.classifier = nn.Linear(HIDDEN * heads, classes)

    def forward(self, x):
        h = self.patch_embed(x)
        scores = self.global_attn(h).T
        weights = scores.softmax(1)
        vectors = weights @ h
        logits = self.classifier(vectors.flatten()) if hasattr(self, "classifier") else None
        return scores, weights, vectors if len(vectors) > 1 else vectors[0], logits


class TridentAttention(nn.Module):
    def __init__(self, heads, branches, gated):
        super().__init__()
        self.attention_heads = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, ATTENTION), nn.Tanh(), nn.Dropout(0.)) for _ in range(heads))
        if gated:
            self.gating_layers = nn.ModuleList(
                nn.Sequential(nn.Linear(WIDTH, ATTENTION), nn.Sigmoid(), nn.Dropout(0.)) for _ in range(heads))
        self.branching_layers = nn.ModuleList(nn.Linear(ATTENTION, branches) for _ in range(heads))
        if heads > 1:
            self.condensing_layer = nn.Linear(heads * WIDTH, WIDTH)
        self.gated = gated

    def forward(self, x):
        scores, vectors = [], []
        for i, head in enumerate(self.attention_heads):
            z = head(x)
            if self.gated:
                z = z * self.gating_layers[i](x)
            scores.append(self.branching_layers[i](z))  # [tiles, branches]
            vectors.append(scores[-1].softmax(0).T @ x)
        vectors = torch.cat(vectors, -1)
        if len(scores) > 1:
            vectors = self.condensing_layer(vectors)
        return vectors, torch.stack(scores, -1).permute(1, 2, 0).flatten(0, 1)  # [branches · heads, tiles]


class TridentEncoder(nn.Module):
    def __init__(self, heads, gated):
        super().__init__()
        block = lambda: nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Dropout(0.1))
        self.model = nn.ModuleDict({"pre_attention_layers": block(), "image_pooler": TridentAttention(heads, 1, gated),
                                    "post_attention_layers": block()})

    def forward(self, x):
        vectors, scores = self.model["image_pooler"](self.model["pre_attention_layers"](x))
        return scores, scores.softmax(1), self.model["post_attention_layers"](vectors)[0], None


class TridentClassifier(nn.Module):
    def __init__(self, heads, outputs):
        super().__init__()
        self.feature_encoder = TridentEncoder(heads, True)
        self.classifier = nn.Sequential(nn.Linear(WIDTH, 5), nn.ReLU(), nn.Linear(5, outputs))

    def forward(self, x):
        scores, weights, vector, _ = self.feature_encoder(x)
        logits = self.classifier(vector)
        return scores, weights, vector, torch.cat([logits * 0, logits]) if len(logits) == 1 else logits


class TridentBare(nn.Module):
    def __init__(self, heads, branches, gated):
        super().__init__()
        self.abmil = TridentAttention(heads, branches, gated)

    def forward(self, x):
        vectors, scores = self.abmil(x)
        return scores, scores.softmax(1), vectors if len(vectors) > 1 else vectors[0], None


CASES = {
    "clam_sb": (lambda: Clam(False, True, True, True), "checkpoint.pt", ""),
    "clam_sb_no_gate": (lambda: Clam(False, False, True, True), "model.safetensors", "module."),
    "clam_sb_old": (lambda: Clam(False, True, False, False), "model.safetensors", ""),
    "clam_mb": (lambda: Clam(True, True, False, True), "checkpoint.pt", ""),
    "clam_mb_no_gate": (lambda: Clam(True, False, False, True), "model.safetensors", ""),
    "feather": (lambda: MilLab(1, True, 1, 4), "model.safetensors", "model."),
    "feather_deep": (lambda: MilLab(2, False, 2, 4), "model.safetensors", ""),
    "feather_encoder": (lambda: MilLab(1, True, 2, 0), "model.safetensors", "model."),
    "trident_encoder": (lambda: TridentEncoder(1, True), "model.safetensors", ""),
    "trident_classifier": (lambda: TridentClassifier(2, 1), "model.safetensors", ""),
    "trident_classes": (lambda: TridentClassifier(3, 4), "model.safetensors", "module."),
    "trident_bare": (lambda: TridentBare(2, 3, False), "model.safetensors", ""),
}


def main():
    for i, (name, (make, file, prefix)) in enumerate(CASES.items()):
        torch.manual_seed(i)
        model = make().eval()
        folder = HERE / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        state = {prefix + key: value.clone() for key, value in model.state_dict().items()}
        if file.endswith(".pt"):
            torch.save(state, folder / file)
        else:
            save_file(state, folder / file)
        if name == "feather":
            (folder / "config.json").write_text(json.dumps(
                {"model_type": "abmil", "gate": True, "id2label": {str(c): f"tumour {c}" for c in range(4)}}))
        features = 3 * torch.randn(TILES, WIDTH)
        answers = {"features": features}
        with torch.no_grad():
            for suffix, kind in ("", torch.float32), (".float64", torch.float64):
                answer = model.to(kind)(features.to(kind))
                for key, value in zip(("scores", "weights", "vector", "logits"), answer):
                    if value is not None:
                        answers[key + suffix] = value.contiguous()
        save_file(answers, folder / "answers.safetensors")


if __name__ == "__main__":
    main()
