#!/usr/bin/env python3
"""Pairs of texts from Debian's package lists, for the two models of this folder.

    mkdir -p lists/partial
    apt-get -o Acquire::Languages=en,it -o Dir::State::Lists=$PWD/lists update
    models/debian_texts.py lists pairs

writes pairs/english-italian.{train,valid,test}.tsv and pairs/synopsis.{train,valid,test}.tsv, a source, a tab and a
target a line, and prints their numbers. What the parts hold is decided by the name of the source package, as packages
of one source are described by the same sentences; a source text of valid or test is in no other part.
"""

import argparse
import hashlib
import pathlib
import re
import subprocess

PARTS = ("train", "valid", "test")
# Of a hundred source packages.
VALID, TEST = 2, 2


def control_paragraphs(lists, name):
    """The paragraphs of the control data whose file names end so, each a dictionary; comments have none here."""
    for path in sorted(lists.glob(f"*{name}*")):
        run = subprocess.run(["/usr/lib/apt/apt-helper", "cat-file", path], check=True, capture_output=True)
        for paragraph in run.stdout.decode().split("\n\n"):
            fields, key = {}, ""
            for line in paragraph.splitlines():
                if line.startswith(" "):
                    fields[key] += "\n" + line[1:]
                else:
                    key, _, value = line.partition(":")
                    fields[key] = value.strip()
            if fields:
                yield fields


def part_of(source_package):
    bucket = int(hashlib.sha256(source_package.encode()).hexdigest(), 16) % 100
    return "valid" if bucket < VALID else "test" if bucket < VALID + TEST else "train"


def paragraphs(lines):
    """A long description's paragraphs, each a line. A line that starts with a space, or with a bullet, stays its own."""
    result, open_paragraph = [], False
    for line in lines:
        text = " ".join(line.split())
        if text in ("", "."):
            open_paragraph = False
        elif open_paragraph and not line.startswith(" ") and not re.match(r"[*+-] ", text):
            result[-1] += " " + text
        elif open_paragraph and line.startswith("  ") and re.match(r"[*+-] ", result[-1]):
            result[-1] += " " + text  # goes on with an item
        else:
            result.append(text)
            open_paragraph = True
    return result


def sentences(text):
    return re.split(r"(?<=[.!?]) (?=[A-ZÀ-Ý])", text)


def translations(english, other):
    """Pairs of a description in two languages: the synopses, and sentences or else paragraphs where the counts agree."""
    yield english[0], other[0]
    left, right = paragraphs(english[1:]), paragraphs(other[1:])
    if len(left) != len(right):
        return
    for a, b in zip(left, right):
        parts = sentences(a), sentences(b)
        yield from zip(*parts) if len(parts[0]) == len(parts[1]) else [(a, b)]


def is_translated(source, target):
    """Not the same text, not much longer or shorter, and with words."""
    if source == target or not re.search(r"[^\W\d_]{2}", source):
        return False
    return 1 / 2.2 <= (len(target) + 8) / (len(source) + 8) <= 2.2


def write(folder, name, pairs):
    """pairs: (part, source, target). One of each source is kept, in test or valid before train."""
    chosen = {}
    for part, source, target in sorted(set(pairs), key=lambda pair: (-PARTS.index(pair[0]), pair[1:])):
        chosen.setdefault(source, (part, target))
    for part in PARTS:
        lines = [f"{source}\t{target}\n" for source, (of, target) in chosen.items() if of == part]
        # Not sorted by their texts, so that the first lines are a sample of all.
        lines.sort(key=lambda line: hashlib.sha256(line.encode()).digest())
        (folder / f"{name}.{part}.tsv").write_text("".join(lines))
        print(f"{name}.{part}.tsv: {len(lines)} pairs")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lists", type=pathlib.Path, help="folder of the lists that apt-get update has fetched")
    parser.add_argument("pairs", type=pathlib.Path, help="folder to write")
    arguments = parser.parse_args()
    arguments.pairs.mkdir(parents=True, exist_ok=True)

    part = {}  # by the checksum of the description
    for package in control_paragraphs(arguments.lists, "_Packages"):
        source = package.get("Source", package["Package"]).split(" ")[0]
        part.setdefault(package["Description-md5"], part_of(source))
    english, italian = {}, {}
    for language, texts in (("en", english), ("it", italian)):
        for text in control_paragraphs(arguments.lists, f"_Translation-{language}"):
            texts[text["Description-md5"]] = text[f"Description-{language}"].replace("\t", " ").split("\n")
    english = {key: lines for key, lines in english.items() if key in part}

    pairs = [(part[key], source, target)
             for key, lines in english.items() if key in italian
             for source, target in translations(lines, italian[key]) if is_translated(source, target)]
    write(arguments.pairs, "english-italian", pairs)
    pairs = [(part[key], " ".join(paragraphs(lines[1:])), lines[0])
             for key, lines in english.items() if len(paragraphs(lines[1:])) > 0]
    write(arguments.pairs, "synopsis", pairs)


if __name__ == "__main__":
    main()
