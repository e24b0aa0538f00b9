"""Writes segmenter.tar: small EoMT models, photos of several sizes, and the
segments that transformers' own processor and post-processing find in them, with masks as pycocotools encodes them.

    python tests/golden/segmenter.py

Needs the environment of tools/reference_env.sh, and pycocotools. Also writes masks of all kinds with their encoding
(segmenter/rle.json), and sizes and squares of photos (expected.json).
"""
import json
import random

from originals import Case, build  # first: it stands in for torchvision
from pack import pack, unpacked
from photos import PHOTOS, make_photo, save_beside_photos
import numpy as np
import torch
from pycocotools import mask as coco_mask
from transformers.image_transforms import get_size_with_aspect_ratio
from transformers.models.eomt.image_processing_pil_eomt import EomtImageProcessorPil

FOLDER = unpacked("tests/golden")
LABELS = {0: "person", 1: "cat", 2: "sky", 3: "grass"}
# Thresholds of score, mask and overlap, and classes whose segments are one.
PANOPTIC = [(0.8, 0.5, 0.8, []), (0.5, 0.5, 0.4, []), (0.3, 0.4, 0.2, [2, 3]), (0.3, 0.0, 0.0, [0, 1, 2, 3])]
INSTANCE = [0.8, 0.5, 0.3, 0.0]
DOUBT = 1e-4  # of probabilities and logits, within which rounding decides: some ten times the error of float


def encode(mask):
    """Area, box and counts of a mask, by pycocotools."""
    rle = coco_mask.encode(np.asfortranarray(np.asarray(mask, dtype=np.uint8)))
    return {"area": int(coco_mask.area(rle)), "bbox": [int(x) for x in coco_mask.toBbox(rle)],
            "counts": rle["counts"].decode()}  # fmt: skip


def panoptic_doubts(processor, out, size, setting):
    """Pixels that rounding decides: two masks are about equally good, or one is about at its threshold."""
    threshold, mask_threshold, _, _ = setting
    scores, labels = out.class_queries_logits[0].softmax(-1).max(-1)
    kept = (labels != len(LABELS)) & (scores > threshold)
    if not kept.any():
        return 0
    probabilities = at_photo(processor, out, size)[kept].sigmoid()
    values, best = (scores[kept, None, None] * probabilities).sort(0, descending=True)
    doubtful = (probabilities.gather(0, best[:1])[0] - mask_threshold).abs() < DOUBT
    if len(values) > 1:
        doubtful |= values[0] - values[1] < DOUBT
    return int(doubtful.sum())


def of_map(result):
    """Segments of a map, with their masks in it. Ids from 1."""
    ids = result["segmentation"]
    return [{"id": s["id"] + 1, "index": s["label_id"], "score": s["score"], **encode(ids == s["id"])}
            for s in result["segments_info"]]  # fmt: skip


def panoptic(processor, out, size, setting):
    threshold, mask_threshold, overlap, stuff = setting
    result = processor.post_process_panoptic_segmentation(
        out, target_sizes=[size], threshold=threshold, mask_threshold=mask_threshold,
        overlap_mask_area_threshold=overlap, stuff_classes=stuff)[0]  # fmt: skip
    return {"threshold": threshold, "mask_threshold": mask_threshold, "overlap": overlap, "stuff": stuff,
            "doubts": panoptic_doubts(processor, out, size, setting), "segments": of_map(result)}  # fmt: skip


def instances(processor, out, size, threshold):
    """With the masks themselves, of which the map shows what later ones leave."""
    result = processor.post_process_instance_segmentation(out, target_sizes=[size], threshold=threshold)[0]
    logits = at_photo(processor, out, size)
    masks = logits > 0
    scores = out.class_queries_logits[0].softmax(-1)[:, :-1].max(-1)
    segments, shown = [], of_map(result)
    left = list(shown)
    for q in range(len(masks)):  # the queries that the processor kept, in its order
        if left and scores.indices[q] == left[0]["index"] and masks[q].any():
            mask_score = (logits[q].sigmoid() * masks[q]).sum() / (masks[q].sum() + 1e-6)
            if abs(float(scores.values[q] * mask_score) - left[0]["score"]) < 2e-6:
                first = left.pop(0)
                segments.append({k: first[k] for k in ("id", "index", "score")} | encode(masks[q])
                                | {"token": q, "shown": first["counts"],
                                   "doubts": int((logits[q].abs() < DOUBT).sum())})  # fmt: skip
    assert not left
    return {"threshold": threshold, "segments": segments}


def at_photo(processor, out, size):
    """Logits of the masks at the size of the photo."""
    side = (processor.size["shortest_edge"],) * 2
    logits = torch.nn.functional.interpolate(out.masks_queries_logits, size=side, mode="bilinear")
    return processor.unpad_image(logits, [size], processor.size)[0]


def make_model(name, folder, scale, **args):
    labels = dict(id2label=LABELS, label2id={v: k for k, v in LABELS.items()})
    args = dict(hidden_size=24, num_hidden_layers=3, num_attention_heads=3, patch_size=8, num_blocks=2, **labels, **args)
    model = build(Case(name, "transformers", "EomtForUniversalSegmentation", args))
    with torch.no_grad():
        model.class_predictor.weight.mul_(scale)  # scores on both sides of the thresholds
        model.query.weight.mul_(6)  # masks that differ
        model.mask_head.fc3.bias.mul_(2)
    save_beside_photos(model, folder)
    return model


