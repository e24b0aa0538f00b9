"""One Python pipeline from a slide's tiles to a file of vectors: python bench/slides_peer.py PIPELINE JOB.json

JOB.json: {"slide", "coords" ([tiles, 2] x, y at level 0), "tile" (pixels of a side, at level 0), "model" (folder of timm's
layout), "spacing" (microns a pixel), "threads", "batch", "workers", "out"}. Writes OUT.h5 as the pipeline's users do, or
what the pipeline itself writes, then OUT.json: {"seconds": {"imports", "preparation", "work"}}. "Work" goes from the
list of tiles to the closed file; the model is loaded, compiled and warm before.
"""

import json
import sys
import time
from pathlib import Path

START = time.perf_counter()
from common import TOOLS  # noqa: E402

sys.path.insert(0, str(TOOLS))


def load(job):
    """timm's model, whose answer is the vector of a tile."""
    import torchvision_stub  # noqa: F401  before timm
    import timm

    return timm.create_model(f"local-dir:{job['model']}", pretrained=True).eval()


def write_h5(job, vectors):
    import h5py
    import numpy as np

    with h5py.File(job["out"] + ".h5", "w") as file:
        file["features"] = np.asarray(vectors, np.float32)
        file["coords"] = np.asarray(job["coords"], np.int64)


class Tiles:
    """A data set of PyTorch's. Each worker opens the slide for itself, as OpenSlide's users do."""

    def __init__(self, job, transform):
        self.job, self.transform, self.slide = job, transform, None

    def __len__(self):
        return len(self.job["coords"])

    def __getitem__(self, i):
        import openslide

        if self.slide is None:
            self.slide = openslide.OpenSlide(self.job["slide"])
        side = self.job["tile"]
        return self.transform(self.slide.read_region(tuple(self.job["coords"][i]), 0, (side, side)).convert("RGB"))


class Pytorch:
    """timm's transforms behind a DataLoader; eager, as the model's cards have it, or compiled with frozen weights."""

    def __init__(self, job, precision, compiled):
        import torch
        import torch._inductor.config
        from timm.data import create_transform, resolve_data_config

        self.job, self.precision, self.net = job, precision, load(job)
        self.tiles = Tiles(job, create_transform(**resolve_data_config({}, model=self.net), is_training=False))
        torch.set_num_threads(job["threads"])
        if precision == "int8":
            self.net = torch.ao.quantization.quantize_dynamic(self.net, {torch.nn.Linear}, dtype=torch.qint8)
        if compiled:
            torch._inductor.config.freezing = True
            self.net = torch.compile(self.net)
        self.infer(torch.randn(job["batch"], 3, 224, 224))

    def infer(self, pixels):
        """Compiled models have one shape: the last batch is filled up."""
        import torch

        count = len(pixels)
        if count < self.job["batch"]:
            pixels = torch.cat([pixels, pixels[-1:].expand(self.job["batch"] - count, -1, -1, -1)])
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=self.precision == "bf16"):
            return self.net(pixels)[:count].float().numpy()

    def embed(self):
        import numpy as np
        from torch.utils.data import DataLoader

        loader = DataLoader(self.tiles, batch_size=self.job["batch"], num_workers=self.job["workers"])
        write_h5(self.job, np.concatenate([self.infer(pixels) for pixels in loader]))


class Onnxruntime:
    """Threads decode, some tiles ahead of the model, which runs on all cores."""

    threads_of_a_pass = staticmethod(lambda job: job["threads"])

    def __init__(self, job, precision):
        import numpy as np
        import torch
        from serve import onnx_file, onnx_int8_file, onnxruntime_session
        from timm.data import resolve_data_config

        self.job = job
        config = resolve_data_config({}, model=load(job))
        mean, std = np.asarray(config["mean"], np.float32), np.asarray(config["std"], np.float32)
        scale, shift = 1 / (255 * std), -mean / std
        self.tiles = Tiles(job, lambda image: (np.asarray(image) * scale + shift).transpose(2, 0, 1))
        pixels = torch.randn(job["batch"], 3, 224, 224)
        file = onnx_int8_file if precision == "int8" else onnx_file
        self.session = onnxruntime_session(file(Path(job["model"]).parent, pixels), self.threads_of_a_pass(job))
        self.session.run(None, {"pixels": pixels.numpy()})

    def batches(self):
        """Indices of tiles; the last batch is filled up with the last tile."""
        batch, last = self.job["batch"], len(self.tiles) - 1
        return [[min(i, last) for i in range(begin, begin + batch)] for begin in range(0, last + 1, batch)]

    def infer(self, tiles):
        import numpy as np

        return self.session.run(None, {"pixels": np.stack(tiles)})[0]

    def vectors(self, pool):
        tiles = pool.map(self.tiles.__getitem__, [i for batch in self.batches() for i in batch])
        return [self.infer([next(tiles) for _ in batch]) for batch in self.batches()]

    def embed(self):
        from concurrent.futures import ThreadPoolExecutor

        import numpy as np

        with ThreadPoolExecutor(self.job["workers"]) as pool:
            write_h5(self.job, np.concatenate(list(self.vectors(pool)))[: len(self.tiles)])


class OnnxruntimeEach(Onnxruntime):
    """Each thread decodes and computes batches of its own: no pass is shared."""

    threads_of_a_pass = staticmethod(lambda job: 1)

    def vectors(self, pool):
        return pool.map(lambda batch: self.infer([self.tiles[i] for i in batch]), self.batches())


