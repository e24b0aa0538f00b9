"""The server's answers are those of the command line; immich's requests as its server sends them; streams."""
import served

served.main()

import base64  # noqa: E402
import json  # noqa: E402
import math  # noqa: E402
import socket  # noqa: E402
import struct  # noqa: E402
import subprocess  # noqa: E402
import tempfile  # noqa: E402
import time  # noqa: E402
from pathlib import Path  # noqa: E402

GOLDEN = served.GOLDEN
PHOTOS = sorted((GOLDEN / "detector/photos").glob("*.png"))
SEVEN = served.DIGITS / "7-black.png"


def near(a, b, tolerance=1e-5):
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(near(a[key], b[key], tolerance) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(near(x, y, tolerance) for x, y in zip(a, b))
    if isinstance(a, float) or isinstance(b, float):
        return math.isclose(a, b, rel_tol=tolerance, abs_tol=tolerance)
    return a == b


class Answers(served.Served):
    def program_says(self, *arguments):
        done = subprocess.run([self.program, *map(str, arguments)], capture_output=True, check=True)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def ask(self, path, file, **fields):
        body, content_type = served.form(fields, {"image": file.read_bytes()})
        status, headers, answer = self.server.call("POST", path, body, {"Content-Type": content_type})
        self.assertEqual(status, 200, answer)
        return answer if headers["Content-Type"] == "image/png" else json.loads(answer)

    def test_classes(self):
        said = self.program_says("classify", "--json", "-q", "--top", 10, SEVEN)[0]
        self.assertEqual(self.ask("/v1/classify", SEVEN, top=10)["data"][0]["top"], said["top"])
        said = self.program_says("classify", "--json", "-q", "-m", GOLDEN / "towers/clip", "--prompts", "a cat,a dog", SEVEN)[0]
        answer = self.ask("/v1/classify", SEVEN, model="clip", prompts="a cat,a dog")
        self.assertTrue(near(answer["data"][0]["top"], said["top"]))

    def test_objects_and_segments(self):
        for photo in PHOTOS[:2]:
            said = self.program_says("detect", "--json", "-q", "-m", GOLDEN / "detector", "--threshold", 0.2, photo)[0]
            answer = self.ask("/v1/detect", photo, model="yolos", threshold=0.2)["data"][0]
            self.assertEqual(answer["objects"], said["objects"])
            said = self.program_says("segment", "--json", "-q", "-m", GOLDEN / "segmenter", "--threshold", 0.1, photo)[0]
            answer = self.ask("/v1/segment", photo, model="eomt", threshold=0.1)["data"][0]
            self.assertEqual(answer["segments"], said["segments"])
        for path, model in (("/v1/detect", "yolos"), ("/v1/segment", "eomt")):
            self.assertTrue(self.ask(path, PHOTOS[0], model=model, format="png").startswith(b"\x89PNG"))

    def test_attention(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "a.json"
            for options, fields in ((("--layer", "all", "--head", "all"), {"layers": "all", "heads": "all"}),
                                    (("--query", "3,4", "--head", "max"), {"query": "3,4", "heads": "max"}),
                                    (("--rollout", "--discard", 0.5), {"rollout": "true", "discard": 0.5})):  # fmt: skip
                subprocess.run([self.program, "attend", *map(str, options), "-o", str(file), str(SEVEN)],
                               check=True, capture_output=True)  # fmt: skip
                said = json.loads(file.read_text())
                answer = self.ask("/v1/attention", SEVEN, **fields)
                for name in ("weights", "grid", "layers", "heads", "query", "where"):
                    self.assertEqual(answer[name], said[name], (fields, name))
                packed = self.ask("/v1/attention", SEVEN, encoding_format="base64", **fields)
                flat = struct.unpack(f"<{math.prod(packed['shape'])}f", base64.b64decode(packed["weights"]))
                nested = answer["weights"]
                for _ in range(3):
                    nested = [x for row in nested for x in row]
                # As short as float32 allows: the same numbers once they are float32 again.
                self.assertEqual(flat, struct.unpack(f"<{len(nested)}f", struct.pack(f"<{len(nested)}f", *nested)))
            picture = Path(folder) / "a.png"
            subprocess.run([self.program, "attend", "-o", str(picture), str(SEVEN)], check=True, capture_output=True)
            self.assertEqual(self.ask("/v1/attention", SEVEN, format="png"), picture.read_bytes())
            subprocess.run([self.program, "attend", "-m", "english-italian", "--cross", "The house is green.", "--layer", "all",
                            "--head", "all", "-o", str(file)], check=True, capture_output=True)  # fmt: skip
            said = json.loads(file.read_text())
            answer = self.server.post("/v1/attention", {"model": "english-italian", "text": "The house is green.",
                                                        "layers": "all", "heads": "all"})  # fmt: skip
            for name in ("weights", "rows", "columns", "target"):
                self.assertEqual(answer[name], said[name], name)

    def test_texts(self):
        text = "This package contains the documentation."
        for task in ("translate", "summarize"):
            said = self.program_says(task, "--json", "-q", *([] if task == "translate" else ["--lines"]), text)[0]
            answer = self.server.post("/v1/" + task, {"text": text})["data"][0]
            self.assertEqual(answer["text"], said["text"])
            self.assertEqual(answer["tokens"], said["tokens"])
        said = self.program_says("generate", "--json", "-m", GOLDEN / "tasks/gpt2", "--prompt", "Once", "--tokens", 8)[0]
        answer = self.server.post("/v1/generate", {"model": "gpt2", "prompt": "Once", "max_tokens": 8})
        self.assertEqual(answer["text"], said["text"])
        self.assertEqual(answer["usage"]["completion_tokens"], said["tokens"])

    def events(self, path, fields):
        status, headers, body = self.server.call("POST", path, json.dumps({**fields, "stream": True}),
                                                 {"Content-Type": "application/json"})  # fmt: skip
        self.assertEqual((status, headers["Content-Type"]), (200, "text/event-stream"))
        events = [event.removeprefix("data: ") for event in body.decode().split("\n\n") if event]
        self.assertEqual(events.pop(), "[DONE]")
        return [json.loads(event) for event in events]

    def test_streams_give_what_whole_answers_give(self):
        for beams in (1, 4):
            fields = {"text": ["This package contains the documentation.", "", "Red."], "beams": beams}
            whole = self.server.post("/v1/translate", fields)["data"]
            events = self.events("/v1/translate", fields)
            for i, one in enumerate(whole):
                pieces = "".join(e["text"] for e in events if e["index"] == i and "tokens" not in e)
                last = [e for e in events if e["index"] == i and "tokens" in e]
                self.assertEqual(pieces, one["text"])
                self.assertEqual([e["text"] for e in last], [one["text"]])
                self.assertEqual(last[0]["tokens"], one["tokens"])
        fields = {"model": "llama", "prompt": "Once", "max_tokens": 30, "temperature": 1, "seed": 4}
        whole = self.server.post("/v1/generate", fields)
        self.assertEqual("".join(e["text"] for e in self.events("/v1/generate", fields)), whole["text"])
        stop = whole["text"][5:7]
        stopped = self.server.post("/v1/generate", {**fields, "stop": stop})
        self.assertEqual(stopped["text"], whole["text"][:whole["text"].index(stop)])
        self.assertEqual(stopped["finish_reason"], "stop")
        self.assertEqual("".join(e["text"] for e in self.events("/v1/generate", {**fields, "stop": [stop]})), stopped["text"])

    def test_a_stream_ends_when_its_client_goes(self):
        body = json.dumps({"text": ["The house is green."] * 2000, "stream": True}).encode()
        with socket.create_connection(("127.0.0.1", self.server.port)) as client:
            client.sendall(b"POST /v1/translate HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                           b"Content-Length: %d\r\n\r\n" % len(body) + body)  # fmt: skip
            self.assertTrue(client.recv(100).startswith(b"HTTP/1.1 200"))
        for _ in range(100):
            metrics = self.server.call("GET", "/metrics")[2].decode()
            if "qkv_active_requests 0" in metrics and 'qkv_clients_left_total{route="/v1/translate"} 1' in metrics:
                return
            time.sleep(0.1)
        self.fail("it went on")

    def test_immich(self):
        def predict(entries, text=None, image=None):
            body, content_type = served.form({"entries": json.dumps(entries), **({"text": text} if text else {})},
                                             {"image": image} if image else {})  # fmt: skip
            status, _, answer = self.server.call("POST", "/predict", body, {"Content-Type": content_type})
            return status, json.loads(answer)

        name = {"modelName": "ViT-B-32__openai"}
        self.assertEqual(self.server.call("GET", "/ping")[2], b"pong")
        status, answer = predict({"clip": {"textual": {**name, "options": {"language": "de"}}}}, text="a cat")
        self.assertEqual(status, 200)
        wanted = self.server.post("/v1/embeddings", {"model": "clip", "input": "a cat"})["data"][0]["embedding"]
        self.assertTrue(near(json.loads(answer["clip"]), wanted))
        status, answer = predict({"clip": {"visual": name}}, image=PHOTOS[0].read_bytes())
        self.assertEqual((answer["imageHeight"], answer["imageWidth"]), (47, 33))
        self.assertAlmostEqual(math.fsum(x * x for x in json.loads(answer["clip"])), 1, places=5)
        faces = {"detection": {"modelName": "buffalo_l", "options": {"minScore": 0.7}}, "recognition": {"modelName": "buffalo_l"}}
        self.assertEqual(predict({"facial-recognition": faces}, image=PHOTOS[0].read_bytes())[0], 422)


served.run()
