#!/usr/bin/env python3
"""Says what of others is in a wheel that auditwheel has repaired, and puts their licences in, in place.

    tools/wheel_sbom.py WHEEL [--sources build/wheel-sources] [--pypi NAME…] [--lock web/app/package-lock.json]

It replaces the list of bundled libraries that auditwheel writes (sboms/auditwheel.cdx.json, without licences) by
sboms/qkv.cdx.json, CycloneDX 1.6, with their licences and with what is compiled in: libraries of headers, libtiff of
--sources (cmake/Wheel.cmake), packages of PyPI installed here (--pypi nanobind), and those of npm in the explorer's page
(--lock). Debian's copyright file of each goes into licenses/others/. A library that is not known here is refused: its
licence has to be looked at first, and copyleft does not come into a wheel.
"""
import argparse
import base64
import hashlib
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from urllib.parse import quote

DOCUMENTS = Path("/usr/share/doc")
COMMON_LICENSES = Path("/usr/share/common-licenses")
LONG_COPYRIGHT = 200_000

# Debian's packages of libraries that auditwheel may bundle, and their licences (SPDX), without what is of other files of
# the package, such as its build scripts.
BUNDLED = {
    "libbrotli1": "MIT",
    "libdeflate0": "MIT",
    "libexpat1": "MIT",
    "libfmt9": "MIT",
    "libfreetype6": "FTL",
    "libgif7": "MIT",
    "libhwy1": "Apache-2.0",
    "libjpeg62-turbo": "IJG AND BSD-3-Clause AND Zlib",
    "libopenjp2-7": "BSD-2-Clause",
    "libpcre2-8-0": "BSD-3-Clause",
    "libpng16-16": "libpng-2.0",
    "libprometheus-cpp-core1.0": "MIT",
    "libutf8proc2": "MIT AND Unicode-DFS-2015",
    "libwebp7": "BSD-3-Clause",
    "libwebpdemux2": "BSD-3-Clause",
    "libyaml-cpp0.7": "MIT",
    "zlib1g": "Zlib",
}
# Headers and the font, of which parts are in the program and the module.
COMPILED_IN = {
    "fonts-dejavu-core": "Bitstream-Vera",
    "libboost1.81-dev": "BSL-1.0",
    "libcli11-dev": "BSD-3-Clause",
    "libeigen3-dev": "MPL-2.0",
    "nlohmann-json3-dev": "MIT",
}
SOURCES = {"tiff": "libtiff"}
PYPI = {"nanobind": "BSD-3-Clause"}
NPM = {"openseadragon": "BSD-3-Clause", "preact": "MIT"}


def component(purl, name, version, licence, description):
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl,
            "description": description, "licenses": [{"expression": licence}]}


def debian(name, version, licence, description, qualifier=""):
    purl = f"pkg:deb/debian/{quote(name, safe='')}@{quote(version, safe='')}{qualifier}"
    return component(purl, name, version, licence, description)


def copyright_of(package, licence):
    """Debian's file; of Boost's two megabytes about each of its files only the text of its licence."""
    text = (DOCUMENTS / package / "copyright").read_bytes()
    if len(text) < LONG_COPYRIGHT:
        return text
    return b"\n\n".join(part for part in text.split(b"\n\n") if part.startswith(f"License: {licence}\n".encode()))


def installed_version(package):
    return subprocess.check_output(["dpkg-query", "-W", "-f", "${Version}", package], text=True)


def bundled(files, sbom):
    """The libraries that auditwheel copied: [(component, licence text)]."""
    copied = [name for name in files if re.match(r"[^/]+\.libs/.+", name)]
    listed = [part for part in sbom["components"] if part["purl"].startswith("pkg:deb/")] if sbom else []
    if len(copied) != len(listed):
        sys.exit(f"wheel_sbom: {len(copied)} libraries are in the wheel, auditwheel knows the packages of {len(listed)}:"
                 f" {' '.join(copied)}")
    found = {}
    for part in listed:
        if part["name"] not in BUNDLED:
            sys.exit(f"wheel_sbom: {part['name']} is bundled and not known; look at its licence, and name it in BUNDLED "
                     "or leave it out of the wheel")
        found[part["name"]] = debian(part["name"], part["version"], BUNDLED[part["name"]], "bundled shared library")
    return [(part, copyright_of(name, BUNDLED[name])) for name, part in sorted(found.items())]


def compiled_in():
    return [(debian(name, installed_version(name), licence, "compiled in"), copyright_of(name, licence))
            for name, licence in COMPILED_IN.items()]


def from_sources(folder):
    parts = []
    for name, licence in SOURCES.items():
        source = folder / name / "debian"
        version = re.match(r"\S+ \((\S+)\)", (source / "changelog").read_text()).group(1)
        part = debian(name, version, licence, "linked statically, from Debian's source", "?arch=source")
        parts.append((part, (source / "copyright").read_bytes()))
    return parts


