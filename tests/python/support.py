"""What the tests share: goldens, the tolerance, folders with small tokenizers, processes that are interrupted."""

import json
import os
import string
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/golden"))
from pack import unpacked  # noqa: E402

GOLDEN = unpacked("tests/golden")
TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "U8": "u1"}


def read_safetensors(file):
    """Tensors by name; the tests run without the package safetensors."""
    data = Path(file).read_bytes()
    (size,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    arrays = {}
    for name, entry in header.items():
        first, end = (8 + size + offset for offset in entry["data_offsets"])
        arrays[name] = np.frombuffer(data[first:end], dtype=TYPES[entry["dtype"]]).reshape(entry["shape"])
    return arrays


def goldens_in(folder):
    """Names of the models in a folder with stored outputs of the original, sorted."""
    return sorted(file.parent.name for file in folder.glob("*/expected.safetensors"))


def expected(name):
    """The stored tensors of a golden ("hf_vit", "text/bert")."""
    return read_safetensors(GOLDEN / name / "expected.safetensors")


def expected_json(name):
    return json.loads((GOLDEN / name / "expected.json").read_text(encoding="utf-8"))


def assert_as_exact(ours, stored, name):
    """Within four times the original's own error in float32, and a rounding, of its answer in float64.

    Attention weights are rounded as scores, whose spread is at least ln(1 / least weight) and of whose error softmax
    passes on a quarter at most (tests/model/golden_test.cc).
    """
    single, exact = stored[name], stored[name + ".float64"]
    assert ours.shape == exact.shape, name
    rounding = 1e-6 * np.abs(exact).max()
    if name.startswith("attention."):
        rounding = max(rounding, 1e-6, -2.5e-7 * np.log(exact[exact > 0].min()))
    bound = 4 * np.abs(single - exact).max() + rounding
    assert np.abs(ours - exact).max() <= bound, name


def outputs_of(stored):
    """Names of what the original answered."""
    return [name.removesuffix(".float64") for name in stored if name.endswith(".float64")]


LETTERS = string.ascii_letters + string.digits


def words(ids, letters=False):
    """The text of these ids, for the tokenizers below."""
    return "".join(LETTERS[i] for i in ids) if letters else " ".join(f"w{i}" for i in ids)


def ids_of(text, letters=False):
    """The other way."""
    return [LETTERS.index(letter) for letter in text] if letters else [int(w[1:]) for w in text.split()]


def numbered_tokenizer(folder, vocabulary, letters=False):
    """Files of a tokenizer whose tokens are w0, w1, …, or letters: a text says its ids.

    letters: byte pairs without merges, for families whose tokenizer is of that kind whatever the files say (Qwen2).
    """
    if letters:
        model = {"type": "BPE", "merges": [], "vocab": {LETTERS[i]: i for i in range(vocabulary)}}
        steps = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
        tokenizer = {"model": model, "pre_tokenizer": steps, "decoder": steps}
    else:
        model = {
            "type": "WordPiece",
            "unk_token": "w0",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": {f"w{i}": i for i in range(vocabulary)},
        }
        decoder = {"type": "WordPiece", "prefix": "##", "cleanup": False}
        tokenizer = {"model": model, "pre_tokenizer": {"type": "WhitespaceSplit"}, "decoder": decoder}
    (folder / "tokenizer.json").write_text(json.dumps({"version": "1.0", "added_tokens": [], **tokenizer}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "TokenizersBackend"}))


def with_numbered_tokenizer(name, folder):
    """A golden's files, linked into `folder`, with a tokenizer that numbers its vocabulary."""
    for file in (GOLDEN / name).iterdir():
        if not file.name.startswith("tokenizer"):
            os.symlink(file, folder / file.name)
    file = next(folder / name for name in ("config.json", "open_clip_config.json") if (folder / name).exists())
    config = json.loads(file.read_text())
    for part in (config, config.get("text_config"), config.get("decoder"), config.get("model_cfg", {}).get("text_cfg")):
        if part and "vocab_size" in part:
            numbered_tokenizer(folder, part["vocab_size"], letters="qwen2" in name)
            return folder
    raise AssertionError(f"{name}: no vocabulary in {file}")


def environment(**more):
    """For processes of their own, which find the package as this one does."""
    return dict(os.environ, PYTHONPATH=os.pathsep.join(path for path in sys.path if path), **more)


def run_python(code, *arguments, **options):
    """Runs `code` in a Python of its own."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, **{"env": environment(), **options})
