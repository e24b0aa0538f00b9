"""model.explore: the explorer's page with its answers inside. What it looks like in a browser: web/app/tests."""

import base64
import html.parser
import json
import struct
from pathlib import Path

import numpy as np
import pytest

import qkv


@pytest.fixture(scope="module")
def seven(digit_photos):
    return next(photo for photo in digit_photos if Path(photo).name.startswith("7"))


@pytest.fixture(scope="module")
def explored(digits, seven):
    try:
        return digits.explore(seven)
    except qkv.Error as error:
        if "Node.js" in str(error):
            pytest.skip(str(error))
        raise


class Elements(html.parser.HTMLParser):
    """Attributes of all elements, and the text of those with an id."""

    def __init__(self, text):
        super().__init__()
        self.attributes, self.texts, self._id = [], {}, None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self._id = dict(attributes).get("id")
        self.attributes.append((tag, dict(attributes)))

    def handle_data(self, data):
        if self._id:
            self.texts[self._id] = self.texts.get(self._id, "") + data


def recording(exploration):
    return json.loads(Elements(exploration.html).texts["recording"])


def decoded(packet):
    packet = base64.b64decode(packet)
    (length,) = struct.unpack_from("<I", packet)
    fields = json.loads(packet[4 : 4 + length])
    begin = (4 + length + 7) // 8 * 8
    types = {"u8": "u1", "f32": "<f4", "i32": "<i4"}
    return fields, {
        name: np.frombuffer(packet, types[a["dtype"]], int(np.prod(a["shape"])), begin + a["offset"]).reshape(a["shape"])
        for name, a in fields.get("arrays", {}).items()
    }


def test_the_page_holds_what_its_views_ask_for(explored):
    kept = recording(explored)
    assert kept["views"] == ["attention", "rollout", "relevance", "similarity", "colours", "heads"] == list(explored.views)
    calls = dict(kept["calls"])
    (image,) = {json.loads(key.split(" ", 1)[1])["image"] for key in calls if key.startswith("pass ")}
    common = f'"image":"{image}","model":"model"'
    for key in (
        "models {}",
        'image {"model":"model"}',
        f'pass {{"blocks":"all",{common}}}',
        f"rollout {{{common}}}",
        f'relevance {{"class":7,{common}}}',
        *(f'tokens {{"block":{block},{common},"what":"{what}"}}' for block in range(4) for what in ("pca", "similarity")),
        'heads {"model":"model"}',
    ):
        assert key in calls, key


def test_its_numbers_are_the_models(explored, digits, seven):
    calls = dict(recording(explored)["calls"])
    fields, arrays = next(decoded(packet) for key, packet in calls.items() if key.startswith("pass "))
    best = digits.classify(seven, top=1)[0]
    assert fields["top"][0]["label"] == best.label and fields["top"][0]["score"] == pytest.approx(best.score, abs=1e-6)
    weights = arrays["scales"][..., None] * (arrays["attention"] / 255.0) ** 2  # docs/explore_protocol.md
    exact = digits.attend(seven, layers="all", heads="all", page=True).weights
    assert weights.shape == exact.shape and np.abs(weights - exact).max() < 0.005
    models, _ = decoded(calls["models {}"])
    assert [model["title"] for model in models["models"]] == ["digits"]


def test_a_notebook_gets_a_frame_of_its_own_and_a_file_the_page(explored, tmp_path):
    explored.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == explored.html
    with pytest.raises(qkv.Error, match="nothing"):
        explored.save(tmp_path / "nothing" / "page.html")
    with pytest.raises(TypeError, match="save: expected a path"):
        explored.save(5)
    assert [one.name for one in tmp_path.iterdir()] == ["page.html"]
    ((tag, attributes),) = Elements(explored._repr_html_()).attributes
    assert tag == "iframe" and attributes["srcdoc"] == explored.html
    assert "http-equiv" in explored.html and "default-src 'none'" in explored.html
    assert "7" in repr(explored) and "attention" in repr(explored)


def test_views_are_chosen(digits, seven, explored):
    fewer = digits.explore(seven, views=["colours", "heads"])
    assert len(fewer.html) < len(explored.html) and fewer.views == ("colours", "heads")
    kept = recording(fewer)
    assert kept["hash"] == "#view=colours" and not any(key.startswith(("rollout", "relevance")) for key, _ in kept["calls"])


def test_any_image_is_explored(digits, seven):
    from PIL import Image

    photo = Image.open(seven)
    for image in (photo, np.asarray(photo.convert("RGB")), np.asarray(photo.convert("L")), Path(seven).read_bytes()):
        assert digits.explore(image, views=["attention"]).views == ("attention",)


@pytest.mark.parametrize("name", ["hf_beit", "hf_dinov2", "hf_mae", "hf_yolos", "timm_differential"])
def test_models_without_a_view_leave_it_out(name, open_model):
    model = open_model(name)
    page = model.explore(np.random.default_rng(0).integers(0, 255, (40, 50, 3)).astype(np.uint8))
    assert page.views[0] == "attention"
    assert ("relevance" in page.views) <= ("classify" in model.abilities)


def test_errors_say_what_to_do(digits, seven, open_model):
    with pytest.raises(qkv.Error, match="views: expected a list of attention"):
        digits.explore(seven, views=["knockout"])
    with pytest.raises(qkv.Error, match="views: expected a list"):
        digits.explore(seven, views="attention")
    with pytest.raises(qkv.Error, match="a single image"):
        digits.explore([seven, seven])
    with pytest.raises(qkv.Error, match="explore: .*text"):
        open_model("tasks/bert").explore(seven)
    with pytest.raises(qkv.Error, match="cannot read '/nowhere.png'"):
        digits.explore("/nowhere.png")