def from_pypi(names):
    parts = []
    for name in names:
        package = importlib.metadata.distribution(name)
        texts = [file.locate().read_bytes() for file in package.files if re.match("LICEN[CS]E|COPYING", file.name)]
        part = component(f"pkg:pypi/{name}@{package.version}", name, package.version, PYPI[name], "compiled in")
        parts.append((part, b"\n".join(texts)))
    return parts


def from_lock(lock):
    """What is in the explorer's page, which has the licence in its text."""
    packages = json.loads(lock.read_text())["packages"]
    return [(component(f"pkg:npm/{name}@{version}", name, version, licence, "in pages"), None)
            for name, licence in NPM.items() for version in [packages[f"node_modules/{name}"]["version"]]]


def common_licences(parts):
    """Texts that Debian's copyright files only refer to. That of Apache-2.0 is qkv's own."""
    words = {word for part, _ in parts for word in part["licenses"][0]["expression"].split()}
    return {name: (COMMON_LICENSES / name).read_bytes() for name in ["MPL-2.0"] if name in words}


def document(sbom, name, version, parts):
    root = f"pkg:pypi/{name}@{version}"
    references = [part["bom-ref"] for part, _ in parts]
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
        "metadata": {
            "component": {**component(root, name, version, "Apache-2.0", "the wheel"), "type": "application"},
            "tools": {"components": [{"type": "application", **tool} for tool in (sbom or {}).get("metadata", {})
                                     .get("tools", [])] + [{"type": "application", "name": "tools/wheel_sbom.py"}]},
        },
        "components": [part for part, _ in parts],
        "dependencies": [{"ref": root, "dependsOn": references}] + [{"ref": reference} for reference in references],
    }


def record(files, path):
    """The wheel's list of its files: path, SHA-256, bytes."""
    lines = []
    for name, data in files.items():
        if name != path:
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            lines.append(f"{name},sha256={digest},{len(data)}\n")
    return "".join([*lines, f"{path},,\n"]).encode()


def write(wheel, infos, files):
    """Files that were there keep their times and rights; new ones have those of METADATA."""
    model = next(info for name, info in infos.items() if name.endswith(".dist-info/METADATA"))
    temporary = wheel.with_suffix(".tmp")
    with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as out:
        for name, data in files.items():
            info = zipfile.ZipInfo(name, infos.get(name, model).date_time)
            info.external_attr = infos.get(name, model).external_attr
            info.compress_type = zipfile.ZIP_DEFLATED
            out.writestr(info, data)
    os.replace(temporary, wheel)


def add_to_wheel(wheel, more):
    """more: the parts beside the bundled libraries, [(component, licence text or None)]. Returns all parts."""
    with zipfile.ZipFile(wheel) as archive:
        infos = {info.filename: info for info in archive.infolist() if not info.is_dir()}
        files = {name: archive.read(name) for name in infos}
    info_folder = next(name for name in files if name.endswith(".dist-info/METADATA")).rpartition("/")[0]
    name, version = info_folder.removesuffix(".dist-info").split("-")
    written = files.pop(f"{info_folder}/sboms/auditwheel.cdx.json", None)
    sbom = json.loads(written) if written else None
    parts = bundled(files, sbom) + more

    texts = {part["name"]: text for part, text in parts if text is not None} | common_licences(parts)
    for title, text in sorted(texts.items()):
        files[f"{info_folder}/licenses/others/{title}.txt"] = text
    head, empty, body = files[f"{info_folder}/METADATA"].partition(b"\n\n")
    head += "".join(f"\nLicense-File: others/{title}.txt" for title in sorted(texts)).encode()
    files[f"{info_folder}/METADATA"] = head + empty + body
    files[f"{info_folder}/sboms/qkv.cdx.json"] = json.dumps(document(sbom, name, version, parts), indent=1).encode()
    files[f"{info_folder}/RECORD"] = record(files, f"{info_folder}/RECORD")
    write(wheel, infos, files)
    return [part for part, _ in parts]


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("wheel", type=Path)
    arguments.add_argument("--sources", type=Path, help="folder of the Debian sources that are linked statically")
    arguments.add_argument("--pypi", nargs="*", default=[], choices=PYPI, help="packages installed here, compiled in")
    arguments.add_argument("--lock", type=Path, help="package-lock.json, if the explorer's page is in the wheel")
    options = arguments.parse_args()
    more = compiled_in() + (from_sources(options.sources) if options.sources else []) + from_pypi(options.pypi)
    parts = add_to_wheel(options.wheel, more + (from_lock(options.lock) if options.lock else []))
    for part in parts:
        print(f"{part['name']:26} {part['version']:24} {part['licenses'][0]['expression']:32} {part['description']}")


if __name__ == "__main__":
    main()
