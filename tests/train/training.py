"""What the generators of these goldens share: blocks, steps of AdamW, and the file of a run in both precisions."""
import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

WEIGHT_DECAY = 0.05


class Mlp(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x)))


class Block(nn.Module):
    def __init__(self, width, hidden, attention):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)
        self.attn, self.mlp = attention, Mlp(width, hidden)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


def initialise(model):
    for name, parameter in model.named_parameters():
        mean = 1.0 if "norm" in name and name.endswith("weight") else 0.0
        nn.init.normal_(parameter, mean, 0.1 if mean or parameter.dim() < 2 else 0.3)


def train(decays, others, rate, steps, loss_of, first_of):
    """Losses of `steps` steps of AdamW, and what `first_of` gives after the backward pass of the first. loss_of() is (logits,
    loss); `decays` are the parameters with weight decay."""
    optimizer = torch.optim.AdamW([{"params": decays, "weight_decay": WEIGHT_DECAY}, {"params": others, "weight_decay": 0.0}],
                                  lr=rate, betas=(0.9, 0.999), eps=1e-8)  # fmt: skip
    losses, first = [], {}
    for step in range(steps):
        optimizer.zero_grad()
        logits, loss = loss_of()
        loss.backward()
        if step == 0:
            first = first_of(logits.detach())
        optimizer.step()
        losses.append(loss.item())
    return first | {"losses": torch.tensor(losses, dtype=decays[0].dtype)}


def split(model, decays):
    """The parameters whose names `decays` accepts, and the others."""
    with_decay = [p for name, p in model.named_parameters() if decays(name, p)]
    return with_decay, [p for p in model.parameters() if not any(p is q for q in with_decay)]


def gradients(model):
    return {f"gradients/{name}": p.grad.clone() for name, p in model.named_parameters()}


def write(path, golden, single, double, least, **versions):
    """golden: where training starts; single, double: what train() gave. The last loss must be `least` of the first at most."""
    golden = golden | single | {f"{name}.float64": tensor for name, tensor in double.items()}
    losses = double["losses"]
    assert losses[-1] < losses[0] * least, f"nothing was learned: {losses}"
    path.parent.mkdir(exist_ok=True)
    save_file({name: t.contiguous() for name, t in golden.items()}, path, {"torch": torch.__version__, **versions})
    print(f"{path.name}: {path.stat().st_size} bytes, loss {losses[0]:.4f} to {losses[-1]:.4f}")
