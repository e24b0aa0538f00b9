"""What the explorer's page waits for: its calls (docs/explore_protocol.md) to `qkv explore`, one after the other.

    python3 bench/explore.py [--qkv PROGRAM] [-m MODEL] [--rounds N]

Milliseconds of whole calls over loopback, with an image of noise: best, median, and what 90 % stay below. Edits concern
all blocks and heads, answers have all maps, unless it says otherwise. Needs Python alone.
"""

import argparse
import json
import random
import statistics
import struct
import subprocess
import time
import urllib.request


def encode(fields, pixels=None, shape=None):
    arrays = {} if pixels is None else {"pixels": {"dtype": "u8", "shape": shape, "offset": 0, "bytes": len(pixels)}}
    text = json.dumps({**fields, "arrays": arrays}).encode()
    data = b"" if pixels is None else pixels + bytes(-len(pixels) % 8)
    return struct.pack("<I", len(text)) + text + bytes(-(4 + len(text)) % 8) + data


class Explorer:
    def __init__(self, program, model):
        command = [program, "explore", "--no-browser", "--port", "0", *(["-m", model] if model else [])]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.url = self.process.stdout.readline().strip().rstrip("/")

    def call(self, name, fields, **image):
        request = urllib.request.Request(f"{self.url}/explore/{name}", data=encode(fields, **image))
        request.add_header("Content-Type", "application/octet-stream")
        with urllib.request.urlopen(request) as answer:
            packet = answer.read()
        (length,) = struct.unpack_from("<I", packet)
        return json.loads(packet[4 : 4 + length])


def calls(blocks):
    def edited(**edit):
        return "pass", {"blocks": "all", "edits": [edit]}

    middle = blocks // 2
    return {
        "pass": ("pass", {"blocks": "all"}),
        "pass, maps of one block": ("pass", {"blocks": [middle]}),
        "symmetry": edited(kind="symmetry", t=-0.5),
        "rank by weights": edited(kind="rank", rank=8),
        "rank by data": edited(kind="rank", rank=8, by="data"),
        "gauge": edited(kind="gauge", strength=0.8, seed=3),
        "a head out": edited(kind="head", block=middle, head=0),
        "rollout": ("rollout", {}),
        "relevance of a class": ("relevance", {"class": 3}),
        "features as colours": ("tokens", {"block": blocks - 1}),
        "each head of a block out": ("knockout", {"class": 3, "block": middle}),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--qkv", default="build/release/qkv")
    parser.add_argument("-m", "--model")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    explorer = Explorer(options.qkv, options.model)
    try:
        model = explorer.call("models", {})["models"][0]
        shape = [224, 224, 3] if options.model else [28, 28]
        pixels = random.Random(1).randbytes(shape[0] * shape[1] * (3 if options.model else 1))
        fields = {"model": model["id"]}
        fields["image"] = explorer.call("image", fields, pixels=pixels, shape=shape)["image"]
        print(f"{'call':26}{'best':>8}{'median':>8}{'90 %':>8}")
        for what, (name, more) in calls(model["blocks"]).items():
            times = []
            for _ in range(options.rounds + 1):
                start = time.perf_counter()
                explorer.call(name, {**fields, **more})
                times.append((time.perf_counter() - start) * 1000)
            times = sorted(times[1:])  # the first prepares what later ones use
            print(f"{what:26}{times[0]:8.1f}{statistics.median(times):8.1f}{times[int(0.9 * len(times))]:8.1f}")
    finally:
        explorer.process.terminate()


if __name__ == "__main__":
    main()
