"""Lets a CUDA build of torchvision be imported beside a CPU build of torch.

`import torchvision_stub` must come before torchvision or timm. While it is imported,
torchvision attaches fake kernels and fallbacks to the operators of its C++ extension;
that extension needs CUDA and does not load, so the operators do not exist and the
import dies. Here they are declared, with no kernel behind them: transforms and
models then work, and the detection operators stay uncallable.
"""
import torch

_DETECTION_OPERATORS = ["nms", "qnms"] + [
    prefix + op + suffix
    for op in ("roi_align", "roi_pool", "ps_roi_align", "ps_roi_pool", "deform_conv2d")
    for prefix, suffix in (("", ""), ("_", "_backward"))
]

if not hasattr(torch.ops.torchvision, "nms"):  # else a working torchvision is there already
    _library = torch.library.Library("torchvision", "DEF")  # kept: declarations die with it
    for _name in _DETECTION_OPERATORS:
        _library.define(f"{_name}(Tensor input) -> Tensor")
