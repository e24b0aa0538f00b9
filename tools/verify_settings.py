"""Compares what qkv does with settings of models' files with what transformers does: part of `make verify`.

    python tools/verify_settings.py [--qkv PROGRAM] [-v] [PATTERN...]

A tiny model of each family is saved by its library. Then each key that the library's class has, and each that the file
has, gets its own value, other valid ones, null and values of a wrong type, one at a time, in config.json and in
preprocessor_config.json. The original opens the folder and answers, and qkv does:

    equal      the same answer
    refused    qkv does not answer, and its error names the key, its value or the tensors that do not fit
    unnamed    it does not answer, and its error is about something else that follows from the value
    noted      another answer, and a note that names the key as one that qkv does not know
    original   the original itself refuses the value
    DIFFERENT  another answer without a word

Image processors that transformers has for PyTorch's tensors alone (DINOv3's) resize in another way than Pillow, as qkv
does: theirs are left out.

Exit 1 if there is one of the last kind. PATTERN are shell patterns of models' names.
"""
import argparse
import collections
import contextlib
import copy
import dataclasses
import fnmatch
import importlib.util
import inspect
import io
import json
import logging
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/golden"))

import numpy as np  # noqa: E402
import originals  # noqa: E402
import open_clip  # noqa: E402
import sentence_transformers  # noqa: E402
import timm  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from PIL import Image  # noqa: E402
from tokenizers.decoders import DecodeStream  # noqa: E402
from cases import CASES  # noqa: E402
from pack import unpacked  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

# tests/golden/generate.py has the same name.
_spec = importlib.util.spec_from_file_location("texts", ROOT / "tests/golden/text/generate.py")
texts = sys.modules["texts"] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(texts)

# Of one kind each; their golden configurations set what the defaults leave out.
IMAGES = ["hf_vit_labels", "hf_vit_model_pooler", "hf_deit", "hf_deit_teacher", "hf_beit", "hf_beit_shared",
          "hf_data2vec", "hf_dinov2", "hf_dinov2_swiglu", "hf_dinov2_registers", "hf_dinov3", "hf_dinov3_7b", "hf_mae",
          "hf_msn", "hf_ijepa", "hf_clip", "hf_clip_classifier", "hf_clip_vision", "hf_siglip", "hf_siglip_classifier",
          "hf_siglip_vision", "hf_yolos", "hf_yolos_model", "hf_eomt", "hf_eomt_dinov3"]  # fmt: skip
TEXTS = ["bert", "bert_masked", "roberta", "distilbert", "gpt2", "llama", "llama_scaled", "qwen2", "qwen3", "t5",
         "t5_gated", "t5_encoder", "marian_safetensors"]  # fmt: skip

TIMM = ["timm_vit", "timm_reg4_gap", "timm_map", "timm_eva02", "timm_dinov3", "timm_beit"]
OPEN_CLIP = ["open_clip_clip", "open_clip_siglip"]

WRITERS = ["gpt2", "llama", "t5", "marian"]
# Files of sentence-transformers with the defaults of their keys.
POOLING = {"pooling_mode": "mean", "embedding_dimension": 24, "include_prompt": True, "word_embedding_dimension": None,
           **{f"pooling_mode_{mode}": False for mode in ("cls_token", "mean_tokens", "max_tokens", "lasttoken",
                                                         "mean_sqrt_len_tokens", "weightedmean_tokens")}}  # fmt: skip
SENTENCES = {"1_Pooling/config.json": POOLING,
             "sentence_bert_config.json": {"max_seq_length": 16, "do_lower_case": False, "transformer_task": None,
                                           "tokenizer_args": {}, "model_args": {}, "unpad_inputs": False},
             "config_sentence_transformers.json": {"prompts": {"query": "query: ", "document": ""},
                                                   "default_prompt_name": None, "truncate_dim": None,
                                                   "similarity_fn_name": "cosine"}}  # fmt: skip

