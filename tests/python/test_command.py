"""The command `qkv` of the package: python -m qkv."""

import json
import os
import subprocess
import sys

import pytest
from support import GOLDEN, ROOT, environment

import qkv

PHOTO = str(ROOT / "examples/digits/7-black.png")


def command(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "qkv", *map(str, arguments)], capture_output=True, text=True, timeout=100, env=environment(), **options
    )


def test_the_version_is_the_package_s():
    done = command("--version")
    assert (done.returncode, done.stdout) == (0, f"qkv {qkv.__version__}\n")


def test_the_command_answers_as_the_package():
    done = command("classify", PHOTO, "--json")
    assert done.returncode == 0, done.stderr
    best = qkv.load("digits").classify(PHOTO)[0]
    (answer,) = [json.loads(line) for line in done.stdout.splitlines()]
    top = answer["top"][0]
    assert (top["label"], top["score"]) == (best.label, pytest.approx(best.score, abs=1e-4))


@pytest.mark.parametrize("name", ["digits", "digits-merged"])
def test_names_of_models_are_those_of_load(name, tmp_path):
    done = command("classify", "-m", name, PHOTO, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["top"][0]["label"] == qkv.load(name).classify(PHOTO)[0].label


@pytest.mark.parametrize("arguments", [["--help"], ["help", "embed"], ["classify", "--help"]])
def test_help_is_no_error(arguments):
    done = command(*arguments)
    assert done.returncode == 0 and "Usage" in done.stdout and done.stderr == ""


@pytest.mark.parametrize(
    "arguments,message",
    [
        ([], "--help"),
        (["nonsense"], "nonsense"),
        (["classify", "--nonsense"], "--nonsense"),
        (["classify", "/nonexistent.png"], "/nonexistent.png"),
        (["classify", "-m", "/nonexistent", PHOTO], "/nonexistent"),
        (["detect", "-m", GOLDEN / "hf_vit", PHOTO], "YOLOS"),
    ],
)
def test_errors_exit_with_a_message(arguments, message):
    done = command(*arguments)
    assert done.returncode in (1, 2)
    assert message in done.stderr and "Traceback" not in done.stderr


def test_a_closed_pipe_is_no_error():
    script = '"$0" -m qkv classify --json ' + f'"{PHOTO}" ' * 2000 + "| head -n 1"
    done = subprocess.run(["bash", "-c", script + '; echo "${PIPESTATUS[0]}"', sys.executable], capture_output=True, text=True, env=environment(), timeout=100)
    first, status = done.stdout.splitlines()
    assert json.loads(first)
    assert int(status) in (0, 141)
    assert "write" not in done.stderr and "Traceback" not in done.stderr


def test_a_full_disk_is_an_error():
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full")
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-m", "qkv", "classify", PHOTO], stdout=full, stderr=subprocess.PIPE, text=True, env=environment(), timeout=100)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


def test_standard_input_is_read():
    done = command("tokenize", "-m", GOLDEN / "tasks/bert", "-", input="The house is green.\n")
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_the_command_reads_names_of_any_bytes(tmp_path):
    file = os.fsencode(tmp_path) + b"/\xff.png"
    os.symlink(PHOTO, file)
    done = subprocess.run([sys.executable, "-m", "qkv", "classify", file], capture_output=True, env=environment(), timeout=100)
    assert done.returncode == 0, done.stderr


def test_the_command_needs_no_numpy():
    code = """
import sys
for name in ("numpy", "PIL", "tqdm", "torch"):
    sys.modules[name] = None
sys.argv = ["qkv", "classify", sys.argv[1]]
import qkv._cli
qkv._cli.main()
"""
    done = subprocess.run([sys.executable, "-c", code, PHOTO], capture_output=True, text=True, env=environment(), timeout=100)
    assert done.returncode == 0, done.stderr
