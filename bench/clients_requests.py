"""What the clients of clients.py send, and the models that they ask: the kinds of client, their bytes and checks."""

import base64
import gzip
import json
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

SEED = 43
DIGIT = 7  # the class of examples/digits/7-black.png
MARKS = "a" + "\u0301\u0323" * 5000  # 20 kB of combining marks of two classes in turn: out of order everywhere
SENTENCE = "This package contains the documentation."
WORDS = "a photo of the red green small large cat dog tree house river".split()


@dataclass
class Request:
    data: bytes
    check: Callable | None = None  # of an answer of 200: whether it is right
    piece: int = 0  # bytes that a slow client sends at a time


@dataclass
class Kind:
    name: str
    note: str
    requests: list
    connections: int = 1
    pause: float = 0.1  # s between two requests of a connection
    does: str = "ask"  # the function of clients.py


# Models


def write_safetensors(path, tensors):
    facts, at = {}, 0
    for name, array in tensors.items():
        facts[name] = {"dtype": "F32", "shape": array.shape, "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    head = json.dumps(facts).encode()
    head += b" " * (-len(head) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(head)) + head)
        for array in tensors.values():
            file.write(array.tobytes())


def write_vit(folder, width=768, depth=12, classes=1000):
    """A ViT-B/16 of transformers with random weights; its folder. 346 MB."""
    rng = np.random.default_rng(SEED)
    folder.mkdir()
    t, prefix = {}, "vit.embeddings."

    def weight(name, *shape):
        t[name] = 0.02 * rng.standard_normal(shape, dtype=np.float32)

    def linear(name, inputs, outputs):
        weight(name + ".weight", outputs, inputs)
        t[name + ".bias"] = np.zeros(outputs, np.float32)

    def norm(name):
        t[name + ".weight"], t[name + ".bias"] = np.ones(width, np.float32), np.zeros(width, np.float32)

    weight(prefix + "cls_token", 1, 1, width)
    weight(prefix + "position_embeddings", 1, 197, width)
    weight(prefix + "patch_embeddings.projection.weight", width, 3, 16, 16)
    t[prefix + "patch_embeddings.projection.bias"] = np.zeros(width, np.float32)
    for i in range(depth):
        block = f"vit.encoder.layer.{i}."
        for part in ("query", "key", "value"):
            linear(block + f"attention.attention.{part}", width, width)
        linear(block + "attention.output.dense", width, width)
        linear(block + "intermediate.dense", width, 4 * width)
        linear(block + "output.dense", 4 * width, width)
        norm(block + "layernorm_before")
        norm(block + "layernorm_after")
    norm("vit.layernorm")
    linear("classifier", width, classes)
    write_safetensors(folder / "model.safetensors", t)
    labels = {str(i): f"class {i}" for i in range(classes)}
    config = {"architectures": ["ViTForImageClassification"], "model_type": "vit", "hidden_size": width,
              "num_hidden_layers": depth, "num_attention_heads": width // 64, "intermediate_size": 4 * width,
              "image_size": 224, "patch_size": 16, "num_channels": 3, "hidden_act": "gelu", "layer_norm_eps": 1e-12,
              "qkv_bias": True, "id2label": labels}  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    preprocessor = {"image_processor_type": "ViTImageProcessor", "do_resize": True, "do_normalize": True,
                    "do_rescale": True, "rescale_factor": 1 / 255, "image_mean": [0.5] * 3, "image_std": [0.5] * 3,
                    "resample": 2, "size": {"height": 224, "width": 224}}  # fmt: skip
    (folder / "preprocessor_config.json").write_text(json.dumps(preprocessor))
    return folder


# Bytes


def http(path, body=b"", kind="application/json", method="POST", version="1.1", **headers):
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()
    lines = [f"{method} {path} HTTP/{version}", "Host: 127.0.0.1"]
    if method == "POST":
        lines += [f"Content-Type: {kind}", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def form(files, **fields):
    """(body, content type)"""
    mark, parts = "qkv-clients-boundary", []
    for file in files:
        head = f'--{mark}\r\nContent-Disposition: form-data; name="image"; filename="a.png"\r\n'
        parts.append(head.encode() + b"Content-Type: image/png\r\n\r\n" + file + b"\r\n")
    for name, value in fields.items():
        parts.append(f'--{mark}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode())
    return b"".join(parts) + f"--{mark}--\r\n".encode(), f"multipart/form-data; boundary={mark}"


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width, height, rows, colour=2):
    """A PNG file of 8 bits; `rows` are its bytes, each row behind a zero."""
    head = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b"")


