"""Pixels of photos however they come, beside what the original's processor makes of the PIL image."""

import io

import numpy as np
import pytest
from live import transformers
from PIL import Image, ImageOps

import qkv

EXIF_ORIENTATION = 0x0112
PROCESSORS = {
    "ViTImageProcessorPil": dict(size={"height": 32, "width": 32}),
    "CLIPImageProcessorPil": dict(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}),
    "SiglipImageProcessorPil": dict(size={"height": 32, "width": 32}),
}


def processor_of(name):
    """The processors that stand on PIL: those on torchvision resize otherwise."""
    if hasattr(transformers, name):
        return getattr(transformers, name)(**PROCESSORS[name])
    family = name.removesuffix("ImageProcessorPil").lower()
    module = __import__(f"transformers.models.{family}.image_processing_pil_{family}", fromlist=[name])
    return getattr(module, name)(**PROCESSORS[name])


@pytest.fixture(params=PROCESSORS)
def both(request, tmp_path):
    config = transformers.ViTConfig(hidden_size=24, num_hidden_layers=1, num_attention_heads=3, intermediate_size=24, image_size=32, patch_size=8)
    transformers.ViTModel(config).save_pretrained(tmp_path)
    processor = processor_of(request.param)
    processor.save_pretrained(tmp_path)
    return qkv.load(tmp_path), lambda image: processor(image, return_tensors="np")["pixel_values"]


def photo(mode):
    rng = np.random.default_rng(5)
    image = Image.fromarray(rng.integers(0, 256, (45, 61, 3), dtype=np.uint8)).resize((70, 50), Image.Resampling.BICUBIC)
    if mode in ("RGBA", "LA"):
        image = image.convert("RGBA")
        image.putalpha(Image.fromarray(rng.integers(0, 256, (50, 70), dtype=np.uint8)))
    return image.convert(mode)


@pytest.mark.parametrize("mode", ["RGB", "L", "P", "CMYK", "RGBA", "LA", "1"])
def test_pixels_are_those_of_the_processor(mode, both):
    model, process = both
    image = photo(mode)
    exact = process(image.convert("RGB"))
    forms = [image, image.convert("RGB"), np.asarray(image.convert("RGB"))]
    data = io.BytesIO()
    if mode != "CMYK":
        image.save(data, "PNG")
        forms.append(data.getvalue())
    for form in forms:
        assert np.abs(model.preprocess(form) - exact).max() <= 2e-6


@pytest.mark.parametrize("orientation", range(1, 9))
def test_turned_photos_are_read_as_by_transformers_pipelines(orientation, both):
    model, process = both
    image, data = photo("RGB"), io.BytesIO()
    exif = image.getexif()
    exif[EXIF_ORIENTATION] = orientation
    image.save(data, "PNG", exif=exif)
    stored = Image.open(io.BytesIO(data.getvalue()))
    loaded = transformers.image_utils.load_image(stored)
    assert np.array_equal(np.asarray(loaded), np.asarray(ImageOps.exif_transpose(stored)))
    exact = process(loaded)
    for form in (data.getvalue(), stored):
        assert np.abs(model.preprocess(form) - exact).max() <= 2e-6
