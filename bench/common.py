"""Shared by the comparisons of this folder: test models and inputs, interleaved processes, the machine's description."""

import importlib.metadata
import json
import os
import random
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TOOLS = ROOT / "tools"
RESULTS = ROOT / "build/bench-results"  # raw measurements; data/results/ keeps the summaries
CORES = len(os.sched_getaffinity(0))
ISA = os.environ.get("QKV_ISA") or None  # the instruction set that qkv is restricted to, or None: the best of the machine
PEERS_ISA = os.environ.get("QKV_PEERS_ISA") or None  # the same for the peers: as_avx2.py sets both
ISAS = {"baseline": "baseline", "avx2": "AVX2", "avxvnni": "AVX-VNNI", "avx512": "AVX-512", "amx": "AMX"}  # ascending
PAUSE = 0.1  # s; ONNX Runtime's threads still spin 20 ms after a pass (measured: 30 ms of processor time), OpenMP's less

# Precisions of the peers; see `serve.py`.
PEERS = {
    "pytorch-eager": ["fp32", "bf16", "int8"],
    "pytorch-compile": ["fp32", "bf16"],
    "pytorch-frozen": ["fp32", "bf16"],
    "onnxruntime": ["fp32", "int8"],
    "openvino": ["fp32", "bf16", "int8"],
}
PRECISIONS = ["fp32", "bf16", "int8"]
TITLES = {
    "pytorch-eager": "PyTorch eager",
    "pytorch-compile": "PyTorch compiled",
    "pytorch-frozen": "PyTorch compiled, frozen",
    "onnxruntime": "ONNX Runtime",
    "openvino": "OpenVINO",
}
FAMILIES = {"vit_tiny": "ViT-Ti", "vit_small": "ViT-S", "vit_base": "ViT-B", "vit_large": "ViT-L"}

OWNERS = {"clip": "CLIP", "dinov3": "DINOv3", "siglip": "SigLIP"}


def title(model):
    """vit_base_patch16_224 -> ViT-B/16, vit_base_patch16_clip_224 -> CLIP's ViT-B/16; other names stay."""
    owner = next((f"{name}'s " for key, name in OWNERS.items() if f"_{key}" in model), "")
    for prefix, short in FAMILIES.items():
        if model.startswith(prefix + "_patch"):
            return f"{owner}{short}/{model[len(prefix) + 6 :].partition('_')[0]}"
    return model


def progress(text):
    """One line on stderr: rewritten on a terminal, else printed."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
    elif text:
        print(text, file=sys.stderr, flush=True)


def machine(threads):
    """Description of this machine and its software, as strings and numbers; "isa" and "peers_isa" only if qkv
    or the peers are restricted to one."""
    info = {}
    for line in open("/proc/cpuinfo"):
        key, _, value = line.partition(":")
        info.setdefault(key.strip(), value.strip())
    flags = info.get("flags", "").split()
    wanted = ["avx2", "avx512f", "avx512_bf16", "avx512_vnni", "avx_vnni", "amx_bf16", "amx_int8"]
    versions = {}
    for package in ["torch", "timm", "onnxruntime", "openvino", "nncf"]:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            pass
    git = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return {
        **({"isa": ISA} if ISA else {}),
        **({"peers_isa": PEERS_ISA} if PEERS_ISA else {}),
        "processor": info.get("model name", "unknown processor"),
        "family": f"family {info.get('cpu family')}, model {info.get('model')}",
        "cores": CORES,
        "threads": threads,
        "instructions": [flag for flag in wanted if flag in flags],
        "versions": versions,
        "commit": git.stdout.strip(),
        "date": date.today().isoformat(),
    }


def best_isa(instructions):
    """The entry of ISAS that qkv selects on a machine with these (from `machine`)."""
    if {"amx_bf16", "amx_int8", "avx512_vnni"} <= set(instructions):
        return "amx"
    has = {"avx512f": "avx512", "avx_vnni": "avxvnni", "avx2": "avx2"}
    return next((isa for flag, isa in has.items() if flag in instructions), "baseline")


def require_program(path, how="`make build` makes build/release/qkv, --qkv names another"):
    """Exits with `how` to get the program if it is missing."""
    if not path.is_file():
        sys.exit(f"{path}: no such program; {how}")


def built_by(target):
    """How to get a program of bench/, for require_program."""
    return f"`cmake --preset bench && cmake --build --preset bench --target {target}` makes it"


def output(command, **settings):
    """The stdout of a command. Exits with its stderr if it fails."""
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **settings)
    if done.returncode:
        sys.exit(f"{command[0]} ended with exit code {done.returncode}:\n{done.stderr}")
    return done.stdout


def keep_to_cores(count):
    """For subprocess's preexec_fn: limits the program to `count` cores, and so to as many threads."""
    chosen, taken = [], set()
    for cpu in sorted(os.sched_getaffinity(0)):
        siblings = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        core = siblings.read_text() if siblings.exists() else cpu
        if core not in taken:
            chosen.append(cpu)
            taken.add(core)
    if len(chosen) < count:
        sys.exit(f"{count} threads are to be measured, but there are {len(chosen)} cores")
    return lambda: os.sched_setaffinity(0, chosen[:count])


