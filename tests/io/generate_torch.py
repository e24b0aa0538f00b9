#!/usr/bin/env python3
"""Writes tests/io/golden/torch.tar: small files by torch.save, and what torch.load reads from them.

    PYTHON tests/io/generate_torch.py

PYTHON is that of tools/reference_env.sh. expected.safetensors has the tensors of all files; their names are
FILE|NAME. Files in refused/ are not weights; nothing in them is executed here, and qkv names what they are.
"""
import argparse
import collections
import io
import pathlib
import pickle
import shutil
import sys
import types
import zipfile

import numpy
import safetensors.torch
import torch

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "golden"))
from pack import pack, unpacked  # noqa: E402

FOLDER = unpacked("tests/io/golden/torch")


def values(*shape, dtype=torch.float32, start=0):
    count = int(numpy.prod(shape)) if shape else 1
    return (torch.arange(start, start + count) % 100).to(dtype).reshape(shape)


def every_kind(old):
    """One tensor of each type and layout."""
    base = values(6, 5, start=7)
    tensors = collections.OrderedDict()
    for dtype in ["float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8"]:
        tensors[dtype] = values(2, 3, dtype=getattr(torch, dtype), start=1)
    if not old:
        for dtype in ["uint16", "uint32", "uint64"]:
            tensors[dtype] = values(2, 3, dtype=getattr(torch, dtype), start=2)
    tensors["bool"] = torch.tensor([True, False, True])
    tensors["base"] = base
    tensors["tied"] = base
    tensors["row"] = base[2]
    tensors["column"] = base[:, 3]
    tensors["transposed"] = base.T
    tensors["block"] = base[1:4, 2:4]
    tensors["every.second"] = base[::2, ::2]
    tensors["permuted"] = values(2, 3, 4).permute(2, 0, 1)
    tensors["expanded"] = values(1, 3).expand(4, 3)
    tensors["unit.axis"] = base[:, 2:3][1:2]
    tensors["scalar"] = torch.tensor(2.5)
    tensors["empty"] = torch.empty(0, 4)
    tensors["parameter"] = torch.nn.Parameter(values(3, start=4))
    tensors["frozen"] = torch.nn.Parameter(values(3, start=5), requires_grad=False)
    with_attribute = torch.nn.Parameter(values(2, start=6))
    with_attribute.note = "kept by _rebuild_parameter_with_state"
    tensors["with.attribute"] = with_attribute
    # What state_dict() of a module puts beside its entries.
    tensors._metadata = collections.OrderedDict({"": {"version": 1}})
    return tensors


def few(start=0):
    return {"weight": values(3, 4, start=start), "bias": values(3, start=start + 1), "scale": values(1, start=start + 2)}


def network():
    """A module of a class that no reader can import."""
    source = types.ModuleType("someones_model")
    sys.modules["someones_model"] = source
    code = """
import torch
class Block(torch.nn.Module):
    def __init__(self, start):
        super().__init__()
        self.linear = torch.nn.Linear(2, 3, bias=start > 0)
        self.act = torch.nn.GELU()
        self.size = (4, 4)
class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.token = torch.nn.Parameter(torch.arange(3.0).reshape(1, 3))
        self.register_buffer("kept", torch.tensor([3, 1]))
        self.register_buffer("not_kept", torch.tensor([9.0]), persistent=False)
        self.register_buffer("none", None)
        self.blocks = torch.nn.ModuleList([Block(0), Block(1)])
        self.norm = torch.nn.LayerNorm(3)
        self.twin = self.norm
        self.anything = {"nested": [1, 2, {"x": torch.Size([3])}]}
"""
    exec(code, source.__dict__)  # so that the classes belong to that module
    for name in ("Block", "Network"):
        getattr(source, name).__module__ = "someones_model"
    torch.manual_seed(1)
    return source.Network()


def training_checkpoint():
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 4)).sum().backward()
    optimizer.step()
    return {
        "epoch": 3,
        "arch": "vit_tiny",
        "state_dict": few(10),
        "state_dict_ema": few(20),
        "optimizer": optimizer.state_dict(),
        "args": argparse.Namespace(lr=1e-3, out=pathlib.PurePosixPath("/tmp/x"), betas=(0.9, 0.999)),
        "best": numpy.float64(0.5),
        "scaler": {"scale": 65536.0, "growth": 2 ** 70},
        "rng": torch.arange(5, dtype=torch.uint8),
    }


def lightning():
    return {
        "state_dict": collections.OrderedDict(("model." + k, v) for k, v in few(30).items()),
        "optimizer_states": [{"state": {0: {"exp_avg": values(3), "step": torch.tensor(4.0)}}, "param_groups": []}],
        "lr_schedulers": [{"last_epoch": 1}],
        "callbacks": {"Checkpoint{'monitor': None}": {"best": torch.tensor(0.25)}},
        "hyper_parameters": {"width": 4, "none": None, "set": {1, 2}, "bytes": b"abc", "list": bytearray(b"xyz")},
    }


def rezip(path, to, compression=zipfile.ZIP_STORED, change=lambda name, data: data, prefix=None):
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(to, "w", compression) as new:
        for entry in old.infolist():
            name = entry.filename if prefix is None else prefix + entry.filename.split("/", 1)[1]
            new.writestr(name, change(entry.filename, old.read(entry)))


def big_endian(name, data):
    if name.endswith("/byteorder"):
        return b"big"
    return numpy.frombuffer(data, "<f4").astype(">f4").tobytes() if "/data/" in name else data


