"""tools/wheel_sbom.py lists what is in a wheel, adds its licences, and refuses what it does not know."""
import base64
import hashlib
import json
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import wheel_sbom  # noqa: E402

INFO = "qkv-0.1.0.dist-info"
PNG = {"name": "libpng16-16", "version": "1.6.39-2+deb12u4", "purl": "pkg:deb/debian/libpng16-16@1.6.39-2%2Bdeb12u4"}
X265 = {"name": "libx265-199", "version": "3.5-2", "purl": "pkg:deb/debian/libx265-199@3.5-2"}


class WheelSbom(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.wheel = self.folder / "qkv-0.1.0-cp311-abi3-manylinux_2_34_x86_64.whl"
        for name in ("libpng16-16", "libeigen3-dev"):
            (self.folder / name).mkdir()
            (self.folder / name / "copyright").write_text(f"copyright of {name}")
        (self.folder / "MPL-2.0").write_text("the licence")
        for name in ("DOCUMENTS", "COMMON_LICENSES"):
            patch = mock.patch.object(wheel_sbom, name, self.folder)
            patch.start()
            self.addCleanup(patch.stop)

    def write(self, libraries, parts):
        root = {"name": "qkv", "version": "0.1.0", "purl": "pkg:pypi/qkv@0.1.0"}
        sbom = {"metadata": {"tools": [{"name": "auditwheel", "version": "6"}]}, "components": [root, *parts]}
        program = zipfile.ZipInfo("qkv-0.1.0.data/scripts/qkv")
        program.external_attr = 0o100755 << 16
        with zipfile.ZipFile(self.wheel, "w") as out:
            out.writestr(program, "program")
            for name in libraries:
                out.writestr(f"qkv.libs/{name}", name)
            out.writestr(f"{INFO}/METADATA", "Metadata-Version: 2.4\nName: qkv\nLicense-File: LICENSE\n\nabout qkv\n\nmore")
            out.writestr(f"{INFO}/RECORD", "old")
            if parts:
                out.writestr(f"{INFO}/sboms/auditwheel.cdx.json", json.dumps(sbom))

    def read(self):
        with zipfile.ZipFile(self.wheel) as archive:
            self.rights = {info.filename: info.external_attr >> 16 for info in archive.infolist()}
            return {name: archive.read(name) for name in archive.namelist()}

    def test_parts_and_licences_are_added(self):
        self.write(["libpng16-0a0c.so.16"], [PNG])
        eigen = wheel_sbom.debian("libeigen3-dev", "3.4.0-4", "MPL-2.0", "compiled in")
        wheel_sbom.add_to_wheel(self.wheel, [(eigen, wheel_sbom.copyright_of("libeigen3-dev", "MPL-2.0"))])
        files = self.read()
        sbom = json.loads(files[f"{INFO}/sboms/qkv.cdx.json"])
        self.assertNotIn(f"{INFO}/sboms/auditwheel.cdx.json", files)
        self.assertEqual([(part["purl"], part["licenses"]) for part in sbom["components"]],
                         [(PNG["purl"], [{"expression": "libpng-2.0"}]),
                          ("pkg:deb/debian/libeigen3-dev@3.4.0-4", [{"expression": "MPL-2.0"}])])
        self.assertEqual(files[f"{INFO}/licenses/others/libpng16-16.txt"], b"copyright of libpng16-16")
        self.assertEqual(files[f"{INFO}/licenses/others/MPL-2.0.txt"], b"the licence")
        head, _, body = files[f"{INFO}/METADATA"].decode().partition("\n\n")
        self.assertEqual(head.splitlines()[2:], ["License-File: LICENSE"] + [
            f"License-File: others/{name}.txt" for name in ("MPL-2.0", "libeigen3-dev", "libpng16-16")])
        self.assertEqual(body, "about qkv\n\nmore")

    def test_the_record_is_that_of_the_files(self):
        self.write(["libpng16-0a0c.so.16"], [PNG])
        wheel_sbom.add_to_wheel(self.wheel, [])
        files = self.read()
        self.assertEqual(self.rights["qkv-0.1.0.data/scripts/qkv"], 0o100755)
        lines = [line.split(",") for line in files.pop(f"{INFO}/RECORD").decode().splitlines()]
        self.assertEqual(lines.pop(), [f"{INFO}/RECORD", "", ""])
        self.assertEqual({name for name, _, _ in lines}, set(files))
        for name, digest, size in lines:
            expected = base64.urlsafe_b64encode(hashlib.sha256(files[name]).digest()).decode().rstrip("=")
            self.assertEqual((digest, size), (f"sha256={expected}", str(len(files[name]))), name)

    def test_unknown_libraries_are_refused(self):
        for libraries, parts, reason in ((["libpng16.so", "libx265.so"], [PNG, X265], "libx265-199 is bundled and not"),
                                         (["libpng16.so", "libother.so"], [PNG], "packages of 1:.*libother.so"),
                                         (["libpng16.so"], [], "packages of 0:.*libpng16.so")):
            self.write(libraries, parts)
            with self.assertRaisesRegex(SystemExit, reason):
                wheel_sbom.add_to_wheel(self.wheel, [])
            self.assertIn(f"{INFO}/RECORD", self.read())
            self.assertEqual(self.read()[f"{INFO}/RECORD"], b"old")

    def test_of_long_files_the_licence_is_kept(self):
        text = "Files: a\nLicense: BSL-1.0\n\nFiles: b\nLicense: Jam\n\nLicense: BSL-1.0\n the text\n\nLicense: Jam\n another"
        (self.folder / "libeigen3-dev" / "copyright").write_text(text)
        with mock.patch.object(wheel_sbom, "LONG_COPYRIGHT", 10):
            self.assertEqual(wheel_sbom.copyright_of("libeigen3-dev", "BSL-1.0"), b"License: BSL-1.0\n the text")

    def test_no_copyleft_is_known(self):
        known = {**wheel_sbom.BUNDLED, **wheel_sbom.COMPILED_IN, **wheel_sbom.SOURCES, **wheel_sbom.PYPI,
                 **wheel_sbom.NPM}
        self.assertEqual([name for name, licence in known.items() if "GPL" in licence], [])


if __name__ == "__main__":
    unittest.main()
