"""How texts are written: where they end, and chats."""

import json
import os

import numpy as np
import pytest
from support import GOLDEN, environment, expected_json, run_python

import qkv


@pytest.fixture
def gpt2(open_model):
    return open_model("tasks/gpt2")


@pytest.fixture
def prompt():
    return expected_json("tasks/gpt2")["texts"][1]


def test_a_text_ends_before_a_stop(gpt2, prompt):
    whole = gpt2.generate(prompt, max_new_tokens=12)
    stop = whole[5:8]
    text = gpt2.generate(prompt, max_new_tokens=12, stop=stop)
    assert text == whole[: whole.index(stop)] and text.ended and text.tokens <= whole.tokens
    assert "".join(gpt2.generate(prompt, max_new_tokens=12, stop=["never", stop], stream=True)) == text
    assert gpt2.generate(prompt, max_new_tokens=12, num_beams=2, stop=["never"]) == gpt2.generate(
        prompt, max_new_tokens=12, num_beams=2
    )
    for wrong, error in (("", qkv.Error), ([""], qkv.Error), (5, TypeError), ([5], TypeError)):
        with pytest.raises(error, match="stop"):
            gpt2.generate(prompt, stop=wrong)


def test_max_length_counts_the_prompt(gpt2, prompt, open_model):
    tokens = len(gpt2.tokenize([prompt])[0])
    assert gpt2.generate(prompt, max_length=tokens + 4) == gpt2.generate(prompt, max_new_tokens=4)
    assert gpt2.generate(prompt, max_length=1, max_new_tokens=4) == gpt2.generate(prompt, max_new_tokens=4)
    with pytest.raises(qkv.Error, match="max_new_tokens counts the new ones alone"):
        gpt2.generate(prompt, max_length=tokens)
    marian, text = open_model("tasks/marian"), expected_json("tasks/marian")["texts"][0]
    assert marian.translate(text, max_length=6) == marian.translate(text, max_new_tokens=5)


def test_ids_are_decoded(gpt2, prompt, open_model):
    ids = gpt2.tokenize(prompt)[0]
    assert gpt2.decode(ids) == prompt and gpt2.decode(np.array(ids)) == prompt
    assert gpt2.decode([]) == "" and gpt2.decode(list(np.array(ids))) == prompt
    bert = open_model("tasks/bert")
    (ids,) = bert.tokenize("a cat")
    assert bert.decode(ids) in bert.decode(ids, skip_special_tokens=False) != bert.decode(ids)
    assert open_model("towers/clip").decode(open_model("towers/clip").tokenize("a cat")[0]).strip() == "a cat"
    for wrong in ("text", 5, ["a"], [[1]], np.ones((2, 3), int), np.array(1), [0.5], [2**40], [10**6]):
        with pytest.raises((TypeError, qkv.Error)):
            gpt2.decode(wrong)


def test_models_that_do_not_write_do_not_chat(digits, tmp_path, monkeypatch):
    (tmp_path / "config_sentence_transformers.json").write_text('{"prompts": {"query": "another model\'s"}}')
    monkeypatch.chdir(tmp_path)
    assert digits.prompts == {}
    for ask in (digits.chat, digits.chat_prompt):
        with pytest.raises(qkv.Error, match="chat: .*expected a decoder"):
            ask([{"role": "user", "content": "Hello"}])


def test_a_text_model_without_a_template_does_not_chat(gpt2):
    with pytest.raises(qkv.Error, match="no chat template; generate"):
        gpt2.chat([{"role": "user", "content": "Hello"}])
    for wrong in ("Hello", ["Hello"], [{"content": "x"}], {"role": "user"}, 5, [{"role": 3}]):
        with pytest.raises(TypeError, match="role"):
            gpt2.chat(wrong)
    with pytest.raises(qkv.Error, match="the assistant's own"):
        gpt2.chat([{"role": "assistant", "content": "Hello"}])


TEMPLATE = """{{ bos_token }}{% if messages[0].role == 'system' %}{{ messages[0].content }}|{% endif %}
{%- for message in messages %}
    {%- if message.role not in ['user', 'assistant', 'system'] %}{{ raise_exception('no role ' + message.role) }}{% endif %}
    {%- if message.role == 'assistant' %}{% generation %}{{ message.content }}{% endgeneration %}{{ eos_token }}
    {%- elif message.role == 'user' %}[{{ message.content | trim }}]{% if loop.index > 9 %}{% break %}{% endif %}
    {%- endif %}
{%- endfor %}
{%- if tools %}{{ tools | tojson }}{% endif %}
{%- if add_generation_prompt %} -> {% endif %}"""

