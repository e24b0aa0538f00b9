"""One Python pipeline that classifies a folder of photos: python bench/folder_peer.py PIPELINE MODEL FOLDER THREADS OUT

Writes to OUT the JSON {"classes": {path below FOLDER: class}, "seconds": {"imports", "preparation", "work"}}.
"Work" goes from the list of files to the last answer; the model is loaded, compiled and warm before.
"""

import json
import sys
import time
from pathlib import Path

START = time.perf_counter()
from common import TOOLS  # noqa: E402

sys.path.insert(0, str(TOOLS))
BATCH = 8


def read_pillow(path, data):
    """The photo prepared as by timm: [3,H,W] float32."""
    import numpy as np
    from PIL import Image

    image = Image.open(path).convert("RGB")
    image = image.resize([data["resize"] * side // min(image.size) for side in image.size], Image.Resampling.BICUBIC)
    left, top = (round((side - data["crop"]) / 2) for side in image.size)
    return normalise(np.asarray(image.crop((left, top, left + data["crop"], top + data["crop"]))), data)


def read_opencv(path, data):
    """Like read_pillow, by OpenCV: faster, but it resizes differently, so pixels differ slightly."""
    import cv2

    image = cv2.cvtColor(cv2.imread(str(path)), cv2.COLOR_BGR2RGB)
    height, width = image.shape[:2]
    size = [data["resize"] * side // min(height, width) for side in (width, height)]
    image = cv2.resize(image, size, interpolation=cv2.INTER_AREA if size[0] < width else cv2.INTER_CUBIC)
    top, left = (round((side - data["crop"]) / 2) for side in image.shape[:2])
    return normalise(image[top : top + data["crop"], left : left + data["crop"]], data)


def normalise(image, data):
    """uint8 [H,W,3] -> float32 [3,H,W]"""
    import numpy as np

    return np.ascontiguousarray((image.astype(np.float32) * data["scale"] + data["shift"]).transpose(2, 0, 1))


def data_config(net):
    import numpy as np
    from timm.data import resolve_data_config

    config = resolve_data_config({}, model=net)
    mean, std = np.asarray(config["mean"], np.float32), np.asarray(config["std"], np.float32)
    crop = config["input_size"][1]
    return {"crop": crop, "resize": int(crop / config["crop_pct"]), "scale": 1 / (255 * std), "shift": -mean / std}


def batches(paths):
    """Full batches only: compiled models have one shape. The last batch is padded with its last photo."""
    for i in range(0, len(paths), BATCH):
        part = paths[i : i + BATCH]
        yield part + part[-1:] * (BATCH - len(part))


class PytorchLoader:
    """DataLoader with one worker per core and timm's transforms; compiled model with frozen weights."""

    def __init__(self, net, folder, threads):
        import torch
        import torch._inductor.config
        from timm.data import create_transform, resolve_data_config

        torch._inductor.config.freezing = True
        torch.set_num_threads(threads)
        self.threads, self.net = threads, torch.compile(net)
        self.transform = create_transform(**resolve_data_config({}, model=net), is_training=False)
        self.warm = torch.randn(BATCH, *net.pretrained_cfg["input_size"])
        self.infer(self.warm)

    def infer(self, pixels):
        import torch

        with torch.no_grad():
            return self.net(pixels).argmax(-1).tolist()

    def __getitem__(self, i):
        from PIL import Image

        return self.transform(Image.open(self.paths[i]).convert("RGB"))

    def __len__(self):
        return len(self.paths)

    def classify(self, paths):
        from torch.utils.data import DataLoader

        self.paths = [path for batch in batches(paths) for path in batch]
        found = []
        for pixels in DataLoader(self, batch_size=BATCH, num_workers=self.threads):
            found += self.infer(pixels)
        return found[: len(paths)]


class OnnxruntimeThreads:
    """Threads decode with Pillow, one ahead of the model; the model runs on all cores."""

    def __init__(self, net, folder, threads):
        import torch
        from serve import onnx_file, onnxruntime_session

        self.data, self.threads = data_config(net), threads
        pixels = torch.randn(BATCH, 3, self.data["crop"], self.data["crop"])
        self.session = onnxruntime_session(onnx_file(folder, pixels), threads)
        self.session.run(None, {"pixels": pixels.numpy()})

    def classify(self, paths):
        from concurrent.futures import ThreadPoolExecutor

        import numpy as np

        with ThreadPoolExecutor(self.threads) as pool:
            found = []
            photos = pool.map(lambda path: read_pillow(path, self.data), [p for batch in batches(paths) for p in batch])
            for _ in range(0, len(paths), BATCH):
                pixels = np.stack([next(photos) for _ in range(BATCH)])
                found += self.session.run(None, {"pixels": pixels})[0].argmax(-1).tolist()
        return found[: len(paths)]


class OpenvinoQueue:
    """Threads decode with Pillow and feed OpenVINO's asynchronous queue, in throughput mode."""

    read = staticmethod(read_pillow)

    def __init__(self, net, folder, threads):
        import openvino
        import torch
        from serve import openvino_model

        self.data, self.threads = data_config(net), threads
        pixels = torch.randn(BATCH, 3, self.data["crop"], self.data["crop"])
        # If pinned, all single-threaded processes would run on the first core.
        config = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "THROUGHPUT", "INFERENCE_NUM_THREADS": threads,
                  "ENABLE_CPU_PINNING": threads > 1}  # fmt: skip
        compiled = openvino.Core().compile_model(openvino_model(folder, pixels), "CPU", config)
        self.queue = openvino.AsyncInferQueue(compiled)
        self.queue.set_callback(self.answer)
        self.found = {}
        self.queue.start_async([pixels.numpy()], -1)
        self.queue.wait_all()

    def answer(self, request, index):
        self.found[index] = request.get_output_tensor().data.argmax(-1).tolist()

    def classify(self, paths):
        from concurrent.futures import ThreadPoolExecutor

        import numpy as np

        with ThreadPoolExecutor(self.threads) as pool:
            photos = pool.map(lambda path: self.read(path, self.data), [p for batch in batches(paths) for p in batch])
            for index in range(0, len(paths), BATCH):
                self.queue.start_async([np.stack([next(photos) for _ in range(BATCH)])], index)
            self.queue.wait_all()
        return [found for index in range(0, len(paths), BATCH) for found in self.found[index]][: len(paths)]


class OpenvinoQueueOpencv(OpenvinoQueue):
    """The same with OpenCV's decoding and resizing."""

    read = staticmethod(read_opencv)

    def __init__(self, *args):
        import cv2

        cv2.setNumThreads(1)  # the pool's threads are enough
        super().__init__(*args)


class OpenvinoProcesses:
    """One process per core, each with its own single-threaded model: no sharing, no waiting."""

    def __init__(self, net, folder, threads):
        import multiprocessing

        # A forkserver's children would not count towards this process's time.
        spawn = multiprocessing.get_context("spawn")
        self.pool = spawn.Pool(threads, initialise_process, (folder, spawn.Barrier(threads)))
        self.pool.map(wait_for_all, range(threads), chunksize=1)

    def classify(self, paths):
        parts = self.pool.imap(classify_in_process, batches(paths))
        return [found for part in parts for found in part][: len(paths)]


def initialise_process(folder, barrier):
    global one_core, all_ready
    one_core, all_ready = OpenvinoQueue(load(folder), folder, 1), barrier


def wait_for_all(_):
    all_ready.wait()


def classify_in_process(paths):
    return one_core.classify(paths)


PIPELINES = {
    "pytorch": PytorchLoader,
    "onnxruntime": OnnxruntimeThreads,
    "openvino": OpenvinoQueue,
    "openvino-opencv": OpenvinoQueueOpencv,
    "openvino-processes": OpenvinoProcesses,
}


def load(folder):
    import torch
    from serve import load_pytorch

    torch.set_num_threads(1)  # PytorchLoader sets its own
    return load_pytorch(folder)


def main():
    name, model, folder, threads, out = (
        sys.argv[1],
        Path(sys.argv[2]),
        Path(sys.argv[3]),
        int(sys.argv[4]),
        Path(sys.argv[5]),
    )
    import torchvision_stub  # noqa: F401  before timm
    import timm.data  # noqa: F401

    if name.startswith("openvino"):
        import openvino  # noqa: F401
    imported = time.perf_counter()
    pipeline = PIPELINES[name](load(model), model, threads)
    prepared = time.perf_counter()
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    found = pipeline.classify(paths)
    done = time.perf_counter()
    out.write_text(json.dumps({
        "classes": {str(path.relative_to(folder)): index for path, index in zip(paths, found)},
        "seconds": {"imports": imported - START, "preparation": prepared - imported, "work": done - prepared},
    }))  # fmt: skip


if __name__ == "__main__":
    main()
