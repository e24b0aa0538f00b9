"""Runs a measurement on this machine as if it had AVX2 and nothing above, for qkv and for its peers.

    python bench/as_avx2.py bench/peers.py [OPTION]…    another program of bench/, with its options

QKV_ISA holds qkv. PyTorch, ONNX Runtime and OpenVINO ask the processor, by the instruction CPUID, and not all of them
have a switch; so they run from a copy of the Python environment (hard links, in build/as-avx2/) in whose libraries
another instruction stands instead, which bench/as_avx2.c answers. The C library's own copying of memory keeps AVX-512.
Results go to files of their own (peers-held-avx2.json). Needs Linux on x86-64, cc, objdump and readelf.
"""

import hashlib
import os
import re
import shutil
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import common

FOLDER = common.ROOT / "build/as-avx2"
CPUID, INVALID = b"\x0f\xa2", b"\x0f\x04"
SEGMENT = re.compile(r"LOAD\s+(0x\w+)\s+(0x\w+)\s+0x\w+\s+(0x\w+)")  # readelf's lines: offset, address, size
# Packages of the peers, in their environment.
PROOF = """
import sys, onnxruntime, openvino, torch
for package in (onnxruntime, openvino, torch):
    assert package.__file__.startswith(sys.argv[1]), f"{package.__name__} comes from {package.__file__}"
assert torch.backends.cpu.get_cpu_capability() == "AVX2", torch.backends.cpu.get_cpu_capability()
"""


def replace_cpuid(library):
    """Replaces every CPUID of a library by an invalid instruction. Other hard links are unaffected: this one is
    cut first."""
    code = library.read_bytes()
    if CPUID not in code:
        return
    # Filtered by a pipe: the listing of libtorch_cpu.so has several gigabytes.
    listing = common.output(["sh", "-c", 'objdump -d --no-show-raw-insn "$1" | grep -w cpuid || true', "sh", library])
    addresses = [int(match[1], 16) for match in re.finditer(r"^ *(\w+):\tcpuid", listing, re.MULTILINE)]
    segments = [[int(x, 16) for x in match.groups()]
                for match in SEGMENT.finditer(common.output(["readelf", "-lW", library]))]  # fmt: skip
    changed = bytearray(code)
    for address in addresses:
        for offset, begin, size in segments:
            if begin <= address < begin + size:
                at = address - begin + offset
                assert changed[at : at + 2] == CPUID, f"{library}: no CPUID at {address:x}"
                changed[at : at + 2] = INVALID
    if addresses:
        library.unlink()
        library.write_bytes(changed)


def copy_packages(source, target):
    """Copies the environment's packages to `target` with CPUID replaced; redone if they or this program changed."""
    stamp = target.with_suffix(".stamp")
    own = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    wanted = "\n".join([own, str(source), sys.version, *sorted(path.name for path in source.iterdir())])
    if stamp.exists() and stamp.read_text() == wanted:
        return
    common.progress("as_avx2: copying the Python packages (once; some minutes)")
    stamp.unlink(missing_ok=True)
    shutil.rmtree(target, ignore_errors=True)
    try:
        shutil.copytree(source, target, copy_function=os.link)
    except shutil.Error:  # another file system, or linking is not permitted
        shutil.rmtree(target)
        shutil.copytree(source, target)
    with ThreadPoolExecutor(common.CORES) as pool:
        list(pool.map(replace_cpuid, [path for path in target.rglob("*.so*") if path.is_file()]))
    stamp.write_text(wanted)
    common.progress("")


def main():
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__)
    for tool in ("cc", "objdump", "readelf"):
        if not shutil.which(tool):
            sys.exit(f"as_avx2.py: no {tool}; `apt-get install gcc binutils` brings it")
    packages, mask = FOLDER / "packages", FOLDER / "mask.so"
    if re.search(r"[\s:]", str(mask)):
        sys.exit(f"as_avx2.py: {mask}: a library cannot be preloaded from a path with a space or a colon")
    FOLDER.mkdir(parents=True, exist_ok=True)
    copy_packages(Path(sysconfig.get_path("platlib")), packages)
    common.output(["cc", "-O2", "-shared", "-fPIC", common.ROOT / "bench/as_avx2.c", "-o", mask])
    environment = {
        **os.environ,
        "QKV_ISA": "avx2",
        "QKV_PEERS_ISA": "avx2",  # see common.py
        "PYTHONPATH": str(packages),
        "LD_PRELOAD": str(mask),
        "TORCHINDUCTOR_CPP_MARCH": "haswell",  # the compiler queries the processor itself
    }
    common.output([sys.executable, "-c", PROOF, packages], env=environment)
    os.execve(sys.executable, [sys.executable, *sys.argv[1:]], environment)


if __name__ == "__main__":
    main()
