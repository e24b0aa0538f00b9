"""How far Hugging Face's two image processors are apart: Pillow's, which qkv equals to the byte, and torchvision's.

    python bench/processor_backends.py PHOTOS [MODEL]      MODEL: a Dinov2Model's folder

Needs the environment of tools/reference_env.sh. torchvision resizes tensors by torch's own kernel for bytes, which is what
is called here. Prints how many bytes differ and by how much, and the cosine of the class tokens.
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
import numpy as np
import torch
import torch.nn.functional as F
import torchvision_stub  # noqa: F401  before transformers
from PIL import Image

SIDE, SHORTER = 224, 256
MEAN, STD = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
FILTERS = {"bilinear": Image.BILINEAR, "bicubic": Image.BICUBIC}


def crop(pixels):
    top, left = (pixels.shape[1] - SIDE) // 2, (pixels.shape[2] - SIDE) // 2
    return pixels[:, top : top + SIDE, left : left + SIDE]


def resized(image, name):
    width, height = image.size
    scale = SHORTER / min(width, height)
    size = [SHORTER if edge == min(width, height) else int(edge * scale) for edge in (height, width)]
    by_pillow = torch.from_numpy(np.array(image.resize(size[::-1], FILTERS[name])))
    pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1)[None]
    by_torch = F.interpolate(pixels, size=size, mode=name, antialias=True)[0]
    return crop(by_pillow.permute(2, 0, 1)), crop(by_torch)


def class_tokens(model, images):
    pixels = torch.stack([(x / 255.0 - MEAN[:, None, None]) / STD[:, None, None] for x in images])
    with torch.no_grad():
        return model(pixels).last_hidden_state[:, 0]


def main():
    torch.set_num_threads(1)
    photos = sorted(x for x in Path(sys.argv[1]).rglob("*") if x.suffix.lower() in (".jpeg", ".jpg", ".png"))
    model = None
    if len(sys.argv) > 2:
        from transformers import Dinov2Model

        model = Dinov2Model.from_pretrained(sys.argv[2]).eval()
    for name in FILTERS:
        counts, cosines = np.zeros(256), []
        for path in photos:
            pair = resized(Image.open(path).convert("RGB"), name)
            counts += np.bincount((pair[0].int() - pair[1].int()).abs().flatten(), minlength=256)
            if model is not None:
                cosines.append(F.cosine_similarity(*class_tokens(model, pair).split(1)).item())
        print(f"{name}: {len(photos)} photos, {1 - counts[0] / counts.sum():.2%} of the bytes differ, by at most "
              f"{np.nonzero(counts)[0].max()}", end="")
        print(f"; class tokens: cosine {np.mean(cosines):.8f} on average, {min(cosines):.8f} at least" if cosines else "")


if __name__ == "__main__":
    main()
