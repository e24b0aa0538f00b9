"""What qkv's Python package costs and holds: import, calls, attention inside timm's models, memory.

    PYTHON bench/python_calls.py [--measure import calls attention load texts] [--rounds N]

import: `import qkv` in new processes. calls: attention on 8 numbers, through NumPy and through PyTorch, beside PyTorch's own.
attention: ten timm models as they are and under qkv.torch.attention(), in turns, answers compared. load: memory of a ViT-B, as
a share of its weights. texts: memory of a process in the first and in the last tenth of 100,000 texts. PYTHON as of python.py.
"""

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import common

MODELS = ["vit_tiny_patch16_224", "vit_small_patch16_224", "deit_tiny_distilled_patch16_224", "vit_base_patch16_siglip_224",
          "vit_small_patch14_dinov2", "beit_base_patch16_224", "eva02_tiny_patch14_224", "vit_relpos_small_patch16_224",
          "cait_xxs24_224", "xcit_nano_12_p16_224"]  # fmt: skip
TEXTS_TOGETHER = 1000

IMPORT = "import time; t = time.perf_counter(); import qkv; print(1000 * (time.perf_counter() - t))"
LOAD = """
import json, sys, common, numpy, qkv
before = common.memory("self")["VmRSS"]
model = qkv.load(sys.argv[1], dtype=sys.argv[2])
after = common.memory("self")
model.embed(numpy.zeros((224, 224, 3), "uint8"))
print(json.dumps([size - before for size in (after["VmRSS"], after["VmHWM"], common.memory("self")["VmRSS"])]))
"""
ENCODE = """
import json, random, sys, common, qkv
model, words = qkv.load(sys.argv[1], dtype="int8"), open(sys.argv[2]).read().split()
texts, together = map(int, sys.argv[3:])
draw, held = random.Random(1), []
for done in range(0, texts, together):
    lengths = [min(int(draw.lognormvariate(1.5, 1)) + 1, 250) for _ in range(together)]
    model.encode([" ".join(words[(first := draw.randrange(len(words) - length)) : first + length]) for length in lengths])
    held.append(common.memory("self")["VmRSS"])
tenth = len(held) // 10
print(json.dumps([max(held[:tenth]), max(held[-tenth:])]))
"""


def python(code, *arguments):
    """What a new process prints."""
    return common.output([sys.executable, "-c", code, *arguments], cwd=common.ROOT / "bench")


def shown(times, unit):
    return f"best {min(times):.2f}, median {statistics.median(times):.2f} {unit}"


def measure_import(options, folder):
    print("import qkv: " + shown([float(python(IMPORT)) for _ in range(3 * options.rounds)], "ms"))


def measure_calls(options, folder):
    import numpy
    import torch

    import qkv

    array = numpy.ones((1, 1, 2, 4), numpy.float32)
    tensor, functional = torch.ones(1, 1, 2, 4), torch.nn.functional

    calls = {
        "qkv.attention on NumPy": lambda: qkv.attention(array, array, array),
        "qkv.attention on PyTorch": lambda: qkv.attention(tensor, tensor, tensor),
        "qkv.torch.scaled_dot_product_attention": lambda: qkv.torch.scaled_dot_product_attention(tensor, tensor, tensor),
        "PyTorch's, under qkv.torch.attention()": lambda: functional.scaled_dot_product_attention(tensor, tensor, tensor),
        "PyTorch's": lambda: functional.scaled_dot_product_attention(tensor, tensor, tensor),
    }
    times = {name: [] for name in calls}
    with torch.inference_mode():
        for _ in range(5 * options.rounds):
            for name, call in calls.items():
                with qkv.torch.attention() if "under" in name else contextlib.nullcontext():
                    times[name].append(microseconds(call))
    for name, each in times.items():
        print(f"attention of 2 x 2 tokens, 4 wide, {name}: " + shown(each, "µs a call"))


def microseconds(call, count=2000):
    began = time.perf_counter()
    for _ in range(count):
        call()
    return 1e6 * (time.perf_counter() - began) / count


def measure_attention(options, folder):
    import timm
    import torch

    import qkv

    torch.set_num_threads(options.threads)
    for name in MODELS:
        torch.manual_seed(0)
        model = timm.create_model(name, pretrained=False).eval()
        for parameter in (p for n, p in model.named_parameters() if "gamma" in n):
            torch.nn.init.ones_(parameter)  # 1e-5 as made, which would hide what the blocks answer
        pixels = torch.randn(options.batch, *model.pretrained_cfg["input_size"])
        times = {"plain": [], "qkv": []}
        with torch.inference_mode():
            for _ in range(1 + 2 * options.rounds):
                began = time.perf_counter()
                plain = model(pixels)
                times["plain"].append(1000 * (time.perf_counter() - began))
                time.sleep(common.PAUSE)
                with qkv.torch.attention():
                    began = time.perf_counter()
                    ours = model(pixels)
                    times["qkv"].append(1000 * (time.perf_counter() - began))
                time.sleep(common.PAUSE)
        plain_ms, ours_ms = times["plain"][1:], times["qkv"][1:]  # the first of each warms up
        off = float((plain - ours).abs().max() / plain.abs().max())
        print(f"{name}, batch {options.batch}: {shown(plain_ms, 'ms')}, under the mode {shown(ours_ms, 'ms')}: "
              f"{min(plain_ms) / min(ours_ms):.2f}x by best, {statistics.median(plain_ms) / statistics.median(ours_ms):.2f}x "
              f"by median; differs by {off:.1e}")  # fmt: skip


def measure_load(options, folder):
    common.save_random_model("vit_base_patch16_224", folder / "vit")
    weights = (folder / "vit/model.safetensors").stat().st_size
    for dtype in ("fp32", "int8"):
        resident, peak, after = (size / weights for size in json.loads(python(LOAD, folder / "vit", dtype)))
        print(f"qkv.load of a ViT-B, {dtype}, of its {weights / 1e6:.0f} MB of weights: resident {resident:.3f}, "
              f"peak {peak:.3f}, after an image {after:.3f}")  # fmt: skip


def measure_texts(options, folder):
    import text_cases

    (folder / "minilm").mkdir()
    text_cases.minilm(folder / "minilm")
    common.write(folder / "words.txt", " ".join(text_cases.sentences(5000)))
    first, last = json.loads(python(ENCODE, folder / "minilm", folder / "words.txt", options.texts, TEXTS_TOGETHER))
    print(f"{options.texts} texts of 1 to 250 words, MiniLM in int8: at most {first / 1e6:.0f} MB resident after the calls of "
          f"the first tenth, {last / 1e6:.0f} MB of the last")  # fmt: skip


MEASURES = {
    "import": measure_import,
    "calls": measure_calls,
    "attention": measure_attention,
    "load": measure_load,
    "texts": measure_texts,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--measure", nargs="+", default=list(MEASURES), choices=list(MEASURES))
    add("--rounds", type=int, default=5)
    add("--batch", type=int, default=1)
    add("--texts", type=int, default=100_000)
    add("--threads", type=int, default=common.CORES)
    options = parser.parse_args()
    sys.path.insert(0, str(common.TOOLS))
    import torchvision_stub  # noqa: F401  before timm

    print(json.dumps(common.machine(options.threads)))
    with tempfile.TemporaryDirectory(prefix="qkv-calls-") as temporary:
        for name in options.measure:
            MEASURES[name](options, Path(temporary))


if __name__ == "__main__":
    main()
