"""Batching changes no bit of an answer: many requests at once, and each alone, give the same bytes."""
import served

served.main()

import json  # noqa: E402
import threading  # noqa: E402

ROUNDS = 6


def json_request(path, fields):
    return path, json.dumps(fields).encode(), {"Content-Type": "application/json"}


def requests():
    files = sorted(served.DIGITS.glob("*.png"))[:8]
    photos = sorted((served.GOLDEN / "detector/photos").glob("*"))[:2]
    for file in files:
        yield "/v1/classify?model=digits&top=10", file.read_bytes(), {"Content-Type": "image/png"}
        yield "/v1/embeddings?model=clip&encoding_format=base64", *multipart(file)
        yield "/v2/models/digits/infer", file.read_bytes(), {"Inference-Header-Content-Length": "0"}
    for photo in photos:
        yield "/v1/classify?model=vit&top=3", photo.read_bytes(), {"Content-Type": "image/png"}
        yield "/v1/detect?model=yolos&threshold=0.1", photo.read_bytes(), {"Content-Type": "image/png"}
        yield "/v1/attention?model=vit&layers=all&heads=all", photo.read_bytes(), {"Content-Type": "image/png"}
    for text in ("a cat", "two dogs in a boat", "a photo of a house by the sea", "x"):
        yield json_request("/v1/embeddings", {"model": "clip", "input": text, "encoding_format": "base64"})
        yield json_request("/v1/embeddings", {"model": "bert", "input": [text, text + " again"]})
        yield json_request("/v1/translate", {"text": f"This package contains {text}."})
        yield json_request("/v1/generate", {"model": "llama", "prompt": text, "max_tokens": 6, "temperature": 1, "seed": 5})


def multipart(file):
    body, content_type = served.form({}, {"image": file.read_bytes()})
    return body, {"Content-Type": content_type}


class Batching(served.Served):
    def test_answers_do_not_depend_on_others(self):
        every = list(requests())
        alone = []
        for path, body, headers in every:
            status, _, answer = self.server.call("POST", path, body, headers)
            self.assertEqual(status, 200, (path, answer))
            alone.append(answer)
        differences, lock = [], threading.Lock()

        def ask(number):
            path, body, headers = every[number % len(every)]
            status, _, answer = self.server.call("POST", path, body, headers)
            with lock:
                if status != 200 or answer != alone[number % len(every)]:
                    differences.append((path, status, answer[:200]))

        for start in range(0, ROUNDS * len(every), 64):
            threads = [threading.Thread(target=ask, args=(number,)) for number in range(start, start + 64)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(differences, [])
        # They were computed together, so the test says something.
        metrics = self.server.call("GET", "/metrics")[2].decode()
        sizes = {line.split()[0]: float(line.split()[1]) for line in metrics.splitlines() if line.startswith("qkv_batch_size")}
        images = sum(v for k, v in sizes.items() if k.startswith("qkv_batch_size_sum") and 'model="digits"' in k)
        batches = sum(v for k, v in sizes.items() if k.startswith("qkv_batch_size_count") and 'model="digits"' in k)
        self.assertLess(batches, images)


served.run()
