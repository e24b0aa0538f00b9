"""Triton's client, unmodified, against the Open Inference Protocol of qkv serve."""
import served

served.main("tritonclient", "numpy", "gevent")

import json  # noqa: E402
import subprocess  # noqa: E402

import numpy as np  # noqa: E402
import tritonclient.http as triton  # noqa: E402
from tritonclient.utils import InferenceServerException  # noqa: E402


class Triton(served.Served):
    def setUp(self):
        self.client = triton.InferenceServerClient(f"127.0.0.1:{self.server.port}", network_timeout=60)

    def tearDown(self):
        self.client.close()

    def input(self, name, values, datatype, binary=True):
        tensor = triton.InferInput(name, list(values.shape), datatype)
        tensor.set_data_from_numpy(values, binary_data=binary)
        return tensor

    def images(self, *names):
        return np.array([(served.DIGITS / name).read_bytes() for name in names], dtype=np.object_)

    def test_health_and_metadata(self):
        self.assertTrue(self.client.is_server_live())
        self.assertTrue(self.client.is_server_ready())
        self.assertEqual(self.client.get_server_metadata()["name"], "qkv")
        self.assertTrue(self.client.is_model_ready("digits"))
        self.assertTrue(self.client.is_model_ready("llama", "7"))
        self.assertFalse(self.client.is_model_ready("llama", "8"))
        self.assertFalse(self.client.is_model_ready("nothing"))
        metadata = self.client.get_model_metadata("clip")
        self.assertEqual(metadata["versions"], ["1"])
        self.assertIn("text", [tensor["name"] for tensor in metadata["inputs"]])
        self.assertEqual(self.client.get_model_config("digits")["name"], "digits")

    def test_repository(self):
        self.client.load_model("vit")
        self.assertIn("READY", [m["state"] for m in self.client.get_model_repository_index() if m["name"] == "vit"])
        self.client.unload_model("vit")
        self.assertNotIn("READY", [m["state"] for m in self.client.get_model_repository_index() if m["name"] == "vit"])
        with self.assertRaises(InferenceServerException):
            self.client.load_model("nothing")

    def test_images_are_classified_as_by_the_program(self):
        names = ["7-black.png", "3-white.png"] if (served.DIGITS / "3-white.png").exists() else ["7-black.png"]
        result = self.client.infer("digits", [self.input("image", self.images(*names), "BYTES")], request_id="a1")
        self.assertEqual(result.get_response()["id"], "a1")
        logits, probabilities = result.as_numpy("logits"), result.as_numpy("probabilities")
        self.assertEqual(logits.shape, (len(names), 10))
        np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)
        files = [str(served.DIGITS / name) for name in names]
        said = subprocess.run([self.program, "classify", "--json", "--logits", "-q", *files], capture_output=True, check=True)
        wanted = [json.loads(line)["logits"] for line in said.stdout.splitlines()]
        np.testing.assert_array_equal(logits, np.array(wanted, dtype=np.float32))

    def test_json_and_bytes_are_the_same(self):
        pixels = np.random.default_rng(1).standard_normal((2, 1, 28, 28)).astype(np.float32)
        answers = []
        for binary_in in (True, False):
            for binary_out in (True, False):
                result = self.client.infer("digits", [self.input("pixels", pixels, "FP32", binary_in)],
                                           outputs=[triton.InferRequestedOutput("logits", binary_out)])  # fmt: skip
                answers.append(result.as_numpy("logits"))
        for answer in answers[1:]:
            np.testing.assert_array_equal(answer, answers[0])

    def test_classification(self):
        output = triton.InferRequestedOutput("probabilities", class_count=2)
        result = self.client.infer("digits", [self.input("image", self.images("7-black.png"), "BYTES")], outputs=[output])
        best = result.as_numpy("probabilities")
        self.assertEqual(best.shape, (1, 2))
        self.assertEqual(best[0, 0].decode().split(":")[1:], ["7", "7"])

    def test_two_towers(self):
        texts = np.array([b"a photo of a cat", "due città".encode()], dtype=np.object_)
        inputs = [self.input("image", self.images("7-black.png"), "BYTES"), self.input("text", texts, "BYTES")]
        result = self.client.infer("clip", inputs)
        image, text = result.as_numpy("embedding"), result.as_numpy("text_embedding")
        np.testing.assert_allclose(np.linalg.norm(text, axis=1), 1, rtol=1e-5)
        self.assertEqual(result.as_numpy("logits_per_image").shape, (1, 2))
        np.testing.assert_allclose(result.as_numpy("probabilities").sum(), 1, rtol=1e-5)
        cosines = image @ text.T
        ratio = result.as_numpy("logits_per_image") / cosines
        np.testing.assert_allclose(ratio, ratio[0, 0], rtol=1e-3)
        ids = self.input("input_ids", np.array([[1, 2, 3]], dtype=np.int64), "INT64")
        self.assertEqual(self.client.infer("clip", [ids]).as_numpy("text_embedding").shape[0], 1)

    def test_texts(self):
        text = self.input("text", np.array([b"This package contains the documentation."], dtype=np.object_), "BYTES")
        said = self.client.infer("english-italian", [text]).as_numpy("generated_text")
        self.assertIn("pacchetto", said[0].decode())
        embedding = self.client.infer("bert", [text]).as_numpy("embedding")
        self.assertEqual(embedding.shape[0], 1)
        result = self.client.infer("gpt2", [text], parameters={"max_tokens": 2})
        self.assertEqual(result.as_numpy("generated_text").shape, (1,))

    def test_raw_body(self):
        status, headers, body = self.server.call("POST", "/v2/models/digits/infer",
                                                 (served.DIGITS / "7-black.png").read_bytes(),
                                                 {"Inference-Header-Content-Length": "0"})  # fmt: skip
        self.assertEqual(status, 200, body)
        result = triton.InferenceServerClient.parse_response_body(
            body, header_length=int(headers["Inference-Header-Content-Length"]))
        self.assertEqual(result.as_numpy("logits").argmax(), 7)

    def test_async(self):
        requests = [self.client.async_infer("digits", [self.input("image", self.images("7-black.png"), "BYTES")])
                    for _ in range(4)]  # fmt: skip
        for request in requests:
            self.assertEqual(request.get_result().as_numpy("logits").argmax(), 7)

    def test_gzip_both_ways(self):
        pixels = np.random.default_rng(1).standard_normal((2, 1, 28, 28)).astype(np.float32)
        answers = []
        for request in (None, "gzip"):
            for response in (None, "gzip"):
                for binary in (True, False):
                    result = self.client.infer("digits", [self.input("pixels", pixels, "FP32", binary)],
                                               outputs=[triton.InferRequestedOutput("logits", binary)],
                                               request_compression_algorithm=request,
                                               response_compression_algorithm=response)  # fmt: skip
                    answers.append(result.as_numpy("logits"))
        for answer in answers[1:]:
            np.testing.assert_array_equal(answer, answers[0])
        with self.assertRaises(InferenceServerException) as caught:
            self.client.infer("digits", [self.input("pixels", pixels, "FP32")], request_compression_algorithm="deflate")
        self.assertIn("Content-Encoding: expected gzip", caught.exception.message())

    def test_statistics(self):
        def of_vit():
            return self.client.get_inference_statistics("vit")["model_stats"][0]

        before = of_vit()
        pixels = np.zeros((2, 3, 24, 24), np.float32)
        self.client.infer("vit", [self.input("pixels", pixels, "FP32")])
        after = of_vit()
        self.assertEqual(after["inference_count"] - before["inference_count"], 2)
        self.assertEqual(after["inference_stats"]["success"]["count"] - before["inference_stats"]["success"]["count"], 1)
        self.assertGreater(after["inference_stats"]["compute_infer"]["ns"], before["inference_stats"]["compute_infer"]["ns"])
        self.assertGreater(after["last_inference"], before["last_inference"])
        every = self.client.get_inference_statistics()["model_stats"]
        self.assertIn("digits", [model["name"] for model in every])

    def test_errors_are_its_own(self):
        cases = [
            ("digits", self.input("image", np.array([b"no image"], dtype=np.object_), "BYTES"), "image"),
            ("digits", self.input("pixels", np.zeros((1, 3, 28, 28), np.float32), "FP32"), "expected FP32 of shape"),
            ("digits", self.input("other", np.zeros((1, 1), np.float32), "FP32"), "no input other"),
            ("digits", self.input("pixels", np.full((1, 1, 28, 28), np.nan, np.float32), "FP32"), "finite"),
            ("nothing", self.input("other", np.zeros((1, 1), np.float32), "FP32"), "no model nothing"),
        ]
        for model, tensor, message in cases:
            with self.assertRaises(InferenceServerException) as caught:
                self.client.infer(model, [tensor])
            self.assertIn(message, caught.exception.message())
            self.assertIsInstance(caught.exception.message(), str)


served.run()