def photo(rng, size=256):
    """A PNG of soft colours with some noise."""
    y, x = np.mgrid[0:size, 0:size] / size
    waves = [np.sin(2 * np.pi * (rng.uniform(1, 4) * x + rng.uniform(1, 4) * y + rng.random())) for _ in range(3)]
    pixels = 128 + 90 * np.stack(waves, axis=-1) + rng.normal(0, 8, (size, size, 3))
    rows = np.pad(pixels.clip(0, 255).astype(np.uint8).reshape(size, -1), ((0, 0), (1, 0)))
    return png(size, size, rows.tobytes())


def packet(fields, **arrays):
    """A request of the explorer (docs/explore_protocol.md), of arrays of bytes."""
    data, facts = b"", {}
    for name, array in arrays.items():
        facts[name] = {"dtype": "u8", "shape": [len(array)], "offset": len(data), "bytes": len(array)}
        data += array + bytes(-len(array) % 8)
    text = json.dumps({**fields, "arrays": facts}).encode()
    return struct.pack("<I", len(text)) + text + bytes(-(4 + len(text)) % 8) + data


# Checks: True for an answer that is right


def is_digit(answer):
    return json.loads(answer.body)["data"][0]["top"][0]["index"] == DIGIT


def is_digit_of_v2(answer):
    size = int(answer.headers.get("inference-header-content-length", len(answer.body)))
    at, scores = size, None
    for output in json.loads(answer.body[:size])["outputs"]:
        count = output.get("parameters", {}).get("binary_data_size")
        values = output["data"] if count is None else struct.unpack_from(f"<{count // 4}f", answer.body, at)
        at += count or 0
        scores = values if output["shape"][-1] == 10 else scores
    return list(scores).index(max(scores)) == DIGIT


def is_gzip_or_json(answer):
    body = answer.body
    json.loads(gzip.decompress(body) if answer.headers.get("content-encoding") == "gzip" else body)
    return True


# Kinds


