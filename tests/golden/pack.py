"""The goldens' archives: tests/golden/hf_vit.tar has the folders hf_vit and hf_vit_*, and so on.

    python3 tests/golden/pack.py unpack      unpacks the archives that are not unpacked yet, or have changed since
    python3 tests/golden/pack.py restore     unpacks all; what was changed by hand is lost
    python3 tests/golden/pack.py pack        the archives become what the folders beside them hold

Cases are unpacked beside their archive, where git ignores them; CMake does so. To change, add or remove one by hand: edit
its folder, pack. Generators do the same. Their Python files lie in the same folders and belong to no archive.

Archives are not compressed, and equal contents give equal bytes: git stores a change as a difference.
"""
import hashlib
import io
import json
import re
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RECORD = ROOT / "tests/golden/unpacked.json"  # {archive: digest of what was unpacked}
FAMILY = re.compile(r"hf_[^_]+|timm_(?:beit|eva|kind|pe|rope)|timm|vit_pytorch|open_clip|[^_]+")
# Folder of archives: the archive of one of its cases.
PLACES = {
    "tests/golden": lambda case: FAMILY.match(case)[0],
    "tests/app/golden": lambda case: case,
    "tests/image/golden": lambda case: case,
    "tests/io/golden": lambda case: case,
    "tests/slide/golden": lambda case: case,
    "tests/mil/golden": lambda case: "networks" if case.startswith("network_") else "heads",
    "tests/text/golden": lambda case: "vocabularies",
}


def unpacked(place):
    """The folder of PLACE, such as "tests/golden", with its cases."""
    unpack()
    return ROOT / place


def unpack():
    """Unpacks the archives whose contents do not lie beside them, and removes what no archive holds any more."""
    record, archives = read_record(), dict(stored())
    for archive in sorted(record.keys() | archives.keys()):
        data = archives.get(archive)
        if data is not None and record.get(archive) == digest(data):
            continue
        place, name = archive.rsplit("/", 1)
        for case in cases_of(place, name.removesuffix(".tar")):
            for path in files_of(case):
                path.unlink()
        record.pop(archive, None)
        if data is not None:
            with tarfile.open(fileobj=io.BytesIO(data)) as tar:
                for member in tar:
                    path = ROOT / place / member.name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(tar.extractfile(member).read())
            record[archive] = digest(data)
        write_record(record)


def pack():
    """Writes the archives whose contents changed, and removes those without cases."""
    record = read_record()
    for archive, data in stored():
        if record.get(archive) != digest(data):
            sys.exit(f"{archive} is not what was unpacked: unpack, make the change again, pack")
    for place, archive_of in PLACES.items():
        found = {archive_of(case.name) for case in cases_in(place)}
        for name in found:
            archive, data = f"{place}/{name}.tar", tar_of(ROOT / place, cases_of(place, name))
            if record.get(archive) != digest(data):
                (ROOT / archive).write_bytes(data)
                record[archive] = digest(data)
                print("packed", archive)
        for path in (ROOT / place).glob("*.tar"):
            if path.stem not in found:
                path.unlink()
                record.pop(f"{place}/{path.name}")
                print("removed", f"{place}/{path.name}")
    write_record(record)


def cases_in(place):
    """The folders with files of goldens."""
    return sorted(path for path in (ROOT / place).iterdir() if path.is_dir() and files_of(path))


def cases_of(place, name):
    """The folders of an archive."""
    return [path for path in cases_in(place) if PLACES[place](path.name) == name]


def files_of(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc"))


def tar_of(base, folders):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path in sorted(path for folder in folders for path in files_of(folder)):
            member = tarfile.TarInfo(path.relative_to(base).as_posix())  # of nobody, at the epoch
            member.size = path.stat().st_size
            with path.open("rb") as file:
                tar.addfile(member, file)
    return out.getvalue()


def stored():
    for place in PLACES:
        for path in sorted((ROOT / place).glob("*.tar")):
            yield f"{place}/{path.name}", path.read_bytes()


def digest(data):
    return hashlib.sha256(data).hexdigest()


def read_record():
    return json.loads(RECORD.read_text()) if RECORD.exists() else {}


def write_record(record):
    RECORD.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")


def main():
    if sys.argv[1:] == ["unpack"]:
        unpack()
    elif sys.argv[1:] == ["restore"]:
        RECORD.unlink(missing_ok=True)
        unpack()
    elif sys.argv[1:] == ["pack"]:
        pack()
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