class Slide2vec:
    """slide2vec as it is, its tiling left out: the tiles are given. It writes a PyTorch file."""

    def __init__(self, job):
        import types

        # Only reached by its logging to a service.
        sys.modules.setdefault("wandb", types.ModuleType("wandb"))
        import torch
        import torchvision_stub  # noqa: F401  before torchvision
        from slide2vec import ExecutionOptions, Model, PreprocessingConfig
        from slide2vec.api import _default_tiling
        from slide2vec.encoders.base import TimmTileEncoder
        from slide2vec.encoders.registry import register_encoder

        torch.set_num_threads(job["threads"])
        net = load(job)

        @register_encoder("bench", encode_dim=net.num_features, input_size=224, patch_size=net.patch_embed.patch_size,
                          supports_variable_input_size=False, supported_spacing_um=None,
                          default_spacing_um=job["spacing"], precision="fp32")  # fmt: skip
        class Encoder(TimmTileEncoder):
            def __init__(self, *, output_variant=None):
                super().__init__(f"local-dir:{job['model']}", output_variant=output_variant)

        self.job, self.model = job, Model.from_preset("bench", device="cpu")
        tiling = _default_tiling(requested_spacing_um=job["spacing"], requested_tile_size_px=job["tile"])
        self.preprocessing = PreprocessingConfig(tiling=tiling)
        self.execution = lambda out: ExecutionOptions(output_dir=Path(out), batch_size=job["batch"], precision="fp32",
                                                      num_workers_per_gpu=job["workers"])  # fmt: skip
        self.run(job["coords"][: job["batch"]], job["out"] + "-warm")

    def tiling(self, coords):
        import numpy as np
        import openslide
        from hs2p.tiling.result import TileGeometry, TilingResult

        side, spacing = self.job["tile"], self.job["spacing"]
        x, y = np.asarray(coords, np.int64).T
        with openslide.OpenSlide(self.job["slide"]) as slide:
            size, downsamples = list(slide.dimensions), list(slide.level_downsamples)
        tiles = TileGeometry(x=x, y=y, tissue_fractions=np.ones(len(x), np.float32), requested_tile_size_px=side,
                             requested_spacing_um=spacing, read_level=0, read_tile_size_px=side, read_spacing_um=spacing,
                             tile_size_lv0=side, is_within_tolerance=True, base_spacing_um=spacing, slide_dimensions=size,
                             level_downsamples=downsamples, overlap=0.0, min_tissue_fraction=0.0)  # fmt: skip
        unused = dict.fromkeys(["requested_seg_downsample", "seg_downsample", "seg_level", "seg_spacing_um", "a_t", "a_h",
                                "white_threshold", "black_threshold", "fraction_threshold"], 0)  # fmt: skip
        unused |= dict.fromkeys(["seg_sthresh", "seg_sthresh_up", "seg_mthresh", "seg_close"])
        return TilingResult(tiles=tiles, sample_id="slide", image_path=self.job["slide"], backend="openslide",
                            requested_backend="openslide", tolerance=0.05, step_px_lv0=side, tissue_method="given",
                            ref_tile_size_px=side, filter_white=False, filter_black=False, **unused)  # fmt: skip

    def run(self, coords, out):
        slide = {"sample_id": "slide", "image_path": self.job["slide"], "mask_path": None}
        return self.model.embed_tiles([slide], [self.tiling(coords)], preprocessing=self.preprocessing,
                                      execution=self.execution(out))  # fmt: skip

    def embed(self):
        self.artifact = self.run(self.job["coords"], self.job["out"] + "-slide2vec")[0]

    def finish(self):
        """Outside the time: its vectors in the others' layout."""
        import torch

        write_h5(self.job, torch.load(self.artifact.path))


PIPELINES = {
    "pytorch-fp32": lambda job: Pytorch(job, "fp32", compiled=False),
    "pytorch-bf16": lambda job: Pytorch(job, "bf16", compiled=False),
    "pytorch-int8": lambda job: Pytorch(job, "int8", compiled=False),
    "pytorch-compiled-fp32": lambda job: Pytorch(job, "fp32", compiled=True),
    "pytorch-compiled-bf16": lambda job: Pytorch(job, "bf16", compiled=True),
    "onnxruntime-fp32": lambda job: Onnxruntime(job, "fp32"),
    "onnxruntime-int8": lambda job: Onnxruntime(job, "int8"),
    "onnxruntime-each-fp32": lambda job: OnnxruntimeEach(job, "fp32"),
    "onnxruntime-each-int8": lambda job: OnnxruntimeEach(job, "int8"),
    "slide2vec-fp32": Slide2vec,
}


def main():
    name, job = sys.argv[1], json.loads(Path(sys.argv[2]).read_text())
    import torch  # noqa: F401
    import torchvision_stub  # noqa: F401  before timm
    import timm.data  # noqa: F401

    imported = time.perf_counter()
    pipeline = PIPELINES[name](job)
    prepared = time.perf_counter()
    pipeline.embed()
    done = time.perf_counter()
    if hasattr(pipeline, "finish"):
        pipeline.finish()
    seconds = {"imports": imported - START, "preparation": prepared - imported, "work": done - prepared}
    Path(job["out"] + ".json").write_text(json.dumps({"seconds": seconds}))


if __name__ == "__main__":
    main()
