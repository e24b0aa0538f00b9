"""In somebody else's process: what importing does, threads, the interpreter's lock, memory."""

import copy
import gc
import os
import sys
import threading

import numpy as np
import pytest
from support import GOLDEN, run_python

import qkv


def child(code, *arguments):
    """The output of `code` in a Python of its own."""
    done = run_python(code, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_importing_loads_no_other_package():
    loaded = child("import sys; before = set(sys.modules); import qkv; print(*sorted(set(sys.modules) - before))").split()
    foreign = {name.split(".")[0] for name in loaded} - set(sys.stdlib_module_names) - {"qkv", "nanobind_backend"}
    assert foreign == set(), foreign
    assert not {"socket", "ssl", "http", "urllib.request", "multiprocessing", "asyncio"} & set(loaded)


def test_importing_starts_no_thread():
    assert child("import os, qkv; print(len(os.listdir('/proc/self/task')))") == "1\n"


def test_everything_works_without_a_network():
    code = """
import socket, sys
def refuse(*_, **__):
    raise AssertionError("a socket was asked for")
socket.socket = socket.create_connection = socket.getaddrinfo = refuse
sys.addaudithook(lambda event, _: refuse() if event.startswith("socket.") else None)
import numpy as np
import qkv
image = np.zeros((30, 30, 3), dtype=np.uint8)
folder = sys.argv[1]
qkv.load("digits").classify(np.zeros((28, 28), dtype=np.uint8))
qkv.load(folder + "/towers/clip").classify(image, prompts=["a"])
qkv.load(folder + "/tasks/bert").encode("a")
qkv.load(folder + "/tasks/gpt2").generate("a", max_new_tokens=2)
try:
    qkv.load("nobody/no-such-model")
except qkv.Error:
    print("done")
"""
    assert child(code, GOLDEN) == "done\n"


def test_the_engine_asks_for_no_socket():
    """Nor by itself, beside Python: the system calls of the whole process."""
    import shutil

    if not shutil.which("strace"):
        pytest.skip("no strace")
    import subprocess

    from support import environment

    code = "import numpy, qkv; qkv.load('digits').classify(numpy.zeros((28, 28), dtype='uint8'))"
    done = subprocess.run(["strace", "-f", "-e", "trace=socket,connect", sys.executable, "-c", code], capture_output=True, text=True, env=environment())
    assert done.returncode == 0 and "socket(" not in done.stderr, done.stderr


def test_every_public_name_has_a_docstring():
    for name in qkv.__all__:
        assert getattr(qkv, name).__doc__, name
    for name, value in vars(qkv.Model).items():
        if not name.startswith("_") and name not in ("classify",):
            assert value.__doc__, name


def run_in_threads(works):
    """What each work returned, run at the same time."""
    answers, errors = [None] * len(works), []
    barrier = threading.Barrier(len(works))

    def run(index):
        try:
            barrier.wait()
            answers[index] = works[index]()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors
    return answers


def test_threads_that_share_a_model_get_what_each_would_alone(digits, open_model):
    detector, bert = open_model("detector"), open_model("tasks/bert")
    rng = np.random.default_rng(4)
    grey = [rng.integers(0, 256, (20, 28, 28), dtype=np.uint8) for _ in range(4)]
    photos = [rng.integers(0, 256, (2, 50, 60, 3), dtype=np.uint8) for _ in range(4)]
    texts = [[f"house {i} {j}" for j in range(5)] for i in range(4)]
    kinds = [
        [lambda images=images: digits.embed(list(images)) for images in grey],
        [lambda images=images: detector.forward(detector.preprocess(images))["tokens"] for images in photos],
        [lambda some=some: bert.encode(some) for some in texts],
    ]
    for works in (*kinds, [works[i] for i, works in enumerate(kinds)]):
        alone = [work() for work in works]
        for _ in range(5):
            for ours, wanted in zip(run_in_threads(works), alone):
                assert np.array_equal(ours, wanted)


def test_threads_write_what_each_would_alone(open_model):
    model = open_model("tasks/gpt2")
    works = [lambda prompt=prompt: model.generate(prompt, max_new_tokens=20) for prompt in ("a", "The house", "attention", "!")]
    works.append(lambda: "".join(model.generate("seven", max_new_tokens=20, stream=True)))
    alone = [work() for work in works]
    for _ in range(5):
        assert run_in_threads(works) == alone


def test_models_with_numbers_of_threads_of_their_own_run_side_by_side(digit_photos):
    models = [qkv.load("digits", threads=n) for n in (1, 2, 3, None)]
    alone = [model.embed(digit_photos) for model in models]
    for _ in range(5):
        for ours, wanted in zip(run_in_threads([lambda model=model: model.embed(digit_photos) for model in models]), alone):
            assert np.array_equal(ours, wanted)


def test_other_threads_of_python_run_meanwhile(digits):
    images = [np.zeros((28, 28), dtype=np.uint8)] * 2000
    counted, done = 0, threading.Event()

    def work():
        digits.embed(images)
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    while not done.is_set():
        counted += 1
    thread.join()
    # With the lock held, this thread would count a few times before and after the call.
    assert counted > 10_000


def test_a_stream_may_be_left_in_the_middle(open_model):
    model = open_model("tasks/gpt2")
    whole = list(model.generate("attention", max_new_tokens=100, stream=True))
    threads = threading.active_count()
    for taken in (0, 1, 3):
        stream = model.generate("attention", max_new_tokens=100, stream=True)
        assert [piece for _, piece in zip(range(taken), stream)] == whole[:taken]
        stream.close()
    for piece in model.generate("attention", max_new_tokens=100, stream=True):
        break
    del stream
    gc.collect()
    assert threading.active_count() == threads
    assert model.generate("attention", max_new_tokens=100) == "".join(whole)


def test_two_streams_go_on_side_by_side(open_model):
    model = open_model("tasks/gpt2")
    first, second = (model.generate(prompt, max_new_tokens=30, stream=True) for prompt in ("attention", "!"))
    pieces = ["", ""]
    for a, b in zip(first, second):
        pieces[0] += a
        pieces[1] += b
    pieces[0] += "".join(first)
    pieces[1] += "".join(second)
    assert model.generate("attention", max_new_tokens=30).startswith(pieces[0])
    assert model.generate("!", max_new_tokens=30).startswith(pieces[1])


def test_an_error_of_a_stream_is_raised_where_it_is_read(open_model):
    stream = open_model("tasks/gpt2").generate("attention", stream=True, top_p=2.0)
    with pytest.raises(qkv.Error, match="top-p"):
        list(stream)


def test_a_copy_is_the_model(digits):
    assert copy.copy(digits) is digits
    assert copy.deepcopy({"model": digits})["model"] is digits


def test_results_outlive_their_model():
    model = qkv.load("digits")
    image = np.zeros((28, 28), dtype=np.uint8)
    rows, attention = model.embed([image]), model.attend(image, page=True)
    weights = attention.weights
    kept = rows.copy(), weights.copy()
    del model, attention
    gc.collect()
    for _ in range(3):
        qkv.load("digits").embed([image] * 50)
    assert np.array_equal(rows, kept[0]) and np.array_equal(weights, kept[1])
    assert not weights.flags.writeable


def test_models_pickle_as_what_load_was_given(tmp_path, monkeypatch, digit_photos):
    import pickle

    (tmp_path / "there").symlink_to(GOLDEN / "timm_vit")
    monkeypatch.chdir(tmp_path)
    for model in (qkv.load("digits", dtype="bf16"), qkv.load("there", pool="mean", size=24, threads=1, mean=[0.5] * 3)):
        written = pickle.dumps(model)
        assert len(written) < 500
        monkeypatch.chdir("/")
        again = pickle.loads(written)
        assert np.array_equal(again.embed(digit_photos), model.embed(digit_photos))
    assert again._source == model._source


def test_results_can_be_written_and_pickled(digits, open_model):
    import pickle

    image = np.zeros((28, 28), dtype=np.uint8)
    rows = digits.embed([image])
    rows[:] = 1
    assert rows.flags.writeable and rows.flags.c_contiguous and rows.dtype == np.float32
    answer = pickle.loads(pickle.dumps(digits.classify(image, logits=True)))
    assert answer == digits.classify(image)
    detections = pickle.loads(pickle.dumps(open_model("detector").detect(image, threshold=0)))
    assert detections == open_model("detector").detect(image, threshold=0)
    segments = pickle.loads(pickle.dumps(open_model("segmenter").segment(image, threshold=0)))
    assert np.array_equal(segments.ids, open_model("segmenter").segment(image, threshold=0).ids)
    text = pickle.loads(pickle.dumps(open_model("tasks/gpt2").generate("a", max_new_tokens=5)))
    assert text.tokens == 5


def test_numbers_of_attention_and_of_spectra_pickle(digits, open_model, tmp_path):
    import pickle

    for attention in (digits.attend(np.zeros((28, 28), np.uint8), layers="all"), open_model("tasks/bert").attend("a")):
        again = pickle.loads(pickle.dumps(attention))
        assert np.array_equal(again.weights, attention.weights)
        assert (again.facts, repr(again)) == (attention.facts, repr(attention))
        assert attention._repr_png_() and again._repr_png_() is None
        for draw in (again.png, again.image, lambda: again.save(tmp_path / "x.npy")):
            with pytest.raises(qkv.Error, match="pickle"):
                draw()
    spectra = qkv.qk.spectra("digits")
    again = pickle.loads(pickle.dumps(spectra))
    assert np.array_equal(again.ov.singular_values, spectra.ov.singular_values) and repr(again) == repr(spectra)
    assert again._repr_svg_() == spectra._repr_svg_()
    with pytest.raises(qkv.Error, match="pickle"):
        again.save(tmp_path / "x.csv")


RESIDENT = """
import gc, os, sys
def resident():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")
"""


def test_loading_again_and_again_keeps_no_memory(tmp_path):
    from big_models import write_vit

    write_vit(tmp_path, width=512, depth=6)  # 76 MB
    code = RESIDENT + """
import qkv
def load():
    model = qkv.load(sys.argv[1])
    model.info, model.abilities, repr(model)
load(); load()
before = resident()
for _ in range(10):
    load()
print(resident() - before)
"""
    assert int(child(code, tmp_path)) < 40 << 20


def test_calling_again_and_again_keeps_no_memory():
    code = RESIDENT + """
import numpy as np
import qkv
digits, bert = qkv.load("digits"), qkv.load(sys.argv[1])
images = [np.full((28, 28), i, dtype=np.uint8) for i in range(64)]
def work(times):
    for _ in range(times):
        digits.embed(images)
        digits.attend(images[0], layers="all", heads="all", query="all")
        for index in range(20):
            bert.encode([f"text {index} " * (index % 9 + 1)] * 3)
        try:
            digits.classify(b"no image")
        except qkv.Error:
            pass
work(5)
before = resident()
work(40)
print(resident() - before)
"""
    assert int(child(code, GOLDEN / "tasks/bert")) < 8 << 20


def test_a_loaded_model_takes_little_more_than_its_weights(tmp_path):
    from big_models import write_vit

    write_vit(tmp_path, width=768, depth=12)
    code = RESIDENT + """
import qkv, numpy
before = resident()
model = qkv.load(sys.argv[1])
print(resident() - before, 4 * model.info["parameters"])
"""
    taken, weights = map(int, child(code, tmp_path).split())
    assert taken < 1.1 * weights + (16 << 20)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_of_fork_computes_too():
    code = """
import os, sys, threading
import numpy as np
import qkv
model = qkv.load("digits")
image = np.zeros((28, 28), dtype=np.uint8)
wanted = model.embed([image] * 40)
stop = threading.Event()
busy = threading.Thread(target=lambda: [model.embed([image] * 40) for _ in iter(stop.is_set, True)])
busy.start()
for _ in range(5):
    pid = os.fork()
    if pid == 0:
        os._exit(0 if np.array_equal(model.embed([image] * 40), wanted) else 3)
    assert os.waitpid(pid, 0)[1] == 0
stop.set()
busy.join()
print(np.array_equal(model.embed([image] * 40), wanted))
"""
    assert child(code) == "True\n"


def test_leaving_while_a_thread_computes():
    code = """
import sys, threading, time
import numpy as np
import qkv
model = qkv.load("digits")
begun = threading.Event()
def work():
    begun.set()
    while True:
        model.embed([np.zeros((28, 28), dtype=np.uint8)] * 200)
threading.Thread(target=work, daemon=True).start()
begun.wait()
time.sleep(0.2)
print("leaving")
sys.exit(7)
"""
    done = run_python(code)
    assert (done.returncode, done.stdout) == (7, "leaving\n"), done.stderr


def test_faulthandler_and_the_engine_leave_each_other_alone():
    for order in ("import faulthandler; faulthandler.enable(); import qkv", "import qkv, faulthandler; faulthandler.enable()"):
        code = order + "; import numpy; print(qkv.load('digits').classify(numpy.zeros((28, 28), dtype='uint8'))[0].label)"
        assert len(child(code)) == 2
