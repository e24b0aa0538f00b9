"""qkv.train: what it learns and leaves, its settings, how it stops and goes on."""

import hashlib
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support import ROOT, environment

import qkv

SAME = dict(threads=1, tensorboard=False)
SMALL = dict(SAME, preset="vit-digits", image_size=8, patch_size=4, width=16, depth=2, heads=2, pad=1, batch=12, lr=1e-2)
TASK = dict(SAME, steps=120, batch=16, eval_steps=40, log_steps=10)


def draw(count, seed):
    """Images that are bright on one side, and which."""
    rng = np.random.default_rng(seed)
    right = rng.integers(0, 2, count)
    images = rng.integers(0, 60, (count, 8, 8)).astype(np.uint8)
    for image, side in zip(images, right):
        image[:, 4 * side : 4 * side + 4] += 180
    return images, np.array(["left", "right"])[right]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("train") / "run"
    return qkv.train(draw(48, 0), validation=draw(24, 1), out=out, epochs=10, log_steps=2, **SMALL)


def weights(run):
    return hashlib.sha256((Path(run.path) / "model.safetensors").read_bytes()).hexdigest()


def test_it_learns_and_leaves_a_model(run):
    assert run.best["accuracy"] > 0.9 and f"{100 * run.best['accuracy']:.2f} %" in repr(run)
    images, sides = draw(20, 2)
    answers = run.model().classify(list(images), top=1)
    assert np.mean([answer[0].label == side for answer, side in zip(answers, sides)]) > 0.9
    assert run.model(last=True).labels == ["left", "right"]


def test_its_history_is_of_arrays(run):
    assert list(run.history["step"]) == list(range(2, 41, 2))
    assert run.history["loss"].shape == run.history["learning_rate"].shape == (20,)
    assert list(run.evaluations["epoch"]) == list(range(1, 11))
    assert run.evaluations["accuracy"].max() == run.best["accuracy"]
    assert run.settings["image_size"] == "8" and run.settings["lr"] == "0.01"


@pytest.mark.parametrize("steps, lines", [(1, 1), (15, 15), (120, 60)])
def test_a_short_run_has_a_history(steps, lines, tmp_path):
    run = qkv.train("task:copy", out=tmp_path / "run", batch=4, **dict(SHORT, steps=steps))
    assert len(run.history["loss"]) == lines and run.history["step"][-1] == steps


def test_before_the_first_line_a_history_is_empty(tmp_path):
    run = qkv.train("task:copy", out=tmp_path / "run", batch=4, log_steps=50, **SHORT)
    assert [run.history[name].shape for name in ("step", "loss", "accuracy", "learning_rate")] == [(0,)] * 4
    (tmp_path / "run/log.jsonl").write_text("")
    assert run.evaluations["loss"].shape == (0,) and run.best is None and "no evaluation yet" in repr(run)


def test_it_shows_itself(run):
    assert run.curves.startswith("<svg") and "validation" in run.curves
    page = run._repr_html_()
    assert page.count("<img") == 1 and "data:image/svg+xml;base64," in page


def test_a_folder_of_a_run_is_opened(run):
    again = qkv.TrainingRun(run.path)
    assert again.best == run.best and repr(again) == repr(run)
    with pytest.raises(qkv.Error, match="config.yaml"):
        qkv.TrainingRun(os.path.dirname(run.path))
    with pytest.raises(qkv.Error, match="there is no nope/config.yaml: expected a folder of qkv.train"):
        qkv.TrainingRun("nope")
    with pytest.raises(TypeError, match="TrainingRun: expected a path"):
        qkv.TrainingRun(run)


