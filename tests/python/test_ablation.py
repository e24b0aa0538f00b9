"""qkv.ablate and qkv.Comparison: the runs and results of `qkv ablate`."""

import json
import math

import pytest

import qkv

SMALL = dict(length=6, vocabulary=8, width=16, depth=1, heads=2, batch=12, steps=10, warmup_epochs=0, threads=1)
TWO = ["task:copy", "task:reverse"]


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    out = tmp_path_factory.mktemp("ablate") / "out"
    return qkv.ablate(TWO, out=out, arms=["separate", "shared"], seeds=2, **SMALL)


def test_it_compares(compared):
    assert compared.arms == ["separate", "shared"] and compared.data == ["copy", "reverse"]
    assert len(compared.runs) == 8 and {run["seed"] for run in compared.runs} == {0, 1}
    first, second = compared.rows("reverse")
    assert (first["arm"], first["seeds"]) == ("separate", 2) and math.isnan(first["difference"][0])
    tops = [run["top1"] for run in compared.runs if run["data"] == "reverse" and run["arm"] == "shared"]
    assert second["accuracy"][0] == pytest.approx(sum(tops) / 2) and second["accuracy"][1] >= 0
    assert second["parameters"] < first["parameters"]


def test_it_shows_itself(compared):
    assert "8 of 8 runs" in repr(compared)
    assert "separate" in str(compared) and "copy" in str(compared)
    page = compared._repr_html_()
    assert page.count("<table") == 2 and page.count("data:image/svg+xml") == 4


def test_results_are_read_again(compared):
    for path in (compared.path, compared.path + "/results.json"):
        again = qkv.Comparison(path)
        assert again.to_dict() == compared.to_dict() and again._repr_html_() == compared._repr_html_()
    with open(compared.path + "/results.json", encoding="utf-8") as file:
        assert compared.to_dict() == json.load(file)


def test_the_same_call_adds_to_it(compared):
    steps = []
    more = qkv.ablate(
        TWO[0], out=compared.path, arms=["separate", "shared", "merged"], seeds=2, on_step=steps.append, **SMALL
    )
    assert {run["arm"] for run in more.runs} == {"separate", "shared", "merged"}
    assert len(steps) == 2 * SMALL["steps"]  # of the third arm alone


@pytest.mark.parametrize("name", ["steps", "epochs", "patience"])
def test_runs_of_another_length_are_not_mixed(compared, name):
    before = qkv.Comparison(compared.path).to_dict()
    with pytest.raises(qkv.Error, match=f"must be the one that was begun: {name} was .*, now 90"):
        qkv.ablate(TWO, out=compared.path, arms=["separate", "shared"], seeds=3, **{**SMALL, name: 90})
    assert qkv.Comparison(compared.path).to_dict() == before


def test_an_exception_stops_it_and_the_same_call_goes_on(tmp_path):
    def stop(step):
        if len(steps) == 15:
            raise LookupError
        steps.append(step)

    steps = []
    arguments = dict(SMALL, arms=["separate"], seeds=2)
    with pytest.raises(LookupError) as caught:
        qkv.ablate("task:copy", out=tmp_path / "halves", on_step=stop, **arguments)
    assert "the same call goes on" in caught.value.__notes__[0]
    halves = qkv.ablate("task:copy", out=tmp_path / "halves", **arguments)
    whole = qkv.ablate("task:copy", out=tmp_path / "whole", **arguments)
    assert halves.runs == whole.runs


@pytest.mark.parametrize("name, unit", [("cifar10", "images"), ("tasks", "sequences"), ("pairs", "pairs")])
def test_stored_results_are_there(name, unit):
    stored = qkv.Comparison(name)
    assert stored.to_dict()["unit"] == unit and stored.rows()[0]["seeds"] >= 3
    assert stored.facts["Training"] and stored._repr_html_().startswith("<h4>")


@pytest.mark.parametrize(
    "error, text, arguments",
    [
        (TypeError, "ablate: unknown setting 'seed_'; did you mean 'seed'", dict(seed_=1)),
        (qkv.Error, "'seed' is not for all runs alike", dict(seed=1)),
        (qkv.Error, "equal: expected one of flops, parameters, steps", dict(equal="time")),
        (qkv.Error, "vary cross-attention is for pairs", dict(vary="cross-attention")),
        (qkv.Error, "at least 1", dict(seeds=0)),
        (qkv.Error, "nothing", dict(arms=["nothing"])),
    ],
)
def test_wrong_arguments_are_named(error, text, arguments, tmp_path):
    with pytest.raises(error, match=text):
        qkv.ablate("task:copy", out=tmp_path / "out", **{**SMALL, **arguments})
    assert not (tmp_path / "out").exists()


def test_what_is_no_comparison_is_named(tmp_path, compared):
    with pytest.raises(qkv.Error, match="expected a folder of qkv.ablate.*cifar10"):
        qkv.Comparison(tmp_path)
    with pytest.raises(qkv.Error, match="no data set is called 'sort'; there are copy"):
        compared.rows("sort")
    with pytest.raises(qkv.Error, match="another comparison"):
        qkv.ablate("task:copy", out=compared.path, equal="flops", **SMALL)
