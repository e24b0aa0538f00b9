"""Malformed requests: each gets an answer of 4xx, or its connection is closed where there is nothing to answer; and the
server goes on. Bytes go over the socket as they are."""
import served

served.main()

import base64  # noqa: E402
import json  # noqa: E402
import random  # noqa: E402
import socket  # noqa: E402
import struct  # noqa: E402

IMAGE = (served.DIGITS / "7-black.png").read_bytes()
LEAST = 500


def http(method, path, body=b"", headers=(), version="HTTP/1.1"):
    head = f"{method} {path} {version}\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
    names = [name.lower() for name, _ in headers]
    for name, value in headers:
        head += f"{name}: {value}\r\n"
    if body and "content-length" not in names and "transfer-encoding" not in names:
        head += f"Content-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


def as_json(path, value, raw=False):
    body = value if raw else json.dumps(value).encode()
    return http("POST", path, body, [("Content-Type", "application/json")])


def broken_http():
    yield b"GET\r\n\r\n"
    yield b"\x00\x01\x02\x03\r\n\r\n"
    yield b"GET / HTTP/9.9\r\n\r\n"
    yield b"GET / HTTPS/1.1\r\nHost: a\r\n\r\n"
    yield b"GET  /health HTTP/1.1\r\n\r\n"
    yield b"GET /health HTTP/1.1\r\nHost 127.0.0.1\r\n\r\n"
    yield b"GET /health HTTP/1.1\r\n: x\r\n\r\n"
    yield b"GET /health HTTP/1.1\r\nA\x00B: c\r\n\r\n"
    yield b"POST /v1/classify HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: x\r\n\r\n"
    yield b"POST /v1/classify HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n"
    yield b"POST /v1/classify HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"
    yield b"POST /v1/classify HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99999999999999999999999\r\n\r\n"
    yield b"POST /v1/classify HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"
    yield b"POST /v1/classify HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n"
    yield b"POST /v1/classify HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    for coding in ("xchunked", "identity", "gzip", '"chunked"', "chunked, identity", "gzip, chunked", "chunked, chunked", "",
                   "chunked\r\nTransfer-Encoding: chunked"):  # fmt: skip
        yield f"POST /v1/classify HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: {coding}\r\n\r\n0\r\n\r\n".encode()
    yield b"POST /v1/classify HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    yield b"\r\n\r\nGET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    for host in ("", "[", "[]", "[::1].evil.example", "user@127.0.0.1", "127.0.0.1:x", "127.0.0.1:70000", "a b", "::1"):
        yield f"GET /health HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
    for coding in ("br", "deflate", "zstd", "gzip, gzip", "gzip"):  # the body is not compressed
        yield http("POST", "/v1/embeddings", b'{"model": "bert", "input": "a"}',
                   [("Content-Type", "application/json"), ("Content-Encoding", coding)])  # fmt: skip
    yield b"GET /health HTTP/1.1\r\n" + b"A: " + b"x" * 70000 + b"\r\n\r\n"
    yield b"GET /" + b"x" * 70000 + b" HTTP/1.1\r\n\r\n"
    for path in ("//", "/%zz", "/%", "/a b", "/v1/models/%00", "/../etc/passwd", "/v1/models/" + "x" * 5000, "health",
                 "/v1/nothing", "/v2/models/digits/versions/9/ready", "/v2/models//infer", "/v1/models/%2e%2e%2f"):
        yield http("GET", path)
    for method in ("PUT", "DELETE", "PATCH", "TRACE", "FOO", "CONNECT"):
        for path in ("/v1/classify", "/health", "/v2"):
            yield http(method, path)
    yield http("GET", "/v1/classify")
    yield http("GET", "ftp://127.0.0.1/health")
    yield http("GET", "http://evil.example/health")
    yield http("GET", "http://user@127.0.0.1/health")
    yield http("GET", "/health?a=1&a=2")
    yield http("POST", "/v1/classify?top=1&top=2", IMAGE, [("Content-Type", "image/png")])
    yield http("POST", "/v1/classify?tops=1", IMAGE, [("Content-Type", "image/png")])
    yield http("POST", "/v1/generate?model=gpt2", IMAGE, [("Content-Type", "image/png")])
    yield http("GET", "/health", headers=[("Host", "evil.example")])[:0] + \
        b"GET /health HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"
    yield http("GET", "/health", headers=[("Origin", "https://evil.example")])
    yield http("POST", "/v1/classify", b"x", [("Content-Type", "text/html")])
    yield http("POST", "/v1/classify", IMAGE)


