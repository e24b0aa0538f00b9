"""Runs a measurement on this machine as if it had AVX2 and nothing above, for qkv and for its peers.

    python bench/as_avx2.py bench/peers.py [OPTION]…    another program of bench/, with its options

QKV_ISA holds qkv. PyTorch, ONNX Runtime and OpenVINO ask the processor, by the instruction CPUID, and not all of them
have a switch; so they run from a copy of the Python environment (hard links, in build/as-avx2/) in whose libraries
another instruction stands instead, which bench/as_avx2.c answers. Needs Linux on x86-64, cc and objdump.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import common

FOLDER = common.ROOT / "build/as-avx2"
CPUID, UD2 = b"\x0f\xa2", b"\x0f\x0b"
SEGMENT = re.compile(r"LOAD\s+(0x\w+)\s+(0x\w+)\s+0x\w+\s+(0x\w+)")  # of readelf: offset, address, size


def replace_cpuid(library):
    """Every CPUID of a library becomes an UD2. The library stays what it is elsewhere: its hard link is cut first."""
    code = library.read_bytes()
    if CPUID not in code:
        return
    listing = common.output(["objdump", "-d", "--no-show-raw-insn", library])
    addresses = [int(match[1], 16) for match in re.finditer(r"^ *(\w+):\tcpuid", listing, re.MULTILINE)]
    segments = [[int(x, 16) for x in match.groups()]
                for match in SEGMENT.finditer(common.output(["readelf", "-lW", library]))]  # fmt: skip
    changed = bytearray(code)
    for address in addresses:
        for offset, begin, size in segments:
            if begin <= address < begin + size:
                at = address - begin + offset
                assert changed[at : at + 2] == CPUID, f"{library}: no CPUID at {address:x}"
                changed[at : at + 2] = UD2
    if addresses:
        library.unlink()
        library.write_bytes(changed)


def copy_packages(source, target):
    """The environment's packages at `target`, with CPUID replaced; made anew when one was added or removed."""
    stamp, names = target / ".packages", "\n".join(sorted(path.name for path in source.iterdir()))
    if stamp.exists() and stamp.read_text() == names:
        return
    common.progress("as_avx2: copying the Python packages (once, a minute or two)")
    shutil.rmtree(target, ignore_errors=True)
    try:
        shutil.copytree(source, target, symlinks=True, copy_function=os.link)
    except shutil.Error:  # another file system
        shutil.rmtree(target)
        shutil.copytree(source, target, symlinks=True)
    libraries = [path for path in target.rglob("*.so*") if path.is_file() and not path.is_symlink()]
    with ThreadPoolExecutor(common.CORES) as pool:
        list(pool.map(replace_cpuid, libraries))
    stamp.write_text(names)
    common.progress("")


def main():
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__)
    packages, mask = FOLDER / "packages", FOLDER / "mask.so"
    FOLDER.mkdir(parents=True, exist_ok=True)
    copy_packages(Path(sysconfig.get_path("purelib")), packages)
    common.output(["cc", "-O2", "-shared", "-fPIC", common.ROOT / "bench/as_avx2.c", "-o", mask])
    environment = {
        **os.environ,
        "QKV_ISA": "avx2",
        "QKV_PEERS_ISA": "avx2",  # for the description of the machine
        "PYTHONPATH": str(packages),
        "LD_PRELOAD": str(mask),
        "TORCHINDUCTOR_CPP_MARCH": "haswell",  # the compiler asks the processor itself
    }
    os.execve(sys.executable, [sys.executable, *sys.argv[1:]], environment)


if __name__ == "__main__":
    main()