def test_files_folders_and_arrays_give_the_same_weights(run, tmp_path):
    for split, (images, sides) in {"train": draw(48, 0), "val": draw(24, 1)}.items():
        for i, (image, side) in enumerate(zip(images, sides)):
            (tmp_path / split / side).mkdir(parents=True, exist_ok=True)
            Image.fromarray(image).save(tmp_path / split / side / f"{i:03}.png")
    files = {split: sorted((tmp_path / split).glob("*/*.png")) for split in ("train", "val")}
    labelled = {split: (paths, [path.parent.name for path in paths]) for split, paths in files.items()}
    options = dict(SMALL, epochs=2)
    of_folder = qkv.train(tmp_path, out=tmp_path / "of_folder", **options)
    of_files = qkv.train(labelled["train"], validation=labelled["val"], out=tmp_path / "of_files", **options)
    arrays = {
        split: (np.stack([np.asarray(Image.open(path)) for path in paths]), sides)
        for split, (paths, sides) in labelled.items()
    }
    of_arrays = qkv.train(arrays["train"], validation=arrays["val"], out=tmp_path / "of_arrays", **options)
    assert weights(of_folder) == weights(of_files) == weights(of_arrays)
    columns = ((column for column in labelled[split]) for split in ("train", "val"))
    data, validation = (tuple(iter(column) for column in of) for of in columns)
    of_columns = qkv.train(data, validation=validation, out=tmp_path / "of_columns", **options)
    assert weights(of_columns) == weights(of_files)


def test_listed_images_that_cannot_be_read_are_warned_of(tmp_path):
    images, sides = draw(24, 0)
    for i, image in enumerate(images):
        Image.fromarray(image).save(tmp_path / f"{i:02}.png")
    (tmp_path / "03.png").write_bytes(b"broken")
    with pytest.warns(qkv.ModelWarning, match="1 of .* images of train could not be read and are left out"):
        data = sorted(tmp_path.glob("*.png")), sides
        qkv.train(data, validation=draw(6, 1), out=tmp_path / "run", steps=1, **SMALL)


def test_it_continues_from_a_model(tmp_path):
    images, sides = draw(24, 3)
    wide = np.kron(images, np.ones((1, 4, 4), dtype=np.uint8))[:, 2:30, 2:30]
    run = qkv.train((wide, sides), model="digits-shared", out=tmp_path / "run", epochs=1, batch=8, threads=1)
    assert run.settings["preset"] == "fine-tune" and run.model().info["attention"] == "shared"


def test_it_starts_from_what_a_model_was_loaded_from(tmp_path, monkeypatch):
    images, labels = np.zeros((4, 28, 28), np.uint8), [0, 1, 0, 1]
    monkeypatch.chdir(ROOT / "models")
    model, small = qkv.load("./digits-shared"), qkv.load("./digits-shared", size=56)
    monkeypatch.chdir(tmp_path)
    qkv.train((images, labels), model=model, out="run", steps=1, batch=2, threads=1, progress=False)
    with pytest.raises(qkv.Error, match="without size"):
        qkv.train((images, labels), model=small, out="other", progress=False)
    with pytest.raises(TypeError, match="train: model: expected a path"):
        qkv.train((images, labels), model=3, out="other", progress=False)


