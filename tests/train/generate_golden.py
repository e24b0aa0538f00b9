#!/usr/bin/env python3
"""Writes tests/train/golden/training.safetensors: what PyTorch and timm make of losses, optimizers and schedules.

    PYTHON tests/train/generate_golden.py      (tools/reference_env.sh prints the Python)

Inputs stand there in float32, results as computed in float32, and with ".float64" as computed in float64 from the same
numbers.

loss/logits [R,C], loss/labels [R] (one is ignored), loss/targets [R,C]; of CASE = hard, smooth, soft, soft_smooth:
CASE/loss [R], the loss of each row, and CASE/dlogits, the gradient of their mean.
optimizer/weights [n], optimizer/gradients [STEPS,n]; of CASE = adamw, adamw_plain (no decay), sgd, sgd_nesterov:
CASE/weights [n] after all steps, CASE/average and CASE/average_warm [n], timm's ModelEmaV3 of them.
schedule/cosine, schedule/one_cycle: the learning rate of each step.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tools"))
import torchvision_stub  # noqa: F401  before timm
import torch
from safetensors.torch import save_file
from timm.utils import ModelEmaV3
from torch.nn.functional import cross_entropy

FOLDER = pathlib.Path(__file__).parent / "golden"
ROWS, CLASSES = 9, 11
ELEMENTS, STEPS, RATE = 13, 12, 0.01
PRECISIONS = {"": torch.float32, ".float64": torch.float64}


def losses(golden):
    logits = 4 * torch.randn(ROWS, CLASSES)
    labels = torch.randint(CLASSES, (ROWS,))
    labels[3] = -100
    targets = torch.softmax(3 * torch.randn(ROWS, CLASSES), -1)
    golden |= {"loss/logits": logits, "loss/labels": labels, "loss/targets": targets}
    cases = {"hard": (labels, 0), "smooth": (labels, 0.1), "soft": (targets, 0), "soft_smooth": (targets, 0.2)}
    for name, (target, smoothing) in cases.items():
        for suffix, dtype in PRECISIONS.items():
            z = logits.to(dtype, copy=True).requires_grad_()
            t = target.to(dtype) if target.is_floating_point() else target
            rows = cross_entropy(z, t, label_smoothing=smoothing, reduction="none")
            cross_entropy(z, t, label_smoothing=smoothing).backward()
            golden |= {f"{name}/loss{suffix}": rows.detach(), f"{name}/dlogits{suffix}": z.grad}


class Weights(torch.nn.Module):
    def __init__(self, values):
        super().__init__()
        self.weights = torch.nn.Parameter(values.clone())


def optimizers(golden):
    weights = torch.randn(ELEMENTS)
    gradients = torch.randn(STEPS, ELEMENTS) * torch.logspace(-4, 1, ELEMENTS)
    golden |= {"optimizer/weights": weights, "optimizer/gradients": gradients}
    cases = {
        "adamw": lambda p: torch.optim.AdamW(p, RATE, (0.9, 0.98), 1e-8, weight_decay=0.5),
        "adamw_plain": lambda p: torch.optim.AdamW(p, RATE, (0.9, 0.98), 1e-8, weight_decay=0),
        "sgd": lambda p: torch.optim.SGD(p, RATE, momentum=0.9, weight_decay=0.5),
        "sgd_nesterov": lambda p: torch.optim.SGD(p, RATE, momentum=0.9, weight_decay=0.5, nesterov=True),
    }
    for name, make in cases.items():
        for suffix, dtype in PRECISIONS.items():
            model = Weights(weights.to(dtype))
            optimizer = make(model.parameters())
            averages = {"average": ModelEmaV3(model, decay=0.7),
                        "average_warm": ModelEmaV3(model, decay=0.7, use_warmup=True)}  # fmt: skip
            for step in range(STEPS):
                model.weights.grad = gradients[step].to(dtype)
                optimizer.step()
                for average in averages.values():
                    average.update(model, step=step + 1)  # as timm's train.py counts
            golden[f"{name}/weights{suffix}"] = model.weights.detach()
            golden |= {f"{name}/{key}{suffix}": a.module.weights.detach() for key, a in averages.items()}


def learning_rates(make, steps):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.4)
    schedule = make(optimizer)
    rates = []
    for _ in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return torch.tensor(rates, dtype=torch.float64)


def schedules(golden):
    from torch.optim import lr_scheduler as lr

    def cosine(optimizer):  # 5 steps up, 35 down
        up = lr.LinearLR(optimizer, start_factor=1 / 6, total_iters=5)
        down = lr.CosineAnnealingLR(optimizer, T_max=35, eta_min=0.01)
        return lr.SequentialLR(optimizer, [up, down], milestones=[5])

    golden["schedule/cosine"] = learning_rates(cosine, 40)
    golden["schedule/one_cycle"] = learning_rates(
        lambda o: lr.OneCycleLR(o, max_lr=0.4, total_steps=37, cycle_momentum=False), 37)  # fmt: skip


def main():
    torch.manual_seed(0)
    golden = {}
    losses(golden)
    optimizers(golden)
    schedules(golden)
    assert all(torch.isfinite(tensor).all() for tensor in golden.values())
    FOLDER.mkdir(exist_ok=True)
    save_file({key: tensor.contiguous() for key, tensor in golden.items()}, FOLDER / "training.safetensors",
              {"torch": torch.__version__})  # fmt: skip


if __name__ == "__main__":
    main()
