"""What rotary positions cost: the same random ViT with and without them, passes of both in turns.

    python bench/rotary.py [--qkv PROGRAM] [--rounds N] [--threads N]

Prints best and median milliseconds of a pass of ViT-S/16 at 224, batch 1, fp32, and their ratios. Needs timm, see
tools/reference_env.sh.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from common import ROOT, TOOLS

sys.path.insert(0, str(TOOLS))

KINDS = {"plain": "none", "rotary": "normalised"}  # "qkv_rotary" in config.json; DINOv3's, without weights
SECONDS = "1.5"  # of passes in each turn


def write_models(folder):
    import torchvision_stub  # noqa: F401  before timm
    import timm
    from safetensors.torch import save_file

    name = "vit_small_patch16_224"
    weights = timm.create_model(name, pretrained=False).state_dict()
    for kind, rotary in KINDS.items():
        (folder / kind).mkdir()
        save_file(weights, folder / kind / "model.safetensors")
        config = {"architecture": name, "num_classes": 1000, "qkv_rotary": rotary}
        (folder / kind / "config.json").write_text(json.dumps(config))


def best_of(options, model):
    command = [options.qkv, "bench", "-m", model, "--dtype", "fp32", "--batch", "1", "--seconds", SECONDS, "--json"]
    if options.threads:
        command += ["--threads", str(options.threads)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)["best_ms"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--qkv", default=str(ROOT / "build/release/qkv"), help="the program")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--threads", type=int)
    options = parser.parse_args()
    times = {kind: [] for kind in KINDS}
    with tempfile.TemporaryDirectory() as folder:
        write_models(Path(folder))
        for turn in range(options.rounds):
            for kind in list(KINDS)[:: 1 if turn % 2 else -1]:
                times[kind].append(best_of(options, f"{folder}/{kind}"))
    for kind, ms in times.items():
        print(f"{kind:8} best {min(ms):8.2f} ms, median of {options.rounds} turns {statistics.median(ms):8.2f} ms")
    ratios = [summary(times["rotary"]) / summary(times["plain"]) for summary in (min, statistics.median)]
    print(f"rotary positions cost {100 * (ratios[0] - 1):.1f} % by best, {100 * (ratios[1] - 1):.1f} % by median")


if __name__ == "__main__":
    main()