def test_it_is_the_program(tmp_path):
    run = qkv.train("task:copy", out=tmp_path / "python", **TASK)
    arguments = [f"--{name.replace('_', '-')}={value}" for name, value in TASK.items() if name != "tensorboard"]
    done = subprocess.run(
        [sys.executable, "-m", "qkv", "train", "task:copy", "-o", tmp_path / "program", *arguments],
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert weights(run) == weights(qkv.TrainingRun(tmp_path / "program"))


SHORT = dict(SAME, steps=20, width=16, depth=1, heads=2)


@pytest.mark.parametrize("data, best", [("task:copy", 10), ("text.txt", 20), ("pairs.tsv", 20)])
def test_the_best_is_by_accuracy_on_tasks_and_by_loss_on_texts(data, best, tmp_path, monkeypatch):
    """Whatever the preset."""
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("the cat sat on the mat. " * 100)
    Path("pairs.tsv").write_text("".join(f"eins {i} zwei\tone {i} two\n" for i in range(60)))
    more = dict(vocabulary=300, batch=256) if data == "pairs.tsv" else dict(preset="seq-text", length=16, batch=4)
    told = []
    run = qkv.train(data, out="run", eval_steps=10, on_evaluation=told.append, **more, **SHORT)
    assert run.best["step"] == [one.step for one in told if one.best][-1]
    lines = [json.loads(line) for line in Path("run/log.jsonl").read_text().splitlines()]
    for line in lines:
        if line["event"] == "evaluation":
            line.update(top1=1 / line["step"], loss=1 / line["step"])  # the first is more often right, the last surer
    Path("run/log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert run.best["step"] == best


def test_a_text_is_learned_and_continued(tmp_path):
    (tmp_path / "text.txt").write_text("the cat sat on the mat. " * 200)
    run = qkv.train(tmp_path / "text.txt", out=tmp_path / "run", batch=8, **SHORT)
    assert run.best["perplexity"] < 256
    model = run.model()
    assert model.abilities == ["generate", "forward", "run"]
    text = model.generate("the ", max_new_tokens=30, seed=3)
    assert text.tokens == 30 and not text.ended
    assert "".join(model.generate("the ", max_new_tokens=30, seed=3, stream=True)) == text
    command = [sys.executable, "-m", "qkv", "generate", "-m", run.path, "--prompt", "the ", "--tokens", "30", "--seed", "3"]
    done = subprocess.run(command, env=environment(), capture_output=True)
    assert done.stdout.decode(errors="replace") == "the " + text, done.stderr
    with pytest.raises(qkv.Error, match="writes bytes, drawn one by one"):
        model.generate("the ", num_beams=2)
    task = qkv.train("task:copy", out=tmp_path / "task", **SHORT).model()
    assert task.abilities == ["forward", "run"]
    with pytest.raises(qkv.Error, match="generate: .*task"):
        task.generate("a")


def test_pairs_are_learned(tmp_path):
    (tmp_path / "pairs.tsv").write_text("".join(f"eins {i} zwei\tone {i} two\n" for i in range(60)))
    run = qkv.train(tmp_path / "pairs.tsv", out=tmp_path / "run", vocabulary=300, batch=256, **SHORT)
    assert isinstance(run.model().translate("eins 3 zwei"), str) and run.best["bleu"] >= 0


def test_steps_and_evaluations_are_told(tmp_path, caplog):
    steps, evaluations = [], []
    with caplog.at_level(logging.INFO, logger="qkv"):
        out = tmp_path / "run"
        run = qkv.train("task:copy", out=out, on_step=steps.append, on_evaluation=evaluations.append, **TASK)
    assert [step.step for step in steps] == list(range(1, 121)) and {step.steps for step in steps} == {120}
    assert [one.accuracy for one in evaluations] == list(run.evaluations["accuracy"])
    assert any("120 steps of 16" in line for line in caplog.messages)


def test_an_exception_of_a_callback_stops_it_and_it_goes_on_to_the_same_bits(tmp_path):
    whole = qkv.train("task:copy", out=tmp_path / "whole", **TASK)

    def stop(step):
        if step.step == 50:
            raise LookupError("enough")

    with pytest.raises(LookupError) as caught:
        qkv.train("task:copy", out=tmp_path / "halves", on_step=stop, **TASK)
    assert "resume=True" in caught.value.__notes__[0]
    steps = []
    halves = qkv.train("task:copy", out=tmp_path / "halves", resume=True, on_step=steps.append, **TASK)
    assert steps[0].step == 51 and weights(halves) == weights(whole)


CHILD = """
import logging
import signal
import sys
import numpy as np
import qkv

def begin(what):
    print("begin", flush=True)

def interrupt(number, frame):
    print("signal", flush=True)
    raise KeyboardInterrupt

signal.signal(signal.SIGINT, interrupt)
try:
    {train}
except KeyboardInterrupt as error:
    print("ended", *getattr(error, "__notes__", []), flush=True)
assert qkv.load("digits").classify(np.zeros((28, 28), np.uint8))
print("works", flush=True)
"""


def interrupted(train, out, signals):
    """What a process prints that gets so many SIGINT, each when the one before has been handled."""
    code = CHILD.format(train=train)
    child = subprocess.Popen(
        [sys.executable, "-c", code, out], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    )
    watchdog = threading.Timer(100, child.kill)  # ends the reading of a line that does not come
    watchdog.start()
    try:
        assert child.stdout.readline() == "begin\n", child.communicate()[1]
        for _ in range(signals):
            child.send_signal(signal.SIGINT)
            assert child.stdout.readline() == "signal\n", child.communicate()[1]
            time.sleep(0.5)  # one that comes while the last is raised would be the same exception
        printed, err = child.communicate(timeout=100)
    finally:
        watchdog.cancel()
        child.kill()
    assert child.returncode == 0 and printed.endswith("works\n"), printed + err
    return printed


def test_ctrl_c_saves_and_the_run_goes_on(tmp_path):
    train = """first = lambda step: step.step == 1 and begin(step)
    qkv.train("task:copy", out=sys.argv[1], on_step=first, steps=1_000_000, threads=1)"""
    printed = interrupted(train, tmp_path / "run", 1)
    assert "ended" in printed and "resume=True" in printed
    steps = []

    def stop(step):
        steps.append(step.step)
        raise LookupError

    with pytest.raises(LookupError):
        qkv.train("task:copy", out=tmp_path / "run", on_step=stop, resume=True, steps=1_000_000, threads=1)
    assert steps[0] > 1


def test_a_second_ctrl_c_ends_a_long_step(tmp_path):
    data = "(np.zeros((64, 224, 224, 3), np.uint8), [0, 1] * 32)"
    # The engine says what it is to train when the first step begins.
    train = f"""logging.getLogger("qkv").addFilter(lambda line: "parameters:" in line.getMessage() and begin(line))
    logging.getLogger("qkv").setLevel(logging.INFO)
    qkv.train({data}, out=sys.argv[1], preset="vit-small", batch=32, accumulate=1000)"""
    printed = interrupted(train, tmp_path / "run", 2)
    assert "ended" in printed and "resume=True" not in printed


PROCESSES = """
import sys
import qkv
run = qkv.train("task:copy", out=sys.argv[1], steps=40, batch=16, eval_steps=20, threads=1, tensorboard=False)
again = qkv.train("task:copy", out=sys.argv[1], steps=60, resume=True)
print("best", run.best["step"], again.best["step"], flush=True)
"""


def test_several_processes_train_one_model(tmp_path):
    mpirun, module = shutil.which("mpirun"), Path(qkv._core.__file__).parent / "qkv_mpi.so"
    if not mpirun or not module.exists():
        pytest.skip("needs Open MPI, and a package that was built with it")
    started = [mpirun, "--allow-run-as-root", "--oversubscribe", "-n", "2", sys.executable, "-c", PROCESSES]
    done = subprocess.run([*started, tmp_path / "two"], env=environment(), capture_output=True, text=True, timeout=100)
    assert done.returncode == 0 and done.stdout.count("best") == 2, done.stdout + done.stderr
    one = qkv.train("task:copy", out=tmp_path / "one", **dict(TASK, steps=40, eval_steps=20))
    two = qkv.TrainingRun(tmp_path / "two")
    assert two.evaluations["loss"][:2] == pytest.approx(one.evaluations["loss"], rel=1e-3)


def test_several_processes_without_mpi_are_told_what_is_missing(tmp_path):
    if (Path(qkv._core.__file__).parent / "qkv_mpi.so").exists():
        pytest.skip("this package was built with Open MPI")
    started = {**environment(), "OMPI_COMM_WORLD_SIZE": "2"}
    done = subprocess.run([sys.executable, "-c", PROCESSES, tmp_path], env=started, capture_output=True, text=True)
    assert done.returncode != 0 and "started as one of 2 processes, and this qkv is without MPI" in done.stderr


def test_other_threads_have_their_turns(tmp_path, digits):
    begun, done = threading.Event(), threading.Event()

    def step(_):
        begun.set()
        if done.is_set():
            raise StopIteration

    def train():
        with pytest.raises(StopIteration):
            qkv.train("task:copy", out=tmp_path / "run", on_step=step, **dict(TASK, steps=1_000_000))

    thread = threading.Thread(target=train, daemon=True)
    thread.start()
    assert begun.wait(60)
    for _ in range(10):
        digits.classify(np.zeros((28, 28), np.uint8))
    assert thread.is_alive()
    done.set()
    thread.join(60)
    assert not thread.is_alive()


@pytest.mark.parametrize(
    "error, text, arguments",
    [
        (TypeError, "unknown setting 'epoch'; did you mean 'epochs'", dict(epoch=3)),
        (TypeError, "training_settings", dict(zzzzzz=3)),
        (qkv.Error, "epochs: expected a whole number", dict(epochs="many")),
        (qkv.Error, "attention: expected one of separate, shared", dict(attention="none")),
        (qkv.Error, "minutes is instead of epochs", dict(epochs=1, minutes=2)),
        (qkv.Error, "heads", dict(width=16, heads=3)),
        (TypeError, "train: resume: expected True or False, got 'no'", dict(resume="no")),
    ],
)
def test_wrong_settings_are_named(error, text, arguments, tmp_path):
    with pytest.raises(error, match=text):
        qkv.train(draw(12, 0), out=tmp_path / "run", **arguments)
    assert not (tmp_path / "run").exists()


class NAType:
    """As that of pandas, whose comparisons are neither true nor false."""

    def __ne__(self, other):
        return self

    def __bool__(self):
        raise TypeError("boolean value of NA is ambiguous")


@pytest.mark.parametrize(
    "error, text, data",
    [
        (qkv.Error, "no /nowhere", "/nowhere"),
        (qkv.Error, "3 images and 1 labels", (draw(3, 0)[0], ["left"])),
        (qkv.Error, "labels 0 and '0': two classes of one name", (draw(3, 0)[0], [0, "0", 1])),
        (qkv.Error, "label 1 is missing", (draw(3, 0)[0], [0, None, 1])),
        (qkv.Error, "label 2 is missing", (draw(3, 0)[0], np.array([0, 1, np.nan]))),
        (qkv.Error, "label 0 is missing", (draw(3, 0)[0], [NAType(), "a", "b"])),
        (TypeError, "label 0: expected a number .* one-hot rows, labels.argmax", (draw(2, 0)[0], np.eye(2))),
        (TypeError, "label 1: expected a number or name of a class, got b'a'", (draw(2, 0)[0], [1, b"a"])),
        (qkv.Error, "data: image 1: there is no file /nowhere/b.png", ([__file__, "/nowhere/b.png"], [0, 1])),
        (TypeError, "a label for each image", ("/photos", ["a"])),
        (TypeError, "data: images: a dict has no order", ({"a.png": 1}, ["a"])),
        (TypeError, "data: labels: a int", (["a.png"], 1)),
        (TypeError, r"uint8 \[images, height, width\]", (np.zeros((3, 8, 8)), [0, 1, 1])),
        (TypeError, "expected a path or", np.zeros((3, 8, 8))),
        (qkv.Error, "fewer than two", (draw(3, 0)[0], ["left"] * 3)),
    ],
)
def test_wrong_data_is_named(error, text, data, tmp_path):
    with pytest.raises(error, match=text):
        qkv.train(data, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_settings_may_be_of_numpy(tmp_path):
    run = qkv.train(draw(12, 0), out=tmp_path / "run", steps=np.int64(1), qkv_bias=np.bool_(False), **SMALL)
    assert run.settings["steps"] == "1" and run.settings["qkv_bias"] == "false"


def test_a_run_is_not_overwritten(run):
    before = weights(run)
    with pytest.raises(qkv.Error, match="holds a training run: resume=True continues it"):
        qkv.train(draw(48, 0), out=run.path, epochs=1, **SMALL)
    with pytest.raises(qkv.Error, match="width was 16, now 32"):
        qkv.train(draw(48, 0), validation=draw(24, 1), out=run.path, resume=True, **dict(SMALL, width=32))
    assert weights(run) == before


def test_settings_are_known():
    known = qkv.training_settings()
    assert known["attention"].choices[:2] == ("separate", "shared") and known["val_fraction"].default == "0.1"