def digits(digit):
    b64 = base64.b64encode(digit).decode()
    body, form_kind = form([digit], model="digits")
    v2 = {"inputs": [{"name": "image", "shape": [1], "datatype": "BYTES", "data": [b64]}]}
    raw = Request(http("/v1/classify?model=digits", digit, "image/png"), is_digit)
    multipart = Request(http("/v1/classify", body, form_kind), is_digit)
    in_json = Request(http("/v1/classify", {"image": b64, "model": "digits"}), is_digit)
    v2_json = Request(http("/v2/models/digits/infer", v2), is_digit_of_v2)
    v2_binary = Request(http("/v2/models/digits/infer", digit, "application/octet-stream",
                             Inference_Header_Content_Length=0), is_digit_of_v2)  # fmt: skip
    http10 = Request(http("/v1/classify?model=digits", digit, "image/png", version="1.0"), is_digit)
    zipped = Request(http("/v1/classify?model=digits", gzip.compress(digit), "image/png",
                          Content_Encoding="gzip"), is_digit)  # fmt: skip
    head = raw.data.index(b"\r\n\r\n")
    by_letters, by_pieces = Request(raw.data, is_digit, 1), Request(raw.data, is_digit, max(head, len(raw.data) // 20))
    return [
        Kind("digit-body", "a digit as the body, one at a time: the headline", [raw], 1, 0.02),
        Kind("digit-form", "multipart", [multipart]),
        Kind("digit-base64", "base64 in JSON", [in_json]),
        Kind("digit-v2-json", "Open Inference Protocol", [v2_json]),
        Kind("digit-v2-binary", "its binary extension", [v2_binary]),
        Kind("http-1.0", "a digit, by HTTP/1.0", [http10]),
        Kind("keep-alive", "idle for 5 s between two digits", [raw], 4, 5),
        Kind("pipelined", "eight digits at once", [raw], 2, 0.3, "pipeline"),
        Kind("gzip-request", "a digit, compressed", [zipped], 1, 0.3),
        Kind("slow-header", "a header that would take a minute", [by_letters], 4, 0.1, "drip"),
        Kind("slow-body", "a digit in some seconds", [by_pieces], 4, 0.1, "drip"),
    ]


def photos(rng):
    files = [photo(rng) for _ in range(16)]

    def classify(count):
        body, kind = form([files[i % 16] for i in range(count)], model="vit", top=1)
        return http("/v1/classify", body, kind)

    few, many = classify(8), classify(64)
    return [
        Kind("photos-64", "64 photos by ViT-B/16 in a request", [Request(many)], 1, 0.5),
        Kind("photos-8", "8 photos by ViT-B/16", [Request(few)], 4, 0.2),
        Kind("leaves", "8 photos by ViT-B/16, gone after 50 ms", [Request(few)], 2, 0.5, "leave"),
        Kind("leaves-mid-body", "gone in the middle of its body", [Request(few[:100_000])], 2, 0.3, "leave"),
    ]


def texts(rng):
    def some(count):
        return [" ".join(rng.choice(WORDS, 8)) for _ in range(count)]

    def embed(text, **headers):
        return http("/v1/embeddings", {"model": "clip", "input": text}, **headers)

    def translate(text):
        return Request(http("/v1/translate", {"model": "en-it", "text": text}))

    article = {"model": "synopsis", "text": SENTENCE + " It has examples for users of the library. "}
    stream = http("/v1/generate", {"model": "llama", "prompt": "a", "max_tokens": 24, "min_tokens": 24, "stream": True})
    packed = Request(embed(some(16), Accept_Encoding="gzip"), is_gzip_or_json)
    return [
        Kind("text", "a vector of a text, by CLIP", [Request(embed(text)) for text in some(16)], 2),
        Kind("texts-512", "vectors of 512 texts", [Request(embed(some(512)))], 2, 0.3),
        Kind("translate", "a sentence", [translate(SENTENCE)]),
        Kind("translate-16", "a list of 16", [translate([SENTENCE] * 16)], 1, 0.3),
        Kind("summarize", "a summary", [Request(http("/v1/summarize", article))], 1, 0.3),
        Kind("stream", "tokens as they come", [Request(stream)], 2, 0.2),
        Kind("stream-slow", "the same, 10 kB a second taken", [Request(stream)], 2, 0.2, "read_slowly"),
        Kind("gzip-answer", "vectors, compressed if the server can", [packed], 1, 0.3),
        Kind("marks", "20 kB of combining marks", [Request(embed(MARKS))], 1, 0.5),
        Kind("long-text", "5 MB for a model of 128 tokens", [translate("word " * 1_000_000)], 1, 2),
    ]


def others(digit):
    maps = http("/v1/attention?model=digits&layers=all&heads=all", digit, "image/png")
    drawn = http("/v1/attention?model=digits&heads=mean&format=png", digit, "image/png")
    calls = {"pass": {"blocks": "all"}, "rollout": {}, "relevance": {"class": DIGIT}}
    calls = [http(f"/explore/{call}", packet(fields, file=digit), "application/octet-stream")
             for call, fields in calls.items()]  # fmt: skip
    steps = [http(f"/v2/repository/models/spare/{what}") for what in ("load", "unload")]
    return [
        Kind("maps", "attention of all heads", [Request(maps)], 1, 0.3),
        Kind("maps-png", "attention, drawn", [Request(drawn, lambda answer: answer.body[:4] == b"\x89PNG")], 1, 0.3),
        Kind("explorer", "calls of the explorer's page", [Request(call) for call in calls], 2, 0.3),
        Kind("metrics", "a scraper", [Request(http("/metrics", method="GET"))], 1, 0.5),
        Kind("load-unload", "a model comes and goes", [Request(step) for step in steps], 1, 0.5),
    ]


def hostile(digit):
    bad = [b"GARBAGE\r\n\r\n", b"GET / HTTP/9.9\r\nHost: 127.0.0.1\r\n\r\n",
           b"GET /v1/models HTTP/1.1\r\nHost : 127.0.0.1\r\n\r\n", http("/v1/classify", b"{\"image\": ["),
           http("/v1/classify", digit[:50], "image/png"), http("/v1/no-such-route", {}),
           http("/v1/embeddings", {"model": "clip", "input": [1, 2, 3]})]  # fmt: skip
    empty = http("/v1/classify", b"", "image/png")
    large = empty.replace(b"Content-Length: 0", b"Content-Length: 10000000000")
    chunked = empty.replace(b"Content-Length: 0", b"Transfer-Encoding: chunked") + b"ffffffff\r\n"
    bomb = http("/v1/classify", png(2**28, 1, bytes(1000), colour=0), "image/png")
    return [
        Kind("malformed", "requests that no server should take", [Request(data) for data in bad], 2),
        Kind("oversized", "bodies of 10 and 4 GB, announced", [Request(large), Request(chunked)], 1, 0.5),
        Kind("png-bomb", "a picture of 2^28 pixels in 74 bytes", [Request(bomb)], 1, 1),
    ]


def kinds(root):
    """All kinds of client, of the checkout `root`."""
    rng = np.random.default_rng(SEED)
    digit = (Path(root) / "examples/digits/7-black.png").read_bytes()
    return [*digits(digit), *photos(rng), *texts(rng), *others(digit), *hostile(digit)]