def result(name):
    """Default file of a measurement: roofline.json, under QKV_ISA=avx2 roofline-avx2.json, with the peers held too
    roofline-held-avx2.json, so that none overwrites another."""
    path = RESULTS / name
    held = "held-" if PEERS_ISA else ""
    return path.with_stem(f"{path.stem}-{held}{ISA}") if ISA else path


def memory(process):
    """{"VmRSS", "VmHWM"}: current and peak bytes of a process. `process`: its id, or "self"."""
    sizes = {}
    for line in open(f"/proc/{process}/status"):
        key, _, value = line.partition(":")
        if key in ("VmRSS", "VmHWM"):
            sizes[key] = 1024 * int(value.split()[0])
    return sizes


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def write_json(path, data):
    write(path, json.dumps(data, indent=1) + "\n")


# ------------------------------------------------------------------------------------------------
# Models and inputs


def photos():
    """Photos for the measurements: $QKV_DATA/photos, or none."""
    root = Path(os.environ.get("QKV_DATA", "/nonexistent")) / "photos"
    return sorted(p for p in root.rglob("*") if p.suffix.lower() in (".jpg", ".jpeg"))


def photo_pixels(paths, shape):
    """Photos as normalised pixels [B,channels,height,width]; random ones if there are too few `paths`."""
    import numpy as np
    import torch
    from PIL import Image, ImageOps

    batch, channels, height, width = shape
    if len(paths) < batch:
        return torch.randn(shape, generator=torch.Generator().manual_seed(1))
    images = []
    for path in paths[:batch]:
        image = Image.open(path).convert("RGB" if channels == 3 else "L")
        array = np.asarray(ImageOps.fit(image, (width, height), Image.Resampling.BICUBIC), np.float32)
        images.append(torch.from_numpy(array / 127.5 - 1).reshape(height, width, channels).permute(2, 0, 1))
    return torch.stack(images).contiguous()


def save_random_model(name, folder, size=None, classes=None):
    """A timm model with random weights, as timm saves it. `size`: input size, if not the model's own; `classes`:
    likewise, 0 for an encoder.

    Weights have variance 1/K for K inputs, as in a trained model; timm's initial
    weights are so small that every image would get nearly the same logits."""
    sys.path.insert(0, str(TOOLS))
    import torchvision_stub  # noqa: F401  before timm
    import timm
    import torch
    from timm.models import save_for_hf

    torch.manual_seed(0)
    args = {} if size is None else {"img_size": size}
    if classes is not None:
        args["num_classes"] = classes
    model = timm.create_model(name, **args)
    for module in model.modules():
        if isinstance(module, torch.nn.Linear):
            torch.nn.init.normal_(module.weight, std=module.in_features**-0.5)
            if module.bias is not None:
                torch.nn.init.normal_(module.bias, std=0.1)
    save_for_hf(model, folder, model_args=args or None, safe_serialization=True)


