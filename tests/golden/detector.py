"""Writes detector.tar: a small YOLOS, photos of several sizes, what transformers' own processor and
post-processing find in them, and COCO annotations with their scores by pycocotools.

    python tests/golden/detector.py

Needs the environment of tools/reference_env.sh, and pycocotools. The annotations are the model's own answers, moved a
little, without some and with others.
"""
import contextlib
import io
import json
import random

from originals import Case, build  # first: it stands in for torchvision
from pack import pack, unpacked
from photos import PHOTOS, make_photo, save_beside_photos
import torch
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval
from transformers.models.yolos.image_processing_pil_yolos import YolosImageProcessorPil, get_size_with_aspect_ratio_yolos

FOLDER = unpacked("tests/golden") / "detector"
LABELS = {0: "N/A", 1: "person", 2: "cat", 3: "remote control"}
CATEGORIES = [{"id": 70, "name": "Remote Control "}, {"id": 3, "name": "person"}, {"id": 17, "name": "cat"},
              {"id": 5, "name": "zebra"}]  # fmt: skip
CATEGORY_OF = {1: 3, 2: 17, 3: 70}
THRESHOLD = 0.5
NAMES = ["ap", "ap50", "ap75", "ap_small", "ap_medium", "ap_large",
         "ar1", "ar10", "ar100", "ar_small", "ar_medium", "ar_large"]  # fmt: skip


def to_bbox(box):
    left, top, right, bottom = box
    return [left, top, right - left, bottom - top]


def annotate(found):
    rng, annotations = random.Random(5), []
    for image, objects in found.items():
        for score, label, box in objects:
            if label == 0 or score < 0.3 or rng.random() < 0.2:
                continue
            left, top, width, height = to_bbox(box)
            move = lambda x, by: round(x + rng.uniform(-0.08, 0.08) * by, 2)
            bbox = [move(left, width), move(top, height), move(width, width), move(height, height)]
            annotations.append({"id": len(annotations) + 1, "image_id": image, "category_id": CATEGORY_OF[label],
                                "bbox": bbox, "area": round(bbox[2] * bbox[3] * 0.8, 2),
                                "iscrowd": int(rng.random() < 0.1)})  # fmt: skip
    images = [{"id": i, "file_name": f"{i}.png", "width": w, "height": h} for i, (w, h) in PHOTOS.items()]
    return {"images": images, "categories": CATEGORIES, "annotations": annotations}


def coco_scores(found):
    results = [{"image_id": image, "category_id": CATEGORY_OF[label], "bbox": to_bbox(box), "score": score}
               for image, objects in found.items() for score, label, box in objects if label in CATEGORY_OF]  # fmt: skip
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO(str(FOLDER / "photos" / "annotations.json"))
        evaluation = COCOeval(truth, truth.loadRes(results), "bbox")
        evaluation.evaluate(), evaluation.accumulate(), evaluation.summarize()
    return dict(zip(NAMES, evaluation.stats.tolist()))


def sizes():
    """[height, width, shortest edge, longest edge, and height and width after]."""
    rng, rows = random.Random(1), []
    for _ in range(300):
        height, width = rng.randrange(20, 3000), rng.randrange(20, 3000)
        edge, longest = rng.choice([(800, 1333), (512, 1333), (512, 864), (64, 107), (333, 333)])
        if rng.random() < 0.1:
            height = width = edge
        rows.append([height, width, edge, longest, *get_size_with_aspect_ratio_yolos((height, width), edge, longest)])
    return rows


def main():
    torch.set_num_threads(1)
    args = dict(hidden_size=24, num_hidden_layers=3, num_attention_heads=3, image_size=(48, 64), patch_size=8,
                intermediate_size=50, num_detection_tokens=12, id2label=LABELS, label2id={v: k for k, v in LABELS.items()})
    case = Case("detector", "transformers", "YolosForObjectDetection", args)
    model = build(case)
    with torch.no_grad():
        model.class_labels_classifier.layers[2].weight.mul_(3)  # scores on both sides of the threshold
        model.vit.embeddings.detection_tokens.mul_(3)  # boxes that differ
    save_beside_photos(model, FOLDER)
    processor = YolosImageProcessorPil(size={"shortest_edge": 64, "longest_edge": 107})
    (FOLDER / "preprocessor_config.json").write_text(json.dumps(
        {"image_processor_type": "YolosImageProcessor", "do_pad": True, "size": {"shortest_edge": 64, "longest_edge": 107}}) + "\n")
    found, expected = {}, []
    for name, size in PHOTOS.items():
        photo = make_photo(FOLDER, name)
        pixels = processor(photo, return_tensors="pt").pixel_values
        with torch.no_grad():
            out = model(pixels)
        target = [(photo.height, photo.width)]
        kept, everything = (processor.post_process_object_detection(out, threshold=t, target_sizes=target)[0]
                            for t in (THRESHOLD, 0))  # fmt: skip
        as_list = lambda result: list(zip(result["scores"].tolist(), result["labels"].tolist(), result["boxes"].tolist()))
        found[name] = as_list(everything)
        expected.append({"photo": f"{name}.png", "height": photo.height, "width": photo.width,
                         "pixels": list(pixels.shape[2:]), "objects": as_list(kept)})  # fmt: skip
        print(name, size, list(pixels.shape), len(as_list(kept)), "of", len(found[name]))
    (FOLDER / "photos" / "annotations.json").write_text(json.dumps(annotate(found)) + "\n")
    scores = coco_scores(found)
    print(scores)
    result = {"threshold": THRESHOLD, "photos": expected, "scores": scores, "sizes": sizes()}
    (FOLDER / "expected.json").write_text(json.dumps(result) + "\n")
    pack()


if __name__ == "__main__":
    main()
