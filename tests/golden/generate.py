"""Writes the goldens: small models by timm, transformers and vit-pytorch, and what these answer.

    python tests/golden/generate.py [CASE...]     all of them, or the named ones

Needs the environment of tools/reference_env.sh; the tests that read the goldens need nothing.
CASE/ in the archive of its family (pack.py) holds the model as its library lays it out and expected.safetensors.
The same versions on the same processor give the same files, byte for byte.
"""
import sys

import torch
from cases import CASES
from originals import answers, build, load, run, save, save_file
from pack import pack, unpacked

FOLDER = unpacked("tests/golden")
LIMIT = 1 << 20  # bytes a folder


def generate(case):
    folder = FOLDER / case.name
    model = build(case)
    save(case, model, folder)
    tensors = answers(case, model)
    check(case, tensors)
    check_folder(case, folder, tensors)
    save_file(tensors, folder / "expected.safetensors")
    size = sum(f.stat().st_size for f in folder.iterdir())
    first = "logits" if "logits" in tensors else "class_queries_logits"
    assert size <= LIMIT, f"{case.name}: {size} bytes"
    print(f"{case.name:36} {size >> 10:5} KiB  {first} {list(tensors[first].shape)}", flush=True)


def check(case, tensors):
    """A golden that tests nothing is worse than none."""
    for name, value in tensors.items():
        assert value.isfinite().all(), f"{case.name}: {name} is not finite"
        if f"{name}.float64" in tensors:
            double = tensors[f"{name}.float64"]
            assert value.dtype == torch.float32 and double.dtype == torch.float64, name
            gap = (value - double).abs().max() / double.abs().max()
            assert 0 < gap < 2e-5, f"{case.name}: {name} differs by {gap} between precisions"
    for name, weights in tensors.items():
        if name.startswith("attention.") and not name.endswith("float64"):
            uniform = 1 / weights.shape[-1]
            assert weights.max() > 3 * uniform, f"{case.name}: {name} is close to uniform"


def check_folder(case, folder, tensors):
    """The library must read its own answer back out of the folder: at another image size, timm
    does so by resampling the checkpoint, and `answers` by dynamic_img_size; both must agree."""
    again = run(case, load(case, folder), tensors["pixels"])
    for name, value in again.items():
        assert torch.equal(value, tensors[name]), f"{case.name}: {name} is not what the folder gives"


def main():
    torch.set_num_threads(1)
    unknown = set(sys.argv[1:]) - CASES.keys()
    if unknown:
        sys.exit(f"unknown: {', '.join(sorted(unknown))}\nknown: {', '.join(CASES)}")
    for name in sys.argv[1:] or CASES:
        generate(CASES[name])
    pack()


if __name__ == "__main__":
    main()