def prepare(folder, model, batch, size=None):
    """FOLDER/model, and the safetensors pixels, calibration, and reference (eager PyTorch's fp32 logits of the pixels).
    `model`: a name of timm's (random weights) or a checkpoint's folder. Returns {"size", "calibration"}."""
    sys.path.insert(0, str(TOOLS))
    import torchvision_stub  # noqa: F401  before timm
    import timm
    import torch
    from safetensors.torch import save_file

    if Path(model).is_dir():
        (folder / "model").symlink_to(Path(model).resolve())
    else:
        save_random_model(model, folder / "model", size)
    net = timm.create_model(f"local-dir:{folder / 'model'}", pretrained=True).eval()
    height, width = net.patch_embed.img_size
    channels = net.patch_embed.proj.in_channels
    files = photos()
    pixels = photo_pixels(files, (batch, channels, height, width))
    save_file({"pixels": pixels}, folder / "pixels.safetensors")
    with torch.no_grad():
        save_file({"logits": net(pixels)}, folder / "reference.safetensors")
    # From the other end of the folder, so that calibration and measurement use different images.
    count = max(32, batch)
    save_file({"pixels": photo_pixels(files[batch:][::-1], (count, channels, height, width))},
              folder / "calibration.safetensors")  # fmt: skip
    return {"size": height, "calibration": f"{count} photos" if len(files) >= batch + count else "random pixels"}


# ------------------------------------------------------------------------------------------------
# Contenders: processes that run one pass per line and answer its milliseconds


class Contender:
    """A process that answers each line with the milliseconds of one pass. If it exits, RuntimeError is raised."""

    def __init__(self, name, command, environment, log):
        self.name, self.times = name, []
        self.process = subprocess.Popen([str(c) for c in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=log, text=True, env=environment)  # fmt: skip

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
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        self.process.wait()


@dataclass
class Entry:
    """One program to measure. `program`: "qkv", a peer's name, or that of a qkv variant (flags, environment)."""

    program: str
    precision: str
    flags: list = field(default_factory=list)
    environment: dict = field(default_factory=dict)

    @property
    def key(self):
        return f"{self.program}-{self.precision}".replace(" ", "_").replace("/", "_")

    def start(self, qkv, folder, batch, threads):
        """A ready Contender, with its logits in FOLDER/KEY.safetensors. Raises RuntimeError, with the reason, if
        this cannot run here."""
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads), **self.environment}
        log = folder / f"{self.key}.log"
        with open(log, "w") as log_file:
            if self.program in PEERS:
                command = [sys.executable, ROOT / "bench/serve.py", self.program, self.precision, folder, threads]
            else:
                shared = ["--model", folder / "model", "--threads", threads, "--dtype", self.precision, *self.flags]
                run = [qkv, "run", "-q", *shared, "--input", folder / "pixels.safetensors",
                       "--output", folder / f"{self.key}.safetensors"]  # fmt: skip
                if subprocess.run([str(c) for c in run], stdout=log_file, stderr=log_file, env=environment).returncode:
                    raise RuntimeError(last_words(log))
                command = [qkv, "bench", *shared, "--batch", batch, "--stdin"]
            contender = Contender(self.key, command, environment, log_file)
        try:
            if self.program not in PEERS:
                contender.ask()
            elif contender.line() != "ready":
                raise RuntimeError(f"{self.key} did not say that it is ready")
        except (RuntimeError, BrokenPipeError):
            contender.close()
            raise RuntimeError(last_words(log)) from None
        return contender