def broken_json():
    posts = ["/v1/classify", "/v1/embeddings", "/v1/detect", "/v1/segment", "/v1/attention", "/v1/generate",
             "/v1/completions", "/v1/translate", "/v1/summarize", "/v2/models/digits/infer"]  # fmt: skip
    texts = [b"", b"{", b"[]", b"null", b"7", b'"x"', b"{}", b"{]", b'{"a":}', b"{'a':1}", b"\xff\xfe{}", b'{"model": "\xff"}',
             b"[" * 100000, b'{"a":' * 70 + b"1" + b"}" * 70, b'{"a": 1e999}', b"\x00{}", b'{"model": 7}',
             b'{"model": "nothing"}', b'{"model": ["digits"]}', b'{"model": {}, "x": 1}']  # fmt: skip
    texts += [b'{"no_such_field": 1}', b'{"input": [' + b"[]," * 70000 + b"[]]}", b'{"a": ' + b"[" * 70 + b"]" * 70 + b"}"]
    for path in posts:
        for text in texts:
            yield as_json(path, text, raw=True)


def wrong_fields():
    image = base64.b64encode(IMAGE).decode()
    wrong_images = ["", "x", "http://127.0.0.1/a.png", "https://a/b", "data:image/png,xx", "data:", "data:;base64,!!!",
                    "file:///etc/passwd", 7, None, [], {}, image[:20], base64.b64encode(b"GIF89a").decode(),
                    base64.b64encode(IMAGE[:60]).decode()]  # fmt: skip
    for path, model in (("/v1/classify", "digits"), ("/v1/detect", "yolos"), ("/v1/segment", "eomt"),
                        ("/v1/attention", "digits")):  # fmt: skip
        for wrong in wrong_images:
            yield as_json(path, {"model": model, "image": wrong})
            if wrong not in (None, []):
                yield as_json(path, {"model": model, "images": [wrong]})
    for fields in ({"top": 0}, {"top": -1}, {"top": "five"}, {"top": 1e30}, {"top": 1.5}, {"top": []}, {"prompts": ["a"]},
                   {"prompts": 7}, {"model": "clip"}, {"model": "clip", "prompts": []}, {"model": "clip", "prompts": ["a", "a"]},
                   {"model": "clip", "prompts": ["a"], "templates": ["x"]}, {"model": "gpt2"}):  # fmt: skip
        yield as_json("/v1/classify", {"model": "digits", "image": image, **fields})
    for fields in ({"threshold": 2}, {"threshold": "x"}, {"format": "gif"}, {"model": "digits"}, {"model": "gpt2"},
                   {"format": "png", "images": [image]}):  # fmt: skip
        yield as_json("/v1/detect", {"model": "yolos", "image": image, **fields})
    for fields in ({"task": "x"}, {"stuff": "nothing"}, {"overlap": -1}, {"mask_threshold": []}, {"model": "digits"}):
        yield as_json("/v1/segment", {"model": "eomt", "image": image, **fields})
    for fields in ({"layers": "99"}, {"layers": -1}, {"layers": [1.5]}, {"heads": "many"}, {"query": "99,99"}, {"query": "dist"},
                   {"rollout": "yes"}, {"rollout": True, "heads": "all"}, {"discard": 0.5}, {"start": 1}, {"format": "svg"},
                   {"format": "png", "query": "all"}, {"upsampling": "x"}, {"side": 1e9}, {"opacity": 7},
                   {"encoding_format": "hex"}, {"images": [image, image]}):  # fmt: skip
        yield as_json("/v1/attention", {"model": "digits", "image": image, **fields})
    for fields in ({}, {"text": ""}, {"text": "a", "part": "cross"}, {"text": "a", "target": "b"}, {"text": 7},
                   {"text": "a", "format": "png"}, {"image": image}):  # fmt: skip
        yield as_json("/v1/attention", {"model": "bert", **fields})
    for path in ("/v1/generate", "/v1/completions"):
        for fields in ({"prompt": 7}, {"prompt": ["a", "b"]}, {"prompt": "a", "max_tokens": 0}, {"prompt": "a", "max_tokens": "x"},
                       {"prompt": "a", "temperature": -1}, {"prompt": "a", "top_p": 0}, {"prompt": "a", "top_k": -5},
                       {"prompt": "a", "beams": 1000}, {"prompt": "a", "beams": 2, "temperature": 1}, {"prompt": "a", "stop": [""]},
                       {"prompt": "a", "stop": ["x"] * 17}, {"prompt": "a", "stream": "maybe"}, {"prompt": "a", "seed": -1},
                       {"prompt": "a", "model": "bert"}, {"prompt": "a", "model": "digits"}, {"prompt": "a", "model": "t5"},
                       {"prompt": "a", "min_p": 2}, {"prompt": "a", "repetition_penalty": 0}):  # fmt: skip
            yield as_json(path, {"model": "gpt2", **fields})
    for path in ("/v1/translate", "/v1/summarize"):
        for fields in ({}, {"text": []}, {"text": 7}, {"text": [7]}, {"text": ["a"] * 3000}, {"text": "a", "cross_weights": "magic"},
                       {"text": "a", "model": "gpt2"}, {"text": "a", "model": "digits"}, {"text": "word " * 5000},
                       {"text": "a", "cut": "x"}, {"text": "a", "stream": True, "cut": True},
                       {"text": "a", "prefix": 7}):  # fmt: skip
            yield as_json(path, fields)
    for wrong in (None, [], {}, 7, [7], [[1, 2]], [{}], [{"type": "image_url"}], [{"image_url": 7}], [{"image_url": {"url": "x"}}],
                  {"image_url": {"url": "http://169.254.169.254/"}}, ["a"] * 3000):  # fmt: skip
        yield as_json("/v1/embeddings", {"model": "clip", "input": wrong})
        yield as_json("/v1/embeddings", {"model": "clip", "messages": wrong})
    for fields in ({"dimensions": 0}, {"dimensions": "x"}, {"encoding_format": "int8"}, {"model": "gpt2"}, {"model": "digits"}):
        yield as_json("/v1/embeddings", {"model": "clip", "input": "a", **fields})


