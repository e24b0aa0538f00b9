"""Ctrl-C ends every long call with KeyboardInterrupt, and what comes after works. Latencies are reported, not asserted."""

import signal
import subprocess
import sys
import threading
import time

import pytest
from big_models import write_gpt2, write_vit
from support import GOLDEN, environment

# Each call would take seconds; `begin()` says that it comes now, and what follows the interrupt shows that qkv works on.
CHILD = """
import sys, time
import numpy as np
import qkv
folder = sys.argv[1]
grey = np.zeros((28, 28), dtype=np.uint8)

def begin():
    print("begin", flush=True)

def work():
{work}

try:
    work()
except KeyboardInterrupt:
    print("ended", time.monotonic(), flush=True)
    assert qkv.load("digits").classify(grey, top=1)
    print("works", flush=True)
else:
    print("finished", flush=True)
"""

CALLS = {
    "classify": ("digits", "begin(); model.classify([grey] * 50_000)"),
    "embed": ("digits", "begin(); model.embed([grey] * 50_000)"),
    "iter_embed": ("digits", "begin()\nfor _ in model.iter_embed([grey] * 50_000): pass"),
    "preprocess": ("digits", "big = np.zeros((3000, 3000, 3), np.uint8); begin(); model.preprocess([big] * 500)"),
    "forward": ("digits", "pixels = np.zeros((10_000, 1, 28, 28), np.float32); begin(); model.forward(pixels)"),
    "detect": ("detector", "big = np.zeros((2000, 3000, 3), np.uint8); begin(); model.detect([big] * 500)"),
    "segment": ("segmenter", "big = np.zeros((2000, 3000, 3), np.uint8); begin(); model.segment([big] * 500)"),
    "caption": ("tasks/vit_gpt2", "images = [grey] * 50_000; begin(); model.caption(images, num_beams=4)"),
    "encode": ("tasks/bert", "texts = ['The house is green.'] * 3_000_000; begin(); model.encode(texts, batch_size=1_000_000)"),
    "translate": ("tasks/marian", "texts = ['The house is green.'] * 50_000; begin(); model.translate(texts)"),
    "generate": ("gpt2", "begin(); model.generate('ab', max_new_tokens=8000)"),
    "stream": ("gpt2", "begin()\nfor _ in model.generate('ab', max_new_tokens=8000, stream=True): pass"),
    "qk.split": ("digits", "m = np.random.default_rng(0).normal(size=(300, 200, 200)); begin(); qkv.qk.split(m)"),
    "load": ("vit", "begin(); qkv.load(folder, dtype='int8')"),
    "sleeping in the queue": (
        "gpt2",
        "import threading; threading.Thread(target=model.generate, args=('ab',), kwargs={'max_new_tokens': 8000}, daemon=True).start()\n"
        "time.sleep(0.5); begin(); model.generate('ab', max_new_tokens=8000)",
    ),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    made = {}
    for name, write in (("gpt2", write_gpt2), ("vit", write_vit)):
        made[name] = tmp_path_factory.mktemp(name)
        write(made[name])
    return made


@pytest.mark.parametrize("call", CALLS)
def test_ctrl_c_ends(call, folders, latencies):
    name, work = CALLS[call]
    folder = folders.get(name, GOLDEN / name if name != "digits" else name)
    if call != "load":
        work = "model = qkv.load(folder)\n" + work
    code = CHILD.format(work="\n".join("    " + line for line in work.splitlines()))
    child = subprocess.Popen([sys.executable, "-c", code, folder], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
    watchdog = threading.Timer(100, child.kill)  # ends the reading of a line that does not come
    watchdog.start()
    try:
        assert child.stdout.readline() == "begin\n", child.communicate()[1]
        time.sleep(0.4)
        sent = time.monotonic()
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=100)
    finally:
        watchdog.cancel()
        child.kill()
    assert "finished" not in out, "the call was too short to be interrupted, or was not"
    assert "works" in out and child.returncode == 0, out + err
    assert "Traceback" not in err, err
    latencies[call] = float(out.split()[1]) - sent


def test_ctrl_c_at_the_command_ends_it(folders):
    child = subprocess.Popen(
        [sys.executable, "-m", "qkv", "generate", "-m", folders["gpt2"], "--tokens", "8000", "--prompt", "ab"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    watchdog = threading.Timer(100, child.kill)
    watchdog.start()
    try:
        assert child.stdout.read(1)
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=100)
    finally:
        watchdog.cancel()
        child.kill()
    assert child.returncode in (-signal.SIGINT, 128 + signal.SIGINT)
    assert b"Traceback" not in err


def test_an_own_handler_of_sigint_is_called_and_its_exception_ends_the_call(folders):
    code = """
import os, signal, sys, threading, time
import qkv

class Stopped(Exception):
    pass

def stop(number, frame):
    raise Stopped

signal.signal(signal.SIGUSR1, stop)
model = qkv.load(sys.argv[1])
threading.Timer(0.4, lambda: os.kill(os.getpid(), signal.SIGUSR1)).start()
try:
    model.generate("ab", max_new_tokens=8000)
except Stopped:
    print("stopped")
"""
    done = subprocess.run([sys.executable, "-c", code, folders["gpt2"]], capture_output=True, text=True, env=environment(), timeout=100)
    assert done.stdout == "stopped\n", done.stderr


def test_a_handler_that_returns_does_not_end_the_call():
    code = """
import os, signal, threading
import numpy as np
import qkv
calls = []
signal.signal(signal.SIGUSR1, lambda *_: calls.append(1))
model = qkv.load("digits")
for delay in (0.05, 0.1, 0.15):
    threading.Timer(delay, lambda: os.kill(os.getpid(), signal.SIGUSR1)).start()
answers = model.classify([np.zeros((28, 28), dtype=np.uint8)] * 2000)
while len(calls) < 3:
    pass
print(len(answers), len(calls))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment(), timeout=100)
    assert done.stdout == "2000 3\n", done.stderr


def test_signals_are_left_as_they_were():
    code = """
import signal
before = {number: signal.getsignal(number) for number in signal.valid_signals()}
import numpy as np
import qkv
qkv.load("digits").classify(np.zeros((28, 28), dtype=np.uint8))
assert {number: signal.getsignal(number) for number in signal.valid_signals()} == before
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment(), timeout=100)
    assert done.returncode == 0, done.stderr