# Other values of words; a word that is not here gets one that nobody knows, and every number and switch its neighbours.
WORDS = {
    "hidden_act": ["relu", "gelu_new", "gelu_pytorch_tanh", "silu", "quick_gelu", "gelu", "tanh"],
    "activation": ["relu", "gelu"],
    "activation_function": ["relu", "gelu_new", "gelu", "swish"],
    "dense_act_fn": ["relu", "gelu_new"],
    "feed_forward_proj": ["relu", "gated-gelu", "gated-silu", "gelu"],
    "position_embedding_type": ["absolute", "relative_key", "relative_key_query"],
    "pooler_act": ["tanh", "gelu"],
    "problem_type": ["single_label_classification", "multi_label_classification", "regression"],
    "global_pool": ["token", "avg", "max", "avgmax", "map", ""],
    "pool_type": ["tok", "avg", "argmax", "last", "eos", "none"],
    "pos_embed": ["learn", "none", "", "sincos"],
    "pos_embed_type": ["learnable", "sin_cos_2d"],
    "act_layer": ["gelu", "relu", "silu", "quick_gelu", "gelu_tanh"],
    "mlp_layer": ["Mlp", "SwiGLU", "GluMlp"],
    "norm_layer": ["layernorm", "rmsnorm", "LayerNorm"],
    "rope_type": ["cat", "mixed", "dinov3", "default", "linear", "dynamic", "yarn", "llama3"],
    "rope_grid_indexing": ["ij", "xy"],
    "attn_type": ["eva", "rope"],
    "pooling_mode": ["mean", "cls", "max", "lasttoken", "mean_sqrt_len_tokens", "weightedmean"],
    "default_prompt_name": ["query", "document"],
    "similarity_fn_name": ["dot", "euclidean"],
    "early_stopping": [True, "never"],
    "proj_type": ["linear", "none", "mlp"],
    "block_type": ["default", "custom"],
    "dtype": ["float32", "bfloat16", "float16"],
    "summary_type": ["mean", "first"],
    "image_processor_type": ["ViTImageProcessor", "CLIPImageProcessor", "BitImageProcessor", "SiglipImageProcessor",
                             "DeiTImageProcessor", "BeitImageProcessor", "ViTImageProcessorFast"],
}  # fmt: skip
# Keys that say which class the file is of.
CHOICES = {"model_type", "architectures", "image_processor_type"}
# Keys that no class has, as authors add them, and that older releases wrote.
FOREIGN_ARGUMENTS = {"my_own_note": ["text"], "norm_eps": [0.1]}
FOREIGN = {"my_own_note": ["text"], "is_causal": [True], "window_size": [4], "rope_theta": [123.0],
           "rope_scaling": [{"rope_type": "linear", "factor": 2.0}], "sliding_window": [3], "use_bias": [False],
           "qk_norm": [True], "layer_norm_type": ["rms"], "logit_cap": [5.0], "parallel_attention": [True],
           "quantization_config": [{"quant_method": "gptq", "bits": 4}]}  # fmt: skip


