"""Runs training steps in PyTorch: python bench/train_peer.py PROGRAM PRECISION D,L,H,PATCH,IMAGE,BATCH THREADS

Writes the line "ready BYTES", the memory of the process before the model was created; then, for each line read, runs
one timed training step (forward, loss, backward, AdamW) and writes the milliseconds.

Configured as PyTorch's documentation recommends for speed: fused optimizer, gradients set to None, scaled dot-product
attention (timm's default); bf16 by autocast, with weights and gradients in fp32.
"""

import sys
import time

from common import TOOLS, memory

sys.path.insert(0, str(TOOLS))


def stepper(program, precision, shape):
    """A function that runs one step, and the bytes of the process before the model was created."""
    import torchvision_stub  # noqa: F401  before timm
    import torch
    from timm.models.vision_transformer import VisionTransformer
    from timm.optim import param_groups_weight_decay
    from torch.nn.functional import cross_entropy

    if precision == "bf16" and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        sys.exit("PyTorch has no bf16 kernels for this processor")
    before = memory("self")["VmRSS"]
    torch.manual_seed(0)
    width, depth, heads, patch, image, batch = shape
    model = VisionTransformer(img_size=image, patch_size=patch, embed_dim=width, depth=depth, num_heads=heads,
                              num_classes=10)  # fmt: skip
    optimizer = torch.optim.AdamW(param_groups_weight_decay(model, 0.05), lr=1e-3, fused=True)
    pixels = torch.randn(batch, 3, image, image)
    labels = torch.arange(batch) % 10
    forward = torch.compile(model) if program == "pytorch-compile" else model

    def step():
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            loss = cross_entropy(forward(pixels), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step, before


def main():
    program, precision, shape, threads = sys.argv[1:]
    import torch

    torch.set_num_threads(int(threads))
    step, before = stepper(program, precision, [int(x) for x in shape.split(",")])
    step()  # compiles
    print("ready", before, flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        step()
        print(1e3 * (time.perf_counter() - start), flush=True)


if __name__ == "__main__":
    main()