def last_words(log):
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
    lines = [line for line in lines if line and not line.startswith("Run with --help")]
    return lines[-1] if lines else "no message"


def parse_variant(text):
    """'NAME: [VARIABLE=VALUE…] FLAGS' -> (name, flags, environment)"""
    name, colon, rest = text.partition(":")
    if not colon or not name.strip():
        raise ValueError(f"a variant is written 'NAME: FLAGS', got {text!r}")
    flags, environment = [], {}
    for word in shlex.split(rest):
        variable, equals, value = word.partition("=")
        if equals and not flags and variable.isupper():
            environment[variable] = value
        else:
            flags.append(word)
    return name.strip(), flags, environment


def entries(programs, precisions, variants=()):
    """qkv first, within each precision."""
    chosen = []
    for precision in precisions:
        chosen.append(Entry("qkv", precision))
        chosen += [Entry(name, precision, flags, environment) for name, flags, environment in variants]
        chosen += [Entry(name, precision) for name in programs if precision in PEERS[name]]
    return chosen


def agreement(folder, key):
    """Agreement of the logits with eager PyTorch in fp32: greatest difference relative to the greatest
    logit, mean cosine, share of images with the same best class."""
    from safetensors.torch import load_file

    theirs = load_file(folder / f"{key}.safetensors")["logits"].double()
    reference = load_file(folder / "reference.safetensors")["logits"].double()
    cosine = (theirs * reference).sum(-1) / (theirs.norm(dim=-1) * reference.norm(dim=-1))
    return {
        "difference": float((theirs - reference).abs().max() / reference.abs().max()),
        "cosine": float(cosine.mean()),
        "top1": float((theirs.argmax(-1) == reference.argmax(-1)).double().mean()),
    }


def take_turns(contenders, rounds, warmup, label):
    """Fills .times: each round runs every contender once, in a new order, with a pause in between for the
    threads of the last one to sleep; a slow minute of the machine then affects all alike."""
    for round_ in range(-warmup, rounds):
        if sys.stderr.isatty() or round_ in (-warmup, 0):
            progress(f"{label}: {'warming up' if round_ < 0 else f'round {round_ + 1} of {rounds}'}")
        for contender in random.sample(contenders, len(contenders)):
            time.sleep(PAUSE)
            milliseconds = contender.ask()
            if round_ >= 0:
                contender.times.append(milliseconds)
    progress("")


def measure(qkv, case, chosen, rounds, warmup=2):
    """One case {"model", "batch", "threads", "size" (None: the model's own)} with the given entries.

    Returns (rows, left_out): rows are the case and {"program", "precision", "times" (ms), "best", "median", and
    what agreement() gives}; left_out are {"program", "precision", "why"}."""
    label = f"{title(case['model'])}, batch {case['batch']}, {case['threads']} thread{'s' * (case['threads'] > 1)}"
    if case["size"]:
        label += f", {case['size']}×{case['size']}"
    with tempfile.TemporaryDirectory(prefix="qkv-bench-") as temporary:
        folder = Path(temporary)
        progress(f"{label}: making the model")
        case = {**case, **prepare(folder, case["model"], case["batch"], case["size"])}
        running, left_out = [], []  # running: (entry, contender)
        try:
            for entry in chosen:
                progress(f"{label}: starting {entry.key}")
                try:
                    running.append((entry, entry.start(qkv, folder, case["batch"], case["threads"])))
                except RuntimeError as why:
                    left_out.append({"program": entry.program, "precision": entry.precision, "why": str(why)})
            take_turns([contender for _, contender in running], rounds, warmup, label)
            rows = [{**case, "program": entry.program, "precision": entry.precision, "best": min(c.times),
                     "median": statistics.median(c.times), **agreement(folder, entry.key), "times": c.times}
                    for entry, c in running]  # fmt: skip
        finally:
            for _, contender in running:
                contender.close()
    return rows, left_out
