"""Walks timm's registry: every architecture of its modules vision_transformer, eva, beit and deit, one block deep.

    python tools/verify_registry.py [--qkv PROGRAM] [--write FILE] [PATTERN...]

Each is made with random weights and saved as timm saves it, with the arguments of its name alone but for the depth.
`qkv verify` compares logits, tokens and hidden states with timm's in both precisions, by the tolerance of
docs/architecture.md. An architecture agrees, or is refused with the reason that qkv's copy of the registry has; all else
is a failure, and then the exit status is 1. One model is on disk at a time. --write puts the result into its part of a page
(docs/models.md).
"""
import argparse
import collections
import fnmatch
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests/golden"), str(ROOT / "tools")]

from models_page import TIMM, replace_part  # noqa: E402
from originals import Case, answers, build, save, save_file  # noqa: E402
import timm  # noqa: E402

MODULES = ("vision_transformer", "eva", "beit", "deit")


def architectures(patterns):
    names = sorted(name for module in MODULES for name in timm.list_models(module=module))
    return [n for n in names if not patterns or any(fnmatch.fnmatch(n, p) for p in patterns)]


def build_one_block(case):
    try:
        return build(case)
    except AssertionError:  # a list with an entry for each block, of heads that share keys
        case.args["num_kv_heads"] = [1]
        return build(case)


def walk(name, program, folder):
    """(outcome, detail): "agreed" with the class, "refused" with the reason, or "failed" with what qkv said."""
    case = Case(f"registry_{name}", "timm", name, {"depth": 1}, batch=1)
    model = build_one_block(case)
    save(case, model, folder)
    info = subprocess.run([program, "info", "-m", folder], capture_output=True, text=True)
    if info.returncode == 1 and f'architecture "{name}" is not supported: ' in info.stderr:
        return "refused", info.stderr.strip().rpartition(" is not supported: ")[2]
    if info.returncode != 0:
        return "failed", info.stderr.strip()
    case.args["img_size"] = tuple(model.patch_embed.img_size)
    kept = {k: v for k, v in answers(case, model).items() if not k.startswith("attention.")}  # which goldens compare
    reference = folder.with_suffix(".reference.safetensors")  # beside the model: a model's folder is read whole
    save_file(kept, reference)
    done = subprocess.run([program, "verify", "-m", folder, reference], capture_output=True, text=True)
    return ("agreed", type(model).__name__) if done.returncode == 0 else ("failed", (done.stdout + done.stderr).strip())


def table(outcomes):
    """Markdown: the names that agree, by class, and those refused, by reason."""
    lines = [f"These are the {len(outcomes)} names of the modules `{'`, `'.join(MODULES)}` of timm {timm.__version__}.",
             "`make verify` compares each, one block deep with random weights, in logits, tokens and hidden states.", ""]
    for outcome, title in (("agreed", "### Equal to timm's answers"), ("refused", "### Refused, with this reason")):
        groups = collections.defaultdict(list)
        for name, (found, detail) in outcomes.items():
            if found == outcome:
                groups[detail].append(name)
        count = sum(map(len, groups.values()))
        lines += [f"{title}: {count}", "", f"| {'class' if outcome == 'agreed' else 'reason'} | names |", "|---|---|"]
        lines += [f"| {detail} | {', '.join(f'`{n}`' for n in names)} |" for detail, names in sorted(groups.items())]
        lines.append("")
    return "\n".join(lines[:-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("patterns", nargs="*", metavar="PATTERN")
    parser.add_argument("--qkv", default=ROOT / "build/release/qkv", type=Path, metavar="PROGRAM")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the table of what agrees into this page")
    options = parser.parse_args()
    if not options.qkv.is_file():
        sys.exit(f"{options.qkv}: no such program; run `make build` first")
    names = architectures(options.patterns)
    if not names:
        sys.exit("no architecture has such a name")
    outcomes = {}
    for name in names:
        start = time.perf_counter()
        with tempfile.TemporaryDirectory(prefix="qkv-registry-") as temporary:
            outcome, detail = outcomes[name] = walk(name, options.qkv, Path(temporary) / name)
        said = "" if outcome == "agreed" else "  " + detail.replace("\n", "\n    ")
        print(f"{name:48} {outcome:8} {time.perf_counter() - start:5.1f} s{said}", flush=True)
    counts = collections.Counter(outcome for outcome, _ in outcomes.values())
    print(f"\n{len(names)} architectures: " + ", ".join(f"{counts[o]} {o}" for o in ("agreed", "refused", "failed")))
    if options.write and not counts["failed"]:
        options.write.write_text(replace_part(options.write.read_text(), TIMM, table(outcomes)))
    sys.exit(counts["failed"] > 0)


if __name__ == "__main__":
    main()
