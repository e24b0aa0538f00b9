"""Random detection data sets, and their scores by pycocotools.

    python3 tests/app/coco_golden.py write
    python3 tests/app/coco_golden.py compare PROGRAM COUNT [FIRST_SEED]

`write` makes tests/app/golden/coco.tar for coco_evaluation_test.cc: NAME.annotations.json, NAME.results.json, NAME.scores.json.
`compare` makes COUNT larger ones and compares every score with the output of `PROGRAM annotations results`, which prints
the JSON of qkv::app::ToJson(CocoEvaluation). Needs numpy and pycocotools.
"""

import contextlib
import io
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "golden"))
from pack import pack, unpacked  # noqa: E402

NAMES = ["ap", "ap50", "ap75", "ap_small", "ap_medium", "ap_large",
         "ar1", "ar10", "ar100", "ar_small", "ar_medium", "ar_large"]


def make(seed, images=6, categories=4, objects=8, detections=15, *, crowds=0.15, levels=0, first_id=1, whole=False,
         found=0.7, noise=0.1):
    """A data set and results. levels: of scores, so that some are equal; 0: all differ. whole: integral boxes."""
    rng = np.random.default_rng(seed)
    number = (lambda x: int(round(x))) if whole else (lambda x: round(float(x), 2))
    # Neither ids nor their order say anything.
    image_ids = [int(x) for x in rng.choice(10 * images, images, replace=False)]
    category_ids = [int(x) for x in 1 + rng.choice(3 * categories, categories, replace=False)]
    annotations, results = [], []
    for image in image_ids:
        if rng.random() < 0.15:
            continue  # an empty image
        boxes = []
        for _ in range(rng.integers(0, objects + 1)):
            # The last category may have no object.
            category = category_ids[rng.integers(0, max(1, categories - 1))]
            width, height = np.exp(rng.uniform(np.log(4), np.log(300), 2))
            left, top = rng.uniform(0, 640 - width), rng.uniform(0, 480 - height)
            bbox = [number(left), number(top), number(width), number(height)]
            fill = 1 if whole else rng.uniform(0.4, 1)
            annotations.append({"id": len(annotations) + first_id, "image_id": image, "category_id": category,
                                "bbox": bbox, "area": number(fill * bbox[2] * bbox[3]),
                                "iscrowd": int(rng.random() < crowds)})
            boxes.append((category, bbox))
        for _ in range(rng.integers(0, detections + 1)):
            if boxes and rng.random() < found:
                category, near = boxes[rng.integers(0, len(boxes))]
                size = np.array([near[2], near[3], near[2], near[3]])
                bbox = np.array(near) + rng.normal(0, noise * rng.random() ** 2, 4) * size
                if rng.random() < 0.05:
                    category = category_ids[rng.integers(0, categories)]
            else:
                category = category_ids[rng.integers(0, categories)]
                bbox = np.array([*rng.uniform(0, 400, 2), *np.exp(rng.uniform(1, 6, 2))])
            bbox[2:] = np.maximum(bbox[2:], 0)
            score = rng.integers(1, levels + 1) / levels if levels else rng.random()
            results.append({"image_id": image, "category_id": category,
                            "bbox": [number(x) if whole else float(x) for x in bbox], "score": float(score)})
    if not whole and annotations and results:
        # What pycocotools leaves out: unknown images and categories.
        annotations.append({**annotations[0], "id": len(annotations) + first_id, "image_id": 10 * images + 1})
        annotations.append({**annotations[0], "id": len(annotations) + first_id, "category_id": 3 * categories + 2})
        results.append({**results[0], "category_id": 3 * categories + 2})
    order = rng.permutation(len(results))
    results = [results[i] for i in order]
    data = {"info": {"description": "random"}, "licenses": [],
            "images": [{"id": i, "file_name": f"{i:012}.jpg", "width": 640, "height": 480} for i in image_ids],
            "annotations": annotations,
            "categories": [{"id": i, "name": f"class {i}", "supercategory": "thing"} for i in category_ids]}
    return data, results


