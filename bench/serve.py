"""Runs one peer: python bench/serve.py PROGRAM PRECISION FOLDER THREADS

Reads FOLDER/model (timm's layout), FOLDER/pixels.safetensors and, for OpenVINO's int8,
FOLDER/calibration.safetensors. Writes its logits to FOLDER/PROGRAM-PRECISION.safetensors and the
line "ready"; then, for each line read, runs one timed pass and writes the milliseconds.
Exits with a line on stderr if this processor does not support the precision.

Every peer is configured as its documentation recommends for speed: operator fusion on, fixed
shapes, constant weights, the common number of threads.
"""

import os
import sys
import time
from pathlib import Path

from common import TOOLS

sys.path.insert(0, str(TOOLS))


def load_pytorch(folder):
    import torchvision_stub  # noqa: F401  before timm
    import timm

    return timm.create_model(f"local-dir:{folder / 'model'}", pretrained=True).eval()


def pytorch(folder, pixels, precision, compiled=False, frozen=False):
    """bf16 is autocast's: products in bf16, sums and softmax in fp32. int8: the linear layers, by dynamic quantisation."""
    import torch

    model = load_pytorch(folder)
    if precision == "int8":
        model = torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear}, dtype=torch.qint8)
    if precision == "bf16" and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        sys.exit("PyTorch has no bf16 kernels for this processor")
    if compiled:
        import torch._inductor.config

        torch._inductor.config.freezing = frozen
        model = torch.compile(model)

    def forward():
        # no_grad, not inference_mode, as in the documentation of freezing.
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            return model(pixels)

    return forward


def onnx_file(folder, pixels):
    """The fp32 model for ONNX Runtime; exported once per folder."""
    import torch

    path = folder / "model.onnx"
    if not path.exists():
        with torch.no_grad():
            torch.onnx.export(load_pytorch(folder), (pixels,), path, dynamo=False,
                              input_names=["pixels"], output_names=["logits"], opset_version=17)  # fmt: skip
    return path


def onnxruntime_session(path, threads):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def onnx_int8_file(folder, pixels):
    """Its dynamic quantisation of the linear layers, weights by channel. Omitted, since they were not faster: its
    transformer optimizer, unsigned weights, one scale for a whole matrix. Made once per folder."""
    path = folder / "model-int8.onnx"
    if not path.exists():
        from onnxruntime.quantization import QuantType, quantize_dynamic

        quantize_dynamic(onnx_file(folder, pixels), path, weight_type=QuantType.QInt8, per_channel=True,
                         op_types_to_quantize=["MatMul", "Gemm"])  # fmt: skip
    return path


def onnxruntime(folder, pixels, precision, threads):
    path = (onnx_int8_file if precision == "int8" else onnx_file)(folder, pixels)
    session = onnxruntime_session(path, threads)
    feed = {"pixels": pixels.numpy()}
    return lambda: session.run(None, feed)[0]


def openvino_model(folder, pixels):
    import openvino
    import torch

    with torch.no_grad():
        return openvino.convert_model(load_pytorch(folder), example_input=pixels, input=list(pixels.shape))


def openvino(folder, pixels, precision, threads):
    """int8 is NNCF's static quantisation for transformers, calibrated on FOLDER/calibration.safetensors; float parts
    are computed in the precision that OpenVINO selects."""
    import openvino

    core = openvino.Core()
    if precision == "bf16" and "BF16" not in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
        sys.exit("OpenVINO has no bf16 kernels for this processor")
    model = openvino_model(folder, pixels)
    config = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": threads}
    if precision == "int8":
        import nncf
        from safetensors.torch import load_file

        images = load_file(folder / "calibration.safetensors")["pixels"]
        # A pass takes as many images as the model's batch size.
        batches = [images[i : i + len(pixels)].numpy() for i in range(0, len(images) - len(pixels) + 1, len(pixels))]
        model = nncf.quantize(model, nncf.Dataset(batches), model_type=nncf.ModelType.TRANSFORMER,
                              preset=nncf.QuantizationPreset.MIXED, subset_size=len(batches))  # fmt: skip
    else:
        config["INFERENCE_PRECISION_HINT"] = {"fp32": "f32", "bf16": "bf16"}[precision]
    request = core.compile_model(model, "CPU", config).create_infer_request()
    array = pixels.numpy()
    return lambda: request.infer([array])[0]


def make(program, precision, folder, pixels, threads):
    """() -> logits, an array [B,C]"""
    if program == "pytorch-eager":
        return pytorch(folder, pixels, precision)
    if program == "pytorch-compile":
        return pytorch(folder, pixels, precision, compiled=True)
    if program == "pytorch-frozen":
        return pytorch(folder, pixels, precision, compiled=True, frozen=True)
    return {"onnxruntime": onnxruntime, "openvino": openvino}[program](folder, pixels, precision, threads)


def main():
    program, precision, folder, threads = sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])
    # Answers go to the original stdout; output of libraries goes to the log.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    import torch
    from safetensors.torch import load_file, save_file

    torch.set_num_threads(threads)
    pixels = load_file(folder / "pixels.safetensors")["pixels"]
    forward = make(program, precision, folder, pixels, threads)
    logits = torch.as_tensor(forward()).float()
    save_file({"logits": logits.clone()}, folder / f"{program}-{precision}.safetensors")
    print("ready", file=answers, flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        forward()
        print(1e3 * (time.perf_counter() - start), file=answers, flush=True)


if __name__ == "__main__":
    main()