class Call:
    """Pickles as a call of a function."""

    def __init__(self, function, *args):
        self.call = function, args

    def __reduce__(self):
        return self.call


def write_refused(folder):
    import os

    folder.mkdir()
    torch.save({"a": values(3), "b": Call(os.system, "true")}, folder / "system.pth")
    torch.save({"a": values(3), "b": Call(os.system, "true")}, folder / "system_old.pth",
               _use_new_zipfile_serialization=False)
    torch.save({"a": values(3), "b": Call(eval, "1 + 1")}, folder / "eval.pth")
    torch.save({"a": Call(torch.mean, values(3)), "b": values(3)}, folder / "function.pth")
    torch.save(Call(torch.mean, values(3)), folder / "function_alone.pth")
    torch.save({"a": torch.tensor([1 + 2j])}, folder / "complex.pth")
    torch.save({"a": values(3).to(torch.float8_e4m3fn)}, folder / "float8.pth")
    torch.save({"a": torch.quantize_per_tensor(values(3), 0.1, 0, torch.qint8)}, folder / "quantised.pth")
    torch.save({"a": values(3).to_sparse()}, folder / "sparse.pth")
    torch.save({"a": numpy.ones(3)}, folder / "numpy.pth")
    torch.save({"a": torch.empty(3, device="meta")}, folder / "meta.pth")
    torch.save({"a": torch.zeros(1, 1, 1, 1, 1, 1, 2)}, folder / "seven_axes.pth")
    torch.save({"epoch": 3}, folder / "no_tensors.pth")
    torch.save(values(3), folder / "one_tensor.pth")
    torch.save({"a": torch.zeros(1).expand(1000, 1000)}, folder / "expanded.pth")
    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), folder / "script.pt")
    (folder / "plain.pkl").write_bytes(pickle.dumps({"a": [1.0, 2.0]}, protocol=2))
    numpy.savez(folder / "arrays.npz", a=numpy.ones(3))


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    expected = {}

    def add(name, tensors):
        for key, tensor in tensors.items():
            expected[f"{name}|{key}"] = tensor.detach().clone().contiguous()

    def read(name):
        return torch.load(FOLDER / name, weights_only=True)

    def save(name, value, chosen=lambda value: value, trusted=False, **options):
        torch.save(value, FOLDER / name, **options)
        loaded = torch.load(FOLDER / name, weights_only=not trusted)
        add(name, chosen(loaded))

    save("new.pth", every_kind(old=False))
    torch.serialization.set_crc32_options(False)
    save("no_checksums.pth", few(95))
    torch.serialization.set_crc32_options(True)
    save("old.pth", every_kind(old=True), _use_new_zipfile_serialization=False)
    for protocol in (1, 2, 3, 4, 5):
        save(f"protocol_{protocol}.pth", few(protocol), trusted=protocol != 2, pickle_protocol=protocol)
        save(f"protocol_{protocol}_old.pth", few(protocol), trusted=protocol != 2, pickle_protocol=protocol,
             _use_new_zipfile_serialization=False)
    module = network()
    state = lambda loaded: loaded.state_dict()  # noqa: E731
    save("module.pth", module, state, trusted=True)
    save("module_old.pth", module, state, trusted=True, _use_new_zipfile_serialization=False)
    save("wrapped_module.pth", {"epoch": 1, "model": torch.nn.DataParallel(module)},
         lambda loaded: loaded["model"].state_dict(), trusted=True)
    save("training.pth", training_checkpoint(), lambda loaded: loaded["state_dict_ema"], trusted=True)
    save("training_old.pth", training_checkpoint(), lambda loaded: loaded["state_dict_ema"], trusted=True,
         _use_new_zipfile_serialization=False)
    save("lightning.ckpt", lightning(), lambda loaded: loaded["state_dict"], trusted=True)
    save("dino.pth", {"student": few(40), "teacher": few(50), "epoch": 1}, lambda loaded: loaded["teacher"])
    save("nested.pt", {"ema": {"module": few(60), "decay": 0.99}, "model": few(70)},
         lambda loaded: loaded["ema"]["module"])
    save("list.pt", [few(80), {"step": 3}], lambda loaded: loaded[0])

    rezip(FOLDER / "protocol_2.pth", FOLDER / "deflated.pth", zipfile.ZIP_DEFLATED)
    add("deflated.pth", read("protocol_2.pth"))
    rezip(FOLDER / "protocol_2.pth", FOLDER / "other_folder.pth", prefix="some/where/else/")
    add("other_folder.pth", read("protocol_2.pth"))
    rezip(FOLDER / "protocol_2.pth", FOLDER / "big_endian.pth", change=big_endian)
    add("big_endian.pth", read("big_endian.pth"))

    shards = FOLDER / "shards"
    shards.mkdir()
    index = {"metadata": {"total_size": 64}, "weight_map": {}}
    for i, keys in enumerate((["weight"], ["bias", "scale"])):
        name = f"pytorch_model-{i + 1:05}-of-00002.bin"
        torch.save({key: few(90)[key] for key in keys}, shards / name)
        index["weight_map"].update({key: name for key in keys})
    import json

    (shards / "pytorch_model.bin.index.json").write_text(json.dumps(index, indent=2) + "\n")
    add("shards", few(90))

    safetensors.torch.save_file(expected, FOLDER / "expected.safetensors")
    write_refused(FOLDER / "refused")
    pack()


main()
