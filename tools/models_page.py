"""Writes the tables of families in docs/models.md, or refuses a page that does not name all that the program reads.

    python3 tools/models_page.py PROGRAM [--write]

tools/model_families.tsv has the families, tools/hub_downloads.tsv the downloads that order them. The model types are those
that PROGRAM lists when it refuses another one. The names of timm's architectures on the page, which
tools/verify_registry.py writes, are those of qkv's copy of the registry.
"""
import json
import re
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/models.md"
BEGIN, END = "<!-- written by tools/{}: begin -->", "<!-- written by tools/{}: end -->"
ME, TIMM = "models_page.py", "verify_registry.py"


def read_tsv(path):
    """The rows behind comments and heading."""
    lines = [line.split("\t") for line in path.read_text().splitlines() if not line.startswith("#")]
    return lines[1:]


def part_of(page, writer):
    """What stands between the writer's marks."""
    begin, end = BEGIN.format(writer), END.format(writer)
    if page.count(begin) != 1 or page.count(end) != 1:
        sys.exit(f"{PAGE.name}: expected one part between {begin} and {end}")
    return page.partition(begin)[2].partition(end)[0].strip("\n")


def replace_part(page, writer, text):
    begin, end = BEGIN.format(writer), END.format(writer)
    part_of(page, writer)
    return f"{page.partition(begin)[0]}{begin}\n\n{text}\n\n{end}{page.partition(end)[2]}"


def program_types(program):
    """The values of model_type that the program lists when it refuses another, of images and of texts."""
    types = set()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        header = json.dumps({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
        (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))
        for config in ({"model_type": "none"}, {"model_type": "none", "vocab_size": 2}):
            (folder / "config.json").write_text(json.dumps(config))
            refused = subprocess.run([program, "info", "-m", folder], capture_output=True, text=True).stderr
            listed = re.search(r"supported (?:image|text) models: (.*)", refused)
            if not listed:
                sys.exit(f"{program} lists no model types, but says: {refused}")
            types |= set(listed[1].split(", "))
    return types


def check_types(families, types):
    """Errors: types without a row, and rows of types that the program does not read."""
    listed = [t for row in families for t in row[1].split(", ") if t]
    errors = [f"model_families.tsv: no row has the model_type {t}" for t in sorted(types - set(listed))]
    errors += [f"model_families.tsv: the program reads no model_type {t}" for t in sorted(set(listed) - types)]
    return errors + [f"model_families.tsv: {t} is in several rows" for t in sorted(set(listed)) if listed.count(t) > 1]


def check_architectures(page, registry):
    """Errors: the architectures that timm_registry.inc holds and the page does not name as equal to timm's."""
    known = registry.partition("#ifdef QKV_TIMM_KNOWN")[2].partition("#endif")[0]
    names = re.findall(r'^\{"(\w+)"', known, re.MULTILINE)
    agreed = set(re.findall(r"`(\w+)`", part_of(page, TIMM).partition("### Refused")[0]))
    missing = [name for name in names if name not in agreed]
    if not names:
        return ["timm_registry.inc has no names"]
    return [f"{PAGE.name}: no {', '.join(missing)}; run tools/{TIMM} --write"] if missing else []


def rounded(downloads):
    return f"{downloads / 1e6:.1f} M" if downloads >= 100_000 else f"{downloads / 1e3:.0f} k"


def tables(families, downloads):
    """Markdown. Families of transformers come in the order of their downloads, those without figures at the end."""
    figures = {kind: (int(count), example) for kind, count, example in downloads}
    rows = []
    for family, types, kind, what in families:
        found = [figures[t] for t in types.split(", ") if t in figures]
        rows.append((sum(count for count, _ in found), max(found)[1] if found else "", family, types, kind, what))
    lines = ["| timm, open_clip, vit-pytorch | input | what is read |", "|---|---|---|"]
    lines += [f"| {family} | {kind} | {what} |" for _, _, family, types, kind, what in rows if not types]
    lines += ["", "| transformers | `model_type` | downloads | the most downloaded | input | what is read |",
              "|---|---|---:|---|---|---|"]
    for count, example, family, types, kind, what in sorted((r for r in rows if r[3]), key=lambda r: -r[0]):
        names = ", ".join(f"`{t}`" for t in types.split(", "))
        lines.append(f"| {family} | {names} | {rounded(count) if count else ''} | {example} | {kind} | {what} |")
    supported = {t for row in families for t in row[1].split(", ")}
    others = [f"`{kind}`" for kind in sorted(figures, key=lambda k: -figures[k][0]) if kind not in supported]
    return "\n".join(lines + ["", f"Not supported, the most downloaded first: {', '.join(others)}."])


def main(program, write):
    families, page = read_tsv(ROOT / "tools/model_families.tsv"), PAGE.read_text()
    errors = check_types(families, program_types(program))
    written = tables(families, read_tsv(ROOT / "tools/hub_downloads.tsv"))
    if write:
        page = replace_part(page, ME, written)
        PAGE.write_text(page)
    if part_of(page, ME) != written:
        errors.append(f"{PAGE.name} is not up to date; run tools/{ME} PROGRAM --write")
    registry = next((ROOT / "qkv").rglob("timm_registry.inc"))
    errors += check_architectures(page, registry.read_text())
    print("\n".join(errors) or f"{PAGE.name} names all families and architectures")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], "--write" in sys.argv[2:]))
