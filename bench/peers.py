"""Times one forward pass of ViTs in qkv and in its peers, interleaved; prints Markdown.

    python bench/peers.py [--models NAME...] [--batches N...] [--rounds N] [--threads N] [--qkv PROGRAM]

Peers are PyTorch (eager; compiled; compiled with frozen weights), and ONNX Runtime and OpenVINO
where they can be imported. All run the same weights on the same pixels in float32, each in a
process of its own that stays: for each line on its stdin it makes one timed pass and answers
with the milliseconds, as `qkv bench --stdin` does. A round asks each of them once, in an order
that changes, and waits between two for the other's threads to fall asleep; so a slow minute of
the machine hits all alike. Best and median over the rounds are printed. Exit 1 if the logits
of one differ from eager PyTorch's.
"""
import argparse
import importlib.util
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

PYTORCH = ["pytorch-eager", "pytorch-compile", "pytorch-compile-frozen"]
OTHERS = {"onnxruntime": "onnxruntime", "openvino": "openvino"}  # peer: the module it needs
PAUSE = 0.02  # s; OpenMP threads spin for some milliseconds after a parallel region
TOLERANCE = 1e-4  # of the greatest |logit|: float32 summed in another order, twelve blocks deep


# ------------------------------------------------------------------------------------------------
# A peer's own process: `peers.py --serve PEER FOLDER THREADS`


def serve(peer, folder, threads):
    """Reads the model and pixels.safetensors from the folder, writes PEER.safetensors (its logits)
    and the line "ready"; then a line of milliseconds for each line read."""
    import torch
    from safetensors.torch import load_file, save_file

    torch.set_num_threads(threads)
    pixels = load_file(folder / "pixels.safetensors")["pixels"]
    with torch.inference_mode():
        forward = {**dict.fromkeys(PYTORCH, serve_pytorch), "onnxruntime": serve_onnxruntime,
                   "openvino": serve_openvino}[peer](peer, folder, pixels, threads)  # fmt: skip
        logits = torch.as_tensor(forward())
        save_file({"logits": logits.clone()}, folder / f"{peer}.safetensors")
        print("ready", flush=True)
        for _ in sys.stdin:
            start = time.perf_counter()
            forward()
            print(1e3 * (time.perf_counter() - start), flush=True)


def load_pytorch(folder):
    import torchvision_stub  # noqa: F401  before timm
    import timm

    return timm.create_model(f"local-dir:{folder}", pretrained=True).eval()


def serve_pytorch(peer, folder, pixels, threads):
    import torch

    model = load_pytorch(folder)
    if peer != "pytorch-eager":
        import torch._inductor.config

        torch._inductor.config.freezing = peer.endswith("frozen")
        model = torch.compile(model)
    # no_grad, not inference_mode, since freezing is taught by the former.
    def forward():
        with torch.inference_mode(False), torch.no_grad():
            return model(pixels)

    return forward


def serve_onnxruntime(peer, folder, pixels, threads):
    import onnxruntime
    import torch

    path = folder / f"onnx-{len(pixels)}.onnx"
    with torch.inference_mode(False), torch.no_grad():
        torch.onnx.export(load_pytorch(folder), (pixels,), path, dynamo=False,
                          input_names=["pixels"], output_names=["logits"], opset_version=17)  # fmt: skip
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feed = {"pixels": pixels.numpy()}
    return lambda: session.run(None, feed)[0]


def serve_openvino(peer, folder, pixels, threads):
    import openvino
    import torch

    with torch.inference_mode(False), torch.no_grad():
        model = openvino.convert_model(load_pytorch(folder), example_input=pixels, input=list(pixels.shape))
    config = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": threads}
    request = openvino.compile_model(model, "CPU", config).create_infer_request()
    array = pixels.numpy()
    return lambda: request.infer([array])[0]


# ------------------------------------------------------------------------------------------------
# Contenders as seen from outside