def wrong_forms():
    name = 'Content-Disposition: form-data; name="image"; filename="a.png"'
    bodies = [b"", b"--b", b"--b\r\n", b"--b--\r\n", b"--b\r\n\r\n\r\n--b--\r\n", b"--b\r\nX\r\n\r\nx\r\n--b--\r\n",
              b"--b\r\n" + name.encode() + b"\r\n\r\nabc", b"--b\r\n" + name.encode() + b"\r\n\r\n\r\n--b--\r\n",
              b"--c\r\n" + name.encode() + b"\r\n\r\nabc\r\n--c--\r\n",
              b"--b\r\nContent-Disposition: form-data\r\n\r\nabc\r\n--b--\r\n",
              b"--b\r\n" + b"X: " + b"y" * 20000 + b"\r\n\r\nabc\r\n--b--\r\n",
              b"--b\r\n\r\nx\r\n" * 1500 + b"--b--\r\n"]  # fmt: skip
    for path in ("/v1/classify", "/v1/embeddings", "/v1/attention", "/predict"):
        for body in bodies:
            yield http("POST", path, body or b" ", [("Content-Type", "multipart/form-data; boundary=b")])
        for content_type in ("multipart/form-data", "multipart/form-data; boundary=", "multipart/form-data; boundary=" + "x" * 100,
                             "multipart/mixed; boundary=b"):  # fmt: skip
            yield http("POST", path, bodies[-1], [("Content-Type", content_type)])
    for entries in ("", "{", "[]", "{}", '{"clip": 7}', '{"clip": {"visual": {}}}', '{"clip": {"visual": {"modelName": 7}}}',
                    '{"clip": {"visual": {"modelName": "nothing"}}}', '{"clip": {"textual": {"modelName": "clip"}}}',
                    '{"clip": {"visual": {"modelName": "digits/.."}}}', '{"ocr": {"detection": {"modelName": "a"}}}',
                    '{"facial-recognition": {"detection": {"modelName": "buffalo_l", "options": {"minScore": 0.7}}}}'):  # fmt: skip
        body, content_type = served.form({"entries": entries}, {"image": IMAGE})
        yield http("POST", "/predict", body, [("Content-Type", content_type)])
    body, content_type = served.form({"entries": '{"clip": {"visual": {"modelName": "clip"}}}'}, {})
    yield http("POST", "/predict", body, [("Content-Type", content_type)])
    yield http("POST", "/predict", IMAGE, [("Content-Type", "image/png")])


