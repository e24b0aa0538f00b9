"""Models for the tests: folders of tests/golden, opened once a session."""

import json
import warnings

import pytest
import support

import qkv


@pytest.fixture(scope="session")
def open_model():
    """A function that opens a folder of tests/golden ("tasks/bert"), or a model that comes with qkv, once."""
    models = {}

    def open_once(name):
        if name not in models:
            folder = support.GOLDEN / name
            models[name] = qkv.load(folder if folder.is_dir() else name)
        return models[name]

    return open_once


@pytest.fixture(scope="session")
def digits():
    """The built-in classifier."""
    return qkv.load("digits")


@pytest.fixture(scope="session")
def digit_photos():
    """Photos of hand-drawn digits."""
    return sorted(str(photo) for photo in (support.ROOT / "examples/digits").glob("*.png"))


@pytest.fixture
def prompted(tmp_path_factory):
    """A text embedding model with prompts for queries ("the ") and documents ("a ")."""
    folder = tmp_path_factory.mktemp("prompted")
    for file in (support.GOLDEN / "tasks/bert").iterdir():
        (folder / file.name).symlink_to(file)
    settings = {"prompts": {"query": "the ", "document": "a "}, "default_prompt_name": None}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(settings))
    return qkv.load(folder)


@pytest.fixture(autouse=True)
def unexpected_warnings_are_errors():
    """A remark of the engine that a test does not expect fails it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", qkv.ModelWarning)
        yield


LATENCIES = {}


@pytest.fixture
def latencies():
    """Seconds from a signal to the end of the call it ended, by call, told at the end of the run."""
    return LATENCIES


def pytest_terminal_summary(terminalreporter):
    if LATENCIES:
        told = ", ".join(f"{call} {1000 * seconds:.0f}" for call, seconds in LATENCIES.items())
        terminalreporter.write_line(f"Ctrl-C to KeyboardInterrupt, ms: {told}")
