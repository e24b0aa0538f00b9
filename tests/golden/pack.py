"""The goldens' archives: tests/golden/hf_vit.tar has the folders hf_vit and hf_vit_*, and so on.

    python3 tests/golden/pack.py unpack      build/goldens becomes what the archives hold; what was changed there is lost
    python3 tests/golden/pack.py pack        the archives become what build/goldens holds

Unpacked files have the path in build/goldens that they would have in the source tree. To change, add or remove a case by
hand: unpack, edit, pack. Generators do the same. The tests read what CMake unpacks into their own build tree
(cmake/Goldens.cmake).

Archives are not compressed, and equal contents give equal bytes: git stores a change as a difference.
"""
import hashlib
import io
import json
import os
import re
import shutil
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build/goldens"
RECORD = WORK / "archives.json"  # {archive: digest of what was unpacked}
FAMILY = re.compile(r"hf_[^_]+|timm_(?:beit|eva|kind|pe|rope)|timm|vit_pytorch|open_clip|[^_]+")
# Folder of archives: the archive of one of its cases.
PLACES = {
    "tests/golden": lambda case: FAMILY.match(case)[0],
    "tests/app/golden": lambda case: case,
    "tests/image/golden": lambda case: case,
    "tests/io/golden": lambda case: case,
    "tests/text/golden": lambda case: "vocabularies",
}


def unpacked(place):
    """The folder in which the cases of PLACE ("tests/golden") lie; QKV_GOLDENS names a folder where CMake put them all."""
    if "QKV_GOLDENS" in os.environ:
        return Path(os.environ["QKV_GOLDENS"]) / place
    unpack()
    return WORK / place


def unpack():
    """Unpacks the archives that build/goldens does not hold yet."""
    record = read_record()
    for archive, data in stored():
        if record.get(archive) != digest(data):
            place, name = archive.rsplit("/", 1)
            for case in cases_of(place, name.removesuffix(".tar")):
                shutil.rmtree(case)
            with tarfile.open(fileobj=io.BytesIO(data)) as tar:
                for member in tar:
                    path = WORK / place / member.name
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
        folders = sorted(path.name for path in (WORK / place).glob("*") if path.is_dir())
        found = {archive_of(name) for name in folders}
        for name in found:
            archive, data = f"{place}/{name}.tar", tar_of(WORK / place, cases_of(place, name))
            if record.get(archive) != digest(data):
                (ROOT / place).mkdir(parents=True, exist_ok=True)
                (ROOT / archive).write_bytes(data)
                record[archive] = digest(data)
                print("packed", archive)
        for path in (ROOT / place).glob("*.tar"):
            if path.stem not in found:
                path.unlink()
                record.pop(f"{place}/{path.name}")
                print("removed", f"{place}/{path.name}")
    write_record(record)


def cases_of(place, name):
    """The unpacked folders of an archive."""
    return sorted(path for path in (WORK / place).glob("*") if path.is_dir() and PLACES[place](path.name) == name)


def tar_of(base, folders):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path in sorted(path for folder in folders for path in folder.rglob("*") if path.is_file()):
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
    WORK.mkdir(parents=True, exist_ok=True)
    RECORD.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")


def main():
    if sys.argv[1:] == ["unpack"]:
        shutil.rmtree(WORK, ignore_errors=True)
        unpack()
    elif sys.argv[1:] == ["pack"]:
        pack()
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