def variants(key, value):
    """Values for a key whose usual value is this one: itself, null, other valid ones, a wrong type."""
    if isinstance(value, bool):
        return [value, not value, None, "yes", 3]
    if isinstance(value, int):
        return [value, value + 1, max(1, value // 2), 2 * value, 0, -1, None, str(value), value + 0.5]
    if isinstance(value, float):
        return [value, value * 2 + 0.01, value / 2, 0.0, None, "much"]
    if isinstance(value, str):
        return [value, *WORDS.get(key, []), "unheard_of", None, 3]
    if isinstance(value, list):
        return [value, [], value[:1], value[::-1], None, 5]
    if isinstance(value, dict):
        return [value, {}, None, 5]
    return [None, *WORDS.get(key, []), True, False, 1, 0.5, "word", [1], {}]


def changes(defaults, config, foreign):
    """(path of the key, value), each to be put into `config` alone."""
    for key in sorted(defaults.keys() | config.keys() | foreign.keys()):
        if key in CHOICES and key != "image_processor_type":
            continue
        value = config.get(key, defaults.get(key))
        inner = value if isinstance(value, dict) else {}
        if key.endswith("_config") and inner:
            of_class = defaults.get(key) if isinstance(defaults.get(key), dict) else {}
            for path, changed in changes(of_class, inner, foreign):
                yield (key, *path), changed
            yield from (((key,), changed) for changed in (None, 5))
            continue
        if key.startswith("rope_") and inner:
            for name, of_rope in {"factor": 2.0, **inner}.items():
                yield from (((key, name), changed) for changed in variants(name, of_rope))
        seen = []
        for changed in foreign.get(key, []) + variants(key, value):
            if not any(type(changed) is type(old) and changed == old for old in seen):
                seen.append(changed)
                yield (key,), changed


def put(config, path, value):
    changed = copy.deepcopy(config)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return changed


@contextlib.contextmanager
def silence():
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


class OriginalRefuses(Exception):
    pass


class Model:
    """A model of a library in a folder; what its original answers."""

    config_file = "config.json"

    def changes(self, config):
        return changes(self.defaults, config, FOREIGN)

    def judge(self, program, folder, answers, path, value):
        reference = folder.with_suffix(".safetensors")
        save_file(answers, reference)
        done = subprocess.run([program, "verify", "-m", folder, reference, "--tolerance", "1e-3"],
                              capture_output=True, text=True)  # fmt: skip
        return judge(done, path, value)

    def write(self, folder, config):
        (folder / self.config_file).write_text(json.dumps(config))

    def load(self, folder, cls, **options):
        try:
            with silence():
                model, info = cls.from_pretrained(
                    folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True, **options)  # fmt: skip
        except Exception as error:  # of any kind: strange values fail anywhere
            raise OriginalRefuses(f"{type(error).__name__}: {error}") from error
        left = {k: v for k, v in info.items() if v}
        return model.eval(), left

    def answers(self, folder):
        model, left = self.load(folder, self.cls, **self.options)
        if left != self.left:
            raise OriginalRefuses(f"tensors: {left}")
        try:
            with silence():
                out = self.run(model)
        except Exception as error:
            raise OriginalRefuses(f"{type(error).__name__}: {error}") from error
        return {name: value.detach().clone(memory_format=torch.contiguous_format) for name, value in out.items()}


class ImageModel(Model):
    def __init__(self, name):
        self.name, self.case = name, CASES[name]
        self.cls = getattr(transformers, self.case.kind)
        self.options = {k: v for k, v in self.case.args.items() if k == "add_pooling_layer"}
        self.defaults = self.cls.config_class().to_dict()

    def save(self, folder):
        originals.save(self.case, originals.build(self.case), folder)
        self.left = self.load(folder, self.cls, **self.options)[1]
        config = json.loads((folder / "preprocessor_config.json").read_text())
        kind = config.get("image_processor_type", config.get("feature_extractor_type")).removesuffix("Fast")
        self.processor = getattr(transformers, kind.replace("FeatureExtractor", "ImageProcessor") + "Pil", None)
        size = originals.trained_size(self.case)
        generator = torch.Generator().manual_seed(1)
        self.pixels = torch.randn(1, originals.channels(self.case), *(self.case.size or size), generator=generator)

    def run(self, model):
        inputs = originals.text_inputs(self.case) if originals.has_texts(self.case) else {}
        return {"pixels": self.pixels, **inputs, **originals.run(self.case, model, self.pixels)}


class TextModel(Model):
    def __init__(self, name):
        self.name, self.case = name, texts.CASES[name]
        self.cls, self.options = getattr(transformers, self.case.kind), {}
        self.defaults = self.cls.config_class().to_dict()

    def save(self, folder):
        model = texts.build(self.case)
        texts.save(self.case, model, folder)
        self.left = self.load(folder, self.cls)[1]
        self.given = texts.inputs(self.case, model)

    def run(self, model):
        return {**self.given, **texts.run(model, self.given)}


class TimmModel(Model):
    """timm's config.json: the arguments of the class, and the configuration of preprocessing."""

    processor = None

    def __init__(self, name):
        self.name, self.case = name, CASES[name]

    def save(self, folder):
        model = originals.build(self.case)
        originals.save(self.case, model, folder)
        arguments = inspect.signature(type(model).__init__).parameters.values()
        plain = (bool, int, float, str, type(None))
        self.defaults = {"model_args": {p.name: p.default for p in arguments if isinstance(p.default, plain)},
                         "pretrained_cfg": {}}  # fmt: skip
        generator = torch.Generator().manual_seed(1)
        self.pixels = torch.randn(1, originals.channels(self.case), *originals.trained_size(self.case), generator=generator)

    def changes(self, config):
        for group, foreign in (("model_args", FOREIGN_ARGUMENTS), ("pretrained_cfg", {})):
            defaults = self.defaults[group]
            for path, value in changes(defaults, config[group], foreign):
                yield (group, *path), value
        yield from changes({}, {k: v for k, v in config.items() if not isinstance(v, dict) and k != "architecture"}, FOREIGN)

    def answers(self, folder):
        try:
            with silence():
                model = timm.create_model(f"local-dir:{folder}", pretrained=True).eval()
                out = {"pixels": self.pixels, **originals.run(self.case, model, self.pixels)}
        except Exception as error:
            raise OriginalRefuses(f"{type(error).__name__}: {error}") from error
        return {name: value.detach().clone(memory_format=torch.contiguous_format) for name, value in out.items()}


class OpenClipModel(TimmModel):
    """open_clip_config.json: both towers, and how images are prepared."""

    config_file = "open_clip_config.json"

    def save(self, folder):
        super().save(folder)
        fields = {"model_cfg": {}, "vision_cfg": open_clip.model.CLIPVisionCfg, "text_cfg": open_clip.model.CLIPTextCfg}
        self.defaults = {k: dataclasses.asdict(v()) if v else {} for k, v in fields.items()}

    def changes(self, config):
        model = config["model_cfg"]
        for group in ("vision_cfg", "text_cfg"):
            for path, value in changes(self.defaults[group], model[group], {}):
                yield ("model_cfg", group, *path), value
        rest = {k: v for k, v in model.items() if not k.endswith("_cfg")}
        for path, value in changes({"init_logit_bias": None, "custom_text": False}, rest, {}):
            yield ("model_cfg", *path), value

    def answers(self, folder):
        try:
            with silence():
                model = open_clip.create_model(f"local-dir:{folder}", output_dict=True).eval()
                inputs = originals.text_inputs(self.case)
                out = {"pixels": self.pixels, **inputs, **originals.run(self.case, model, self.pixels)}
        except BaseException as error:  # it leaves the program for some values
            raise OriginalRefuses(f"{type(error).__name__}: {error}") from error
        return {name: value.detach().clone(memory_format=torch.contiguous_format) for name, value in out.items()}


class WritingModel(Model):
    """generation_config.json, and the same keys of config.json: what is written after, or for, two texts."""

    config_file = "generation_config.json"
    prompts = ("the water and", "Seven small boats.")

    def __init__(self, name):
        self.name, self.options = "tasks_" + name, {}
        self.golden = unpacked("tests/golden/tasks") / name

    def save(self, folder):
        shutil.copytree(self.golden, folder)
        self.cls = getattr(transformers, json.loads((folder / "config.json").read_text())["architectures"][0])
        config = json.loads((folder / self.config_file).read_text())
        self.write(folder, {**config, "max_new_tokens": 12})
        self.defaults = {k: v for k, v in transformers.GenerationConfig().to_dict().items() if k != "max_new_tokens"}
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        self.pair = hasattr(self.cls, "get_encoder") and "T5" in self.cls.__name__ or "Marian" in self.cls.__name__

    def changes(self, config):
        for path, value in changes(self.defaults, config, {"my_own_note": ["text"], "penalty_beta": [0.5]}):
            if path != ("max_new_tokens",) or value is not None:  # qkv goes on longer than 20 tokens, and says so
                yield path, value

    def answers(self, folder):
        try:
            with silence():
                model = self.cls.from_pretrained(folder, dtype=torch.float32).eval()
                return [self.write_after(model, prompt) for prompt in self.prompts]
        except Exception as error:
            raise OriginalRefuses(f"{type(error).__name__}: {error}") from error

    def write_after(self, model, prompt):
        inputs = self.tokenizer(prompt, return_tensors="pt", return_token_type_ids=False)
        out = model.generate(**inputs)
        ids = getattr(out, "sequences", out)[0].tolist()
        if self.pair:
            return self.tokenizer.decode(ids, skip_special_tokens=True).strip()
        # Token by token, as qkv shows it: a byte that is no text yet may become a part of one.
        stream, length = DecodeStream(skip_special_tokens=True), inputs["input_ids"].shape[1]
        pieces = [stream.step(self.tokenizer.backend_tokenizer, token) or "" for token in ids]
        return "".join(pieces[length:]).rstrip("\ufffd ")

    def judge(self, program, folder, expected, path, value):
        got, said = [], ""
        for prompt in self.prompts:
            task = ["translate", "-m", folder, "--json", prompt] if self.pair else ["generate", "-m", folder, "--json", "--prompt", prompt]  # fmt: skip
            done = subprocess.run([program, *task], capture_output=True, text=True)
            said += done.stderr
            if done.returncode != 0:
                return refusal(done, path, value)
            got.append(json.loads(done.stdout)["text"].rstrip("\ufffd ") if not self.pair else json.loads(done.stdout)["text"])  # fmt: skip
        if got == expected:
            return "equal", ""
        return ("noted" if "does not know" in said and path[-1] in said else "DIFFERENT"), f"{got} for {expected}"


class SentenceModel(WritingModel):
    """The files of sentence-transformers: the vector of two texts."""

    def __init__(self, file, defaults):
        self.name, self.config_file, self.defaults = f"sentences {file}", file, defaults
        self.golden = unpacked("tests/golden/tasks/bert")

    def save(self, folder):
        shutil.copytree(self.golden, folder)
        (folder / "1_Pooling/config.json").write_text('{"embedding_dimension": 24, "pooling_mode": "mean"}')
        if not (folder / self.config_file).exists():
            self.write(folder, {})

    def changes(self, config):
        return changes(self.defaults, config, {"my_own_note": ["text"]})

    def answers(self, folder):
        try:
            with silence():
                return sentence_transformers.SentenceTransformer(str(folder), device="cpu").encode(list(self.prompts))
        except Exception as error:
            raise OriginalRefuses(f"{type(error).__name__}: {error}") from error

    def judge(self, program, folder, expected, path, value):
        texts_file, vectors = folder.with_suffix(".txt"), folder.with_suffix(".npy")
        texts_file.write_text("".join(prompt + "\n" for prompt in self.prompts))
        done = subprocess.run([program, "embed", "-m", folder, "--text", texts_file, "-o", vectors], capture_output=True, text=True)  # fmt: skip
        if done.returncode != 0:
            return refusal(done, path, value)
        got = np.load(vectors)
        if got.shape == expected.shape and np.abs(got - expected).max() <= 1e-3 * np.abs(expected).max():
            return "equal", ""
        return ("noted" if "does not know" in done.stderr and path[-1] in done.stderr else "DIFFERENT"), done.stderr[:200]


class Verdicts:
    def __init__(self, options):
        self.options, self.counts, self.faults = options, collections.Counter(), []

    def add(self, model, path, value, verdict, said=""):
        self.counts[verdict] += 1
        line = f"{model}: {'.'.join(path)} = {json.dumps(value)[:60]}: {verdict}" + (f": {said}" if said else "")
        if verdict == "DIFFERENT":
            self.faults.append(line)
            print(line, flush=True)
        elif self.options.verbose:
            print(line, flush=True)


def names(said, path, value):
    """True if an error or a note is about this key, by its name or its value."""
    words = {path[-1], path[-1].replace("_", " ").removesuffix(" id"), path[-1].partition("_")[2].split("_")[0] or path[-1]}
    return any(word in said for word in words | {"tensor"}) or (isinstance(value, str) and value in said)


def refusal(done, path, value):
    if done.returncode != 1:
        return "DIFFERENT", f"exit {done.returncode}: {done.stderr.strip()[:200]}"
    return "refused" if names(done.stderr, path, value) else "unnamed", done.stderr.strip()[:200]


def judge(done, path, value):
    """The verdict over a run of `qkv verify` beside an original that answered."""
    said = (done.stdout + done.stderr).strip()
    if done.returncode == 0:
        return "equal", ""
    if "tensors agree" not in said:
        return refusal(done, path, value)
    if "does not know" in said and path[-1] in said:
        return "noted", ""
    wrong = [line.split()[0] for line in done.stdout.splitlines() if "BEYOND" in line]
    return "DIFFERENT", f"{', '.join(wrong[:4])} differ" + (f"; {done.stderr.strip()[:200]}" if done.stderr else "")


def is_drawn(model, folder, answers):
    """True if the original's own answers differ from one time to the next: of weights that no file has, or sampled."""
    try:
        again = model.answers(folder)
    except OriginalRefuses:  # one of the two
        return True
    if isinstance(answers, dict):
        return any(not torch.equal(again[name], value) for name, value in answers.items())
    return not np.array_equal(answers, again)


def walk_config(model, folder, program, verdicts):
    model.save(folder)
    config = json.loads((folder / model.config_file).read_text())
    for path, value in model.changes(config):
        model.write(folder, put(config, path, value))
        try:
            answers = model.answers(folder)
        except OriginalRefuses as error:
            verdicts.add(model.name, path, value, "original", str(error)[:100])
            continue
        verdict, said = model.judge(program, folder, answers, path, value)
        if verdict == "DIFFERENT" and is_drawn(model, folder, answers):
            verdict, said = "original", "drawn anew each time"
        verdicts.add(model.name, path, value, verdict, said)
    model.write(folder, config)


def walk_preprocessor(model, folder, program, verdicts):
    """An image of odd sides through processor and model, of which qkv gives the logits."""
    if not model.processor:
        return
    file = folder / "preprocessor_config.json"
    config = json.loads(file.read_text())
    rng = np.random.default_rng(3)
    image = Image.fromarray(rng.integers(0, 256, (9, 12, 3), dtype=np.uint8)).resize((131, 87), Image.BICUBIC)
    picture = folder.with_suffix(".png")
    image.save(picture)
    original, _ = model.load(folder, model.cls, **model.options)
    cls = model.processor
    defaults = {k: v for k, v in cls().to_dict().items() if not k.startswith("_")}
    answers = folder.with_suffix(".answers.safetensors")
    for path, value in changes(defaults, config, {"my_own_note": ["text"], "crop_pct": [0.5], "do_flip_channel_order": [True]}):  # fmt: skip
        if path == ("image_processor_type",) or path == ("feature_extractor_type",):
            continue
        changed = put(config, path, value)
        file.write_text(json.dumps(changed))
        try:
            with silence():
                pixels = cls.from_pretrained(folder)(image, return_tensors="pt")["pixel_values"]
                if isinstance(pixels, list):
                    pixels = torch.stack(pixels)
                expected = originals.run(model.case, original, pixels.float())["logits"]
        except Exception as error:
            verdicts.add(model.name + " images", path, value, "original", f"{type(error).__name__}: {error}"[:100])
            continue
        done = subprocess.run([program, "run", "-m", folder, picture, "-o", answers], capture_output=True, text=True)  # fmt: skip
        verdicts.add(model.name + " images", path, value, *judge_images(done, path, value, answers, expected))
    file.write_text(json.dumps(config))


def judge_images(done, path, value, answers, expected):
    if done.returncode != 0:
        return refusal(done, path, value)
    found = load_file(answers)
    got = found["logits" if "logits" in found else "pooled"]
    if got.shape == expected.shape and (got - expected).abs().max() <= 1e-3 * expected.abs().max():
        return "equal", ""
    if "does not know" in done.stderr and path[-1] in done.stderr:
        return "noted", ""
    return "DIFFERENT", f"logits differ; {done.stderr.strip()[:200]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("patterns", nargs="*", metavar="PATTERN")
    parser.add_argument("--qkv", default=ROOT / "build/release/qkv", type=Path, metavar="PROGRAM")
    parser.add_argument("-v", "--verbose", action="store_true", help="print every comparison")
    options = parser.parse_args()
    if not options.qkv.is_file():
        sys.exit(f"{options.qkv}: no such program; run `make build` first")
    torch.set_num_threads(1)
    logging.disable(logging.ERROR)
    transformers.utils.logging.set_verbosity(transformers.utils.logging.CRITICAL)
    models = [WritingModel(name) for name in WRITERS] + [SentenceModel(*file) for file in SENTENCES.items()]
    kinds = ((ImageModel, IMAGES), (TextModel, TEXTS), (TimmModel, TIMM), (OpenClipModel, OPEN_CLIP))
    models += [kind(name) for kind, names in kinds for name in names]
    models = [m for m in models if not options.patterns or any(fnmatch.fnmatch(m.name, p) for p in options.patterns)]
    verdicts = Verdicts(options)
    with tempfile.TemporaryDirectory(prefix="qkv-settings-") as temporary:
        for model in models:
            before = verdicts.counts.copy()
            folder = Path(temporary) / model.name
            walk_config(model, folder, options.qkv, verdicts)
            if isinstance(model, ImageModel) and not originals.has_texts(model.case):
                walk_preprocessor(model, folder, options.qkv, verdicts)
            print(f"{model.name:24} {describe(verdicts.counts - before)}", flush=True)
    print(f"\n{verdicts.counts.total()} comparisons: {describe(verdicts.counts)}")
    sys.exit(bool(verdicts.faults))


def describe(counts):
    return ", ".join(f"{counts[name]} {name}" for name in ("equal", "refused", "unnamed", "noted", "original", "DIFFERENT"))


if __name__ == "__main__":
    main()