CHATS = [
    [{"role": "user", "content": " Hello "}],
    [{"role": "system", "content": "Be"}, {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
     {"role": "user", "content": "c"}],
]  # fmt: skip


@pytest.fixture(params=["file", "config", "list"])
def chatting(request, tmp_path):
    for file in (GOLDEN / "tasks/gpt2").iterdir():
        if file.name != "tokenizer_config.json":
            os.symlink(file, tmp_path / file.name)
    stored = GOLDEN / "tasks/gpt2/tokenizer_config.json"
    config = json.loads(stored.read_text()) if stored.exists() else {}
    config |= {"bos_token": "<|endoftext|>", "eos_token": {"__type": "AddedToken", "content": "<mask>"}}
    if request.param == "file":
        (tmp_path / "chat_template.jinja").write_text(TEMPLATE)
    else:
        several = [{"name": "default", "template": TEMPLATE}, {"name": "tool_use", "template": "{{ tools | tojson }}"}]
        config["chat_template"] = TEMPLATE if request.param == "config" else several
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    return tmp_path


def test_a_chat_is_the_continuation_of_its_template(chatting):
    pytest.importorskip("jinja2")
    model = qkv.load(chatting)
    assert model.chat_prompt(CHATS[0]) == "<|endoftext|>[Hello] -> "
    assert model.chat_prompt(CHATS[1]) == "<|endoftext|>Be|[a]b<mask>[c] -> "
    tools = [{"type": "function", "function": {"name": "é"}}]
    assert json.dumps(tools, ensure_ascii=False) in model.chat_prompt(CHATS[0], tools=tools)
    answer = model.chat(CHATS[0], max_new_tokens=5)
    assert isinstance(answer, qkv.Text) and answer == model.generate("<|endoftext|>[Hello] -> ", max_new_tokens=5)
    assert "".join(model.chat(CHATS[0], max_new_tokens=5, stream=True)) == answer
    assert model.chat(CHATS[0], max_length=answer.source_tokens + 5) == answer
    with pytest.raises(qkv.Error, match="no role robot"):
        model.chat([{"role": "robot", "content": "x"}])
    asked = qkv.pipeline("text-generation", model)(CHATS[0], max_new_tokens=5)
    assert asked == [{"generated_text": [*CHATS[0], {"role": "assistant", "content": str(answer)}]}]


def test_a_chat_has_the_special_tokens_of_its_template_alone(open_model, monkeypatch):
    pytest.importorskip("jinja2")
    llama = qkv.load(GOLDEN / "tasks/llama")
    prompt = expected_json("tasks/llama")["texts"][0]
    begun = llama.generate(prompt, max_new_tokens=1).source_tokens
    monkeypatch.setattr(llama, "_chat_files", llama._chat_files._replace(templates={"default": "{{ messages[0].content }}"}))
    assert llama.chat([{"role": "user", "content": prompt}], max_new_tokens=1).source_tokens == begun - 1


def test_chats_are_those_of_transformers(chatting):
    pytest.importorskip("jinja2")
    from live import transformers

    theirs = transformers.AutoTokenizer.from_pretrained(chatting)
    ours = qkv.load(chatting)
    for messages in CHATS:
        for tools in (None, [{"type": "function", "function": {"name": "f", "parameters": {}}}]):
            wanted = theirs.apply_chat_template(messages, tools=tools, tokenize=False, add_generation_prompt=True)
            assert ours.chat_prompt(messages, tools=tools) == wanted
    taken = qkv.from_transformers(transformers.GPT2LMHeadModel.from_pretrained(chatting), theirs)
    assert taken.chat_prompt(CHATS[0]) == ours.chat_prompt(CHATS[0]), "its folder is gone"


def test_without_jinja_a_chat_says_what_to_install(chatting):
    done = run_python("""
import sys, qkv
sys.modules["jinja2"] = None
try:
    qkv.load(sys.argv[1]).chat([{"role": "user", "content": "x"}])
except ImportError as error:
    print(error)
""", chatting, env=environment())
    assert "pip install jinja2" in done.stdout, done.stderr


def test_words_of_sentence_transformers(open_model):
    model, texts = open_model("tasks/bert"), ["a dog", "a cat"]
    unit = model.encode(texts, normalize=True)
    assert np.linalg.norm(unit, axis=1) == pytest.approx([1, 1], abs=1e-6)
    assert np.array_equal(model.encode(texts, normalize_embeddings=True, show_progress_bar=False, convert_to_numpy=True), unit)
    short = model.encode(texts, truncate_dim=3, normalize=True)
    assert short.shape == (2, 3) and np.linalg.norm(short, axis=1) == pytest.approx([1, 1], abs=1e-6)
    with pytest.raises(TypeError, match="torch.from_numpy"):
        model.encode(texts, convert_to_numpy=False)