class Contender:
    """A process that answers each line with the milliseconds of one pass."""

    def __init__(self, name, command, environment, log):
        self.name, self.times = name, []
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, env=environment)  # fmt: skip

    def line(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} ended with exit code {self.process.wait()}")
        return line.strip()

    def ask(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return float(self.line())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def start(name, folder, batch, options, environment, log):
    if name == "qkv":
        command = [options.qkv, "bench", "--model", folder, "--dtype", "fp32", "--batch", batch,
                   "--threads", options.threads, "--stdin"]  # fmt: skip
    else:
        command = [sys.executable, __file__, "--serve", name, folder, options.threads]
    contender = Contender(name, [str(c) for c in command], environment, log)
    if name == "qkv":
        run = [options.qkv, "run", "-m", folder, "--threads", options.threads,
               "--input", folder / "pixels.safetensors", "--output", folder / "qkv.safetensors"]  # fmt: skip
        subprocess.run([str(c) for c in run], check=True, env=environment, stdout=log, stderr=log)
    elif contender.line() != "ready":
        raise RuntimeError(f"{name} did not say that it is ready")
    return contender


def prepare(name, batch, folder):
    """A model with random weights as timm saves it, and pixels."""
    import torchvision_stub  # noqa: F401  before timm
    import timm
    import torch
    from safetensors.torch import save_file
    from timm.models import save_for_hf

    torch.manual_seed(0)
    model = timm.create_model(name)
    save_for_hf(model, folder, safe_serialization=True)
    channels, height, width = model.pretrained_cfg["input_size"]
    save_file({"pixels": torch.randn(batch, channels, height, width)}, folder / "pixels.safetensors")


def disagreement(folder, name):
    """Greatest difference of the logits to eager PyTorch's, relative to the greatest of these."""
    from safetensors.torch import load_file

    theirs = load_file(folder / f"{name}.safetensors")["logits"]
    ours = load_file(folder / "pytorch-eager.safetensors")["logits"]
    return float((theirs - ours).abs().max() / ours.abs().max())


def measure(model, batch, names, options):
    """[{name, best, median, disagreement}] in the order of `names`."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(options.threads)}
    with tempfile.TemporaryDirectory(prefix="qkv-peers-") as temporary, open(Path(temporary) / "log", "w+") as log:
        folder = Path(temporary)
        prepare(model, batch, folder)
        contenders = []
        try:
            for name in names:
                progress(f"{model} × {batch}: starting {name}")
                contenders.append(start(name, folder, batch, options, environment, log))
            for round_ in range(-options.warmup, options.rounds):
                progress(f"{model} × {batch}: round {round_ + 1} of {options.rounds}")
                for contender in random.sample(contenders, len(contenders)):
                    time.sleep(PAUSE)
                    milliseconds = contender.ask()
                    if round_ >= 0:
                        contender.times.append(milliseconds)
            progress("")
            return [
                {"model": model, "batch": batch, "name": c.name, "best": min(c.times),
                 "median": statistics.median(c.times), "disagreement": disagreement(folder, c.name)}
                for c in contenders
            ]  # fmt: skip
        except (RuntimeError, subprocess.CalledProcessError) as error:
            log.seek(0)
            sys.exit(f"{error}\n{log.read()[-4000:]}")
        finally:
            for contender in contenders:
                contender.close()


def progress(text):
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


# ------------------------------------------------------------------------------------------------
# Report


def table(rows):
    """Markdown; ratios are against the best of PyTorch, by the same statistic."""
    torch_best = min(r["best"] for r in rows if r["name"] in PYTORCH)
    torch_median = min(r["median"] for r in rows if r["name"] in PYTORCH)
    lines = [
        f"### {rows[0]['model']}, batch {rows[0]['batch']}",
        "",
        "| | best, ms | median, ms | images/s | times PyTorch's best, by best | by median | logits differ |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for r in rows:
        lines.append(
            f"| {r['name']} | {r['best']:.2f} | {r['median']:.2f} | {1e3 * r['batch'] / r['median']:.1f} "
            f"| {torch_best / r['best']:.2f} | {torch_median / r['median']:.2f} | {r['disagreement']:.1e} |")  # fmt: skip
    return "\n".join(lines) + "\n"


def machine(options):
    names = {line.partition(":")[2].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")}
    from importlib.metadata import version

    packages = ["torch", "timm"] + [p for p in OTHERS if importlib.util.find_spec(OTHERS[p])]
    versions = ", ".join(f"{p} {version(p)}" for p in packages)
    return f"{', '.join(names) or 'unknown processor'}, {options.threads} threads; {versions}; {options.rounds} rounds.\n"


def main():
    if sys.argv[1:2] == ["--serve"]:
        return serve(sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", default=["vit_base_patch16_224", "vit_tiny_patch16_224"])
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 8])
    parser.add_argument("--peers", nargs="+", metavar="PEER", help="default: all that can be imported")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--warmup", type=int, default=3, help="rounds that are not counted")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--qkv", type=Path, default=ROOT / "build/release/qkv", metavar="PROGRAM")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers there as well")
    options = parser.parse_args()
    peers = options.peers or PYTORCH + [p for p, module in OTHERS.items() if importlib.util.find_spec(module)]
    if "pytorch-eager" not in peers:
        parser.error("--peers needs pytorch-eager, which the others are checked against")
    if not options.qkv.is_file():
        sys.exit(f"{options.qkv}: no such program; run `make build` first")

    print(machine(options), flush=True)
    rows = []
    for model in options.models:
        for batch in options.batches:
            measured = measure(model, batch, ["qkv"] + peers, options)
            print(table(measured), flush=True)
            rows += measured
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")
    wrong = [r for r in rows if not r["disagreement"] <= TOLERANCE]
    for r in wrong:
        print(f"{r['name']} on {r['model']}, batch {r['batch']}: logits differ by {r['disagreement']:.1e}")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