def wrong_tensors():
    good = {"name": "pixels", "datatype": "FP32", "shape": [1, 1, 28, 28], "data": [0] * 784}
    for change in ({"name": 7}, {"name": "x"}, {"datatype": "FP64"}, {"datatype": None}, {"shape": []}, {"shape": [784]},
                   {"shape": [-1, 1, 28, 28]}, {"shape": [2**62, 4, 28, 28]}, {"shape": "x"}, {"shape": [1.5]}, {"data": []},
                   {"data": [0] * 783}, {"data": [0] * 785}, {"data": ["x"] * 784}, {"data": [[0] * 784]}, {"data": {}},
                   {"data": [1e300] * 784}, {"data": [1e30] * 784}, {"data": [[[[0] * 28] * 27 + [[0] * 27]]]}, {"data": [{}] * 784},
                   {"data": [None] * 784}, {"shape": [0, 1, 28, 28], "data": []}, {"parameters": []},
                   {"parameters": {"shared_memory_region": "x"}}, {"parameters": {"binary_data_size": 784}},
                   {"parameters": {"binary_data_size": -1}}, {"parameters": {"binary_data_size": "x"}}):  # fmt: skip
        yield as_json("/v2/models/digits/infer", {"inputs": [{**good, **change}]})
    for change in ({"inputs": {}}, {"inputs": [7]}, {"inputs": [good] * 65}, {"inputs": [good, good]}, {"outputs": 7},
                   {"outputs": [7]}, {"outputs": [{"name": "x"}]}, {"outputs": [{"name": "logits", "parameters": {"binary_data": 7}}]},
                   {"outputs": [{"name": "logits", "parameters": {"classification": "x"}}]}, {"parameters": 7}, {"id": 7},
                   {"parameters": {"binary_data_output": "x"}}):  # fmt: skip
        yield as_json("/v2/models/digits/infer", {"inputs": [good], **change})
    for header in ("x", "-1", "99999", "1e3", "99999999999999999999"):
        yield http("POST", "/v2/models/digits/infer", b"{}", [("Inference-Header-Content-Length", header)])
    for data in (b"", b"\x05", b"\xff\xff\xff\xff", struct.pack("<I", 10) + b"abc"):
        head = json.dumps({"inputs": [{"name": "image", "datatype": "BYTES", "shape": [1],
                                       "parameters": {"binary_data_size": len(data)}}]}).encode()  # fmt: skip
        yield http("POST", "/v2/models/digits/infer", head + data, [("Inference-Header-Content-Length", str(len(head)))])
        yield http("POST", "/v2/models/digits/infer", head + data + b"more",
                   [("Inference-Header-Content-Length", str(len(head)))])  # fmt: skip
    yield http("POST", "/v2/models/digits/infer", b"x", [("Content-Encoding", "gzip"), ("Inference-Header-Content-Length", "0")])
    yield http("POST", "/v2/models/nothing/infer", b"{}", [("Content-Type", "application/json")])
    yield as_json("/v2/models/gpt2/infer", {"inputs": [{"name": "text", "datatype": "BYTES", "shape": [1], "data": ["a"]}],
                                            "parameters": {"max_tokens": 0}})  # fmt: skip
    for body in (b"[]", b'{"ready": 7}', b"{"):
        yield http("POST", "/v2/repository/index", body, [("Content-Type", "application/json")])
    yield as_json("/v2/repository/models/digits/load", {"parameters": {"config": "{}"}})
    yield http("POST", "/v2/repository/models/nothing/unload")


def mutations(seed, count):
    """Good requests with bytes of their header or their JSON changed. Some stay good."""
    rng = random.Random(seed)
    good = [as_json("/v1/classify", {"model": "digits", "image": base64.b64encode(IMAGE).decode()}),
            http("POST", "/v1/classify", IMAGE, [("Content-Type", "image/png")]),
            as_json("/v1/translate", {"text": "A house."})]  # fmt: skip
    for _ in range(count):
        data = bytearray(rng.choice(good))
        for _ in range(rng.randint(1, 4)):
            place = rng.randrange(len(data))
            if rng.random() < 0.5:
                data[place] = rng.randrange(256)
            else:
                del data[place:place + rng.randint(1, 8)]
        yield bytes(data)


class Malformed(served.Served):
    def answer(self, request):
        """The status of the answer, or None if the connection was closed without one, or the request was given up: a
        client that has closed its side counts as gone."""
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=30) as connection:
            try:
                connection.sendall(request)
                connection.shutdown(socket.SHUT_WR)
            except OSError:  # refused before it was sent whole
                pass
            answer = b""
            try:
                while chunk := connection.recv(65536):
                    answer += chunk
            except ConnectionResetError:
                pass
        if not answer or b'"timeout_error"' in answer:
            return None
        self.assertTrue(answer.startswith(b"HTTP/1."), answer[:100])
        return int(answer.split()[1])

    def test_each_gets_4xx(self):
        every = [*broken_http(), *broken_json(), *wrong_fields(), *wrong_forms(), *wrong_tensors()]
        self.assertGreaterEqual(len(every), LEAST)
        # A client that has closed its side does not wait for a model.
        for model in json.loads(self.server.call("GET", "/v1/models")[2])["data"]:
            self.assertEqual(self.server.call("POST", f"/v2/repository/models/{model['id']}/load")[0], 200)
        wrong, silent = [], 0
        for request in every:
            status = self.answer(request)
            silent += status is None
            if status is not None and not 400 <= status < 500:
                wrong.append((status, request[:300]))
        print(f"{len(every)} malformed requests, {silent} of them closed without an answer")
        self.assertEqual(wrong, [])
        self.assertLess(silent, 10)
        self.assertEqual(self.server.call("GET", "/health")[0], 200)

    def test_mutations_get_no_5xx(self):
        wrong = []
        for request in mutations(1, 400):
            status = self.answer(request)
            if status is not None and status >= 500:
                wrong.append((status, request[:300]))
        self.assertEqual(wrong, [])
        self.assertEqual(self.server.call("GET", "/health")[0], 200)


served.run()
