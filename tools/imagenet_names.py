"""Writes data/imagenet.tsv: the classes of ImageNet and of its larger sets, from the lists that timm carries.

    python tools/imagenet_names.py [OUTPUT]

A line a class: WordNet's number of the noun, the sets that have it, and its names. Those of ImageNet-1k come first, so
that a reader who wants no others stops after them; then by number.
"""
import sys
from pathlib import Path

import torchvision_stub  # noqa: F401  before timm

import timm

OUTPUT = Path(__file__).resolve().parents[1] / "data/imagenet.tsv"
# The letters that qkv/builtin/imagenet.cc knows. Outputs of models are in the order of the numbers.
SETS = {
    "a": "imagenet_synsets.txt",
    "b": "imagenet21k_miil_w21_synsets.txt",
    "c": "imagenet21k_miil_synsets.txt",
    "d": "imagenet12k_synsets.txt",
    "e": "imagenet22k_synsets.txt",
    "f": "imagenet21k_goog_synsets.txt",
}


def main():
    folder = Path(timm.__file__).parent / "data/_info"
    lines = (folder / "imagenet_synset_to_lemma.txt").read_text().splitlines()
    names = dict(line.split("\t", 1) for line in lines)
    members = {number: "" for number in names}
    for letter, file in SETS.items():
        numbers = (folder / file).read_text().split()
        assert numbers == sorted(numbers), f"{file}: not in the order of the numbers"
        for number in numbers:
            members[number] += letter
    order = sorted(names, key=lambda n: ("a" not in members[n], n))
    output = Path(sys.argv[1]) if len(sys.argv) > 1 else OUTPUT
    lines = [f"{n}\t{members[n]}\t{names[n].replace('_', ' ').strip(chr(34))}\n" for n in order if members[n]]
    output.write_text("".join(lines))


if __name__ == "__main__":
    main()