def write_processor(folder, processor):
    size = {"shortest_edge": processor.size["shortest_edge"], "longest_edge": processor.size["longest_edge"]}
    (folder / "preprocessor_config.json").write_text(json.dumps(
        {"image_processor_type": "EomtImageProcessorFast", "do_pad": processor.do_pad,
         "do_split_image": processor.do_split_image, "size": size}) + "\n")  # fmt: skip


def write_padded():
    folder = FOLDER / "segmenter"
    model = make_model("segmenter", folder, 9, image_size=64, num_queries=12)
    processor = EomtImageProcessorPil(size={"shortest_edge": 64, "longest_edge": 64}, do_pad=True)
    write_processor(folder, processor)
    photos = []
    for name, (width, height) in PHOTOS.items():
        inputs = processor(make_photo(folder, name), return_tensors="pt")
        with torch.no_grad():
            out = model(inputs.pixel_values)
        size = (height, width)
        photos.append({"photo": f"{name}.png", "height": height, "width": width,
                       "pixels": list(inputs.pixel_values.shape[2:]),
                       "panoptic": [panoptic(processor, out, size, setting) for setting in PANOPTIC],
                       "instance": [instances(processor, out, size, threshold) for threshold in INSTANCE]})  # fmt: skip
        print(name, size, [len(r["segments"]) for r in photos[-1]["panoptic"] + photos[-1]["instance"]])
    (folder / "expected.json").write_text(json.dumps({"photos": photos, "sizes": sizes(), "squares": squares()}) + "\n")
    (folder / "rle.json").write_text(json.dumps(masks()) + "\n")


def write_semantic():
    folder = FOLDER / "segmenter_semantic"
    model = make_model("segmenter_semantic", folder, 8, image_size=32, num_queries=10, num_upscale_blocks=1)
    processor = EomtImageProcessorPil(size={"shortest_edge": 32, "longest_edge": None}, do_split_image=True)
    write_processor(folder, processor)
    photos = []
    for name, (width, height) in PHOTOS.items():
        inputs = processor(make_photo(folder, name), return_tensors="pt")
        with torch.no_grad():
            out = model(torch.as_tensor(np.stack([np.asarray(p) for p in inputs.pixel_values])),
                        patch_offsets=inputs.patch_offsets)
        result = processor.post_process_semantic_segmentation(
            out, target_sizes=[(height, width)], size={"shortest_edge": 32, "longest_edge": None},
            return_segmentation_scores=True)[0]  # fmt: skip
        ids, scores = result["segmentation"], result["segmentation_scores"].sort(0, descending=True).values
        starts = [int(offset[1]) for offset in inputs.patch_offsets]
        photos.append({"photo": f"{name}.png", "height": height, "width": width, "starts": starts,
                       "doubts": int((scores[0] - scores[1] < DOUBT).sum()),
                       "segments": [{"index": int(c), **encode(ids == c)} for c in ids.unique()]})  # fmt: skip
        print(name, (height, width), starts, [s["area"] for s in photos[-1]["segments"]])
    (folder / "expected.json").write_text(json.dumps({"photos": photos}) + "\n")


def sizes():
    """[height, width, edge, and height and width after]."""
    rng, rows = random.Random(1), []
    for _ in range(200):
        height, width, edge = rng.randrange(20, 3000), rng.randrange(20, 3000), rng.choice([640, 1280, 64, 333])
        if rng.random() < 0.1:
            height = width = edge
        rows.append([height, width, edge, *get_size_with_aspect_ratio((height, width), edge, edge)])
    return rows


def squares():
    """[height, width, edge, starts]."""
    rng, rows = random.Random(2), []
    for _ in range(200):
        height, width, edge = rng.randrange(20, 3000), rng.randrange(20, 3000), rng.choice([512, 1024, 64, 33])
        processor = EomtImageProcessorPil(size={"shortest_edge": edge, "longest_edge": None})
        shorter, longer = min(height, width), int(edge * max(height, width) / min(height, width))
        image = np.zeros((1, longer, edge) if height > width else (1, edge, longer), dtype=np.uint8)
        _, offsets = processor._split_image(image, processor.size, 0)
        rows.append([height, width, edge, [start for _, start, _ in offsets]])
    return rows


def masks():
    """[rows of "0" and "1", area, box and counts]."""
    rng, rows = np.random.default_rng(3), []
    for height, width, density in [(1, 1, 0), (1, 1, 1), (1, 7, 0.5), (7, 1, 0.5), (3, 5, 0), (3, 5, 1), (40, 30, 0.02),
                                   (40, 30, 0.5), (5, 200, 0.9), (300, 4, 0.01)]:  # fmt: skip
        mask = (rng.random((height, width)) < density).astype(np.uint8)
        rows.append({"rows": ["".join(map(str, row)) for row in mask], **encode(mask)})
    for top, left, bottom, right in [(0, 0, 5, 5), (5, 5, 20, 20), (0, 3, 20, 9), (4, 0, 9, 20), (19, 19, 20, 20)]:
        mask = np.zeros((20, 20), dtype=np.uint8)
        mask[top:bottom, left:right] = 1
        rows.append({"rows": ["".join(map(str, row)) for row in mask], **encode(mask)})
    return rows


if __name__ == "__main__":
    torch.set_num_threads(1)
    write_padded()
    write_semantic()
    pack()