def evaluate(data, results):
    """The scores in the form of qkv::app::ToJson."""
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO()
        truth.dataset = json.loads(json.dumps(data))
        truth.createIndex()
        if results:
            found = truth.loadRes(json.loads(json.dumps(results)))
        else:  # loadRes takes no empty list
            found = COCO()
            found.dataset = {**truth.dataset, "annotations": []}
            found.createIndex()
        evaluation = COCOeval(truth, found, "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()

    def share(x):
        return None if x < 0 else float(x)

    def mean(values):
        values = values[values > -1]
        return None if values.size == 0 else float(np.mean(values))

    scores = {name: share(x) for name, x in zip(NAMES, evaluation.stats, strict=True)}
    names = {category["id"]: category["name"] for category in data["categories"]}
    precision, recall = evaluation.eval["precision"], evaluation.eval["recall"]
    scores["categories"] = [
        {"id": int(k), "name": names[k], "ap": mean(precision[:, :, i, 0, 2]), "ap50": mean(precision[0, :, i, 0, 2]),
         "ar100": mean(recall[:, i, 0, 2])} for i, k in enumerate(evaluation.params.catIds)]
    return scores


def write():
    folder = unpacked("tests/app/golden/coco")
    cases = {
        "mixed": make(1),
        "ties": make(2, levels=3, whole=True),
        "many": make(3, images=2, categories=2, objects=30, detections=260, levels=40, whole=True),
        "id_zero": make(4, images=3, categories=2, first_id=0),
        "all_crowds": make(5, images=3, crowds=1.0),
        "no_objects": make(6, images=2, objects=0),
        "no_results": make(7, images=3, detections=0),
    }
    for name, (data, results) in cases.items():
        for part, content in (("annotations", data), ("results", results), ("scores", evaluate(data, results))):
            text = json.dumps(content, separators=(",", ":")).replace("},{", "},\n{")
            (folder / f"{name}.{part}.json").write_text(text + "\n")
    pack()


def compare(program, count, first):
    different = scores = 0
    for seed in range(first, first + count):
        rng = np.random.default_rng(seed)
        options = {"images": int(rng.integers(1, 60)), "categories": int(rng.integers(1, 30)),
                   "objects": int(rng.integers(0, 40)), "detections": int(rng.integers(0, 300)),
                   "crowds": float(rng.choice([0, 0.05, 0.3])), "levels": int(rng.choice([0, 0, 1, 5, 100])),
                   "first_id": int(rng.integers(0, 2)), "whole": bool(rng.random() < 0.4),
                   "found": float(rng.uniform(0.1, 1)), "noise": float(rng.choice([0, 0.05, 0.1, 0.3]))}
        data, results = make(seed, **options)
        with tempfile.TemporaryDirectory() as folder:
            files = [pathlib.Path(folder) / "annotations.json", pathlib.Path(folder) / "results.json"]
            for file, content in zip(files, (data, results), strict=True):
                file.write_text(json.dumps(content))
            ours = json.loads(subprocess.run([program, *files], check=True, capture_output=True).stdout)
        theirs = evaluate(data, results)
        pairs = [(name, ours[name], theirs[name]) for name in NAMES]
        for a, b in zip(ours["categories"], theirs["categories"], strict=True):
            pairs += [(f"{b['name']} {key}", a[key], b[key]) for key in b]
        wrong = [pair for pair in pairs if pair[1] != pair[2]]
        scores += len(pairs)
        different += len(wrong)
        for name, a, b in wrong[:5]:
            print(f"seed {seed} {options}: {name}: {a} instead of {b}")
    print(f"{count} data sets, {scores} values, {different} differ")
    return different == 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["write"]:
        write()
    elif sys.argv[1:2] == ["compare"]:
        sys.exit(not compare(sys.argv[2], int(sys.argv[3]), int((sys.argv[4:] or [1000])[0])))
    else:
        sys.exit(__doc__)
