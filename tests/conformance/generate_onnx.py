#!/usr/bin/env python3
"""Writes tests/conformance/onnx.safetensors: the backend cases of the PyPI package `onnx` for operators that qkv has.

    PYTHON tests/conformance/generate_onnx.py      (tools/reference_env.sh prints the Python)

Tensors: "CASE/INPUT" and "CASE/OUTPUT" by the operator's own names. Metadata: for each case a JSON object "op", "opset",
"attributes", "outputs"; "expanded" lists the cases that run the same operator as a function of primitive operators,
which have the same tensors and are not stored. present_key and present_value are the past followed by the new keys and
values; the script checks that and does not store them.
"""
import json
import pathlib
import random
import sys

import ml_dtypes
import numpy as np
import onnx
import onnx.backend.test.case.node as node_cases
from onnx import helper

OPERATORS = (
    "Attention", "FlexAttention", "RotaryEmbedding", "LayerNormalization", "RMSNormalization", "Softmax", "Gelu",
)  # fmt: skip
FILE = pathlib.Path(__file__).parent / "onnx.safetensors"
DTYPES = {
    np.dtype(np.float32): "F32", np.dtype(np.float16): "F16", np.dtype(np.float64): "F64", np.dtype(np.int64): "I64",
    np.dtype(np.bool_): "BOOL", np.dtype(ml_dtypes.bfloat16): "BF16",
}  # fmt: skip


def attribute(proto):
    if proto.type != onnx.AttributeProto.GRAPH:
        value = helper.get_attribute_value(proto)
        return value.decode() if isinstance(value, bytes) else value
    # A modification of FlexAttention: its operators, and its constants by name.
    constants = {t.name: onnx.numpy_helper.to_array(t) for t in proto.g.initializer}
    return {
        "operators": [n.op_type for n in proto.g.node],
        "constants": {k: float(v) for k, v in constants.items() if v.ndim == 0 and np.isfinite(v)},
    }


def check_present(tensors):
    """Removes the present keys and values, which are the past ones followed by the new ones."""
    for present, past, new in (("present_key", "past_key", "K"), ("present_value", "past_value", "V")):
        if present not in tensors:
            continue
        old, fresh = tensors[past], tensors[new]
        if fresh.ndim == 3:
            B, H, _, E = old.shape
            fresh = fresh.reshape(B, -1, H, E).transpose(0, 2, 1, 3)
        if not np.array_equal(tensors.pop(present), np.concatenate([old, fresh], axis=2)):
            sys.exit(f"{present} is not the past and the new ones")


def write(tensors, metadata):
    """safetensors' own writer for numpy does not know bfloat16."""
    header, data, offset = {"__metadata__": metadata}, [], 0
    # As the format's library: descending alignment, then names.
    for name, x in sorted(tensors.items(), key=lambda item: (-item[1].dtype.itemsize, item[0])):
        raw = np.ascontiguousarray(x).tobytes()
        header[name] = {"dtype": DTYPES[x.dtype], "shape": list(x.shape), "data_offsets": [offset, offset + len(raw)]}
        data.append(raw)
        offset += len(raw)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    FILE.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(data))


def main():
    # The cases draw from the global generators while they are imported.
    random.seed(0)
    np.random.seed(0)
    node_cases.collect_testcases()
    tensors, metadata, expanded = {}, {"onnx": onnx.__version__}, []
    names = {c.name for c in node_cases._NodeTestCases}
    for case in node_cases._NodeTestCases:
        nodes = case.model.graph.node
        base = case.name.split("_expanded")[0]
        if "_expanded" in case.name and base in names:
            if base in metadata:
                expanded.append(case.name)
            continue
        if len(nodes) != 1 or nodes[0].op_type not in OPERATORS:
            continue
        node, (inputs, outputs) = nodes[0], case.data_sets[0]
        given = dict(zip([n for n in node.input if n], map(np.asarray, inputs), strict=True))
        expected = dict(zip([n for n in node.output if n], map(np.asarray, outputs), strict=True))
        both = given | expected
        check_present(both)
        tensors |= {f"{case.name}/{key}": value for key, value in both.items()}
        metadata[case.name] = json.dumps({
            "op": node.op_type,
            "opset": max(o.version for o in case.model.opset_import if o.domain == ""),
            "attributes": {a.name: attribute(a) for a in node.attribute},
            "outputs": [key for key in expected if key in both],
        })  # fmt: skip
    metadata["expanded"] = json.dumps(expanded)
    write(tensors, metadata)
    print(len(metadata) - 2, "cases,", len(expanded), "expanded,", FILE.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
