"""OpenAI's client, unmodified: models, vectors, completions, errors."""
import served

served.main("openai")

import base64  # noqa: E402
import math  # noqa: E402

import openai  # noqa: E402


class OpenAi(served.Served):
    def setUp(self):
        self.client = openai.OpenAI(base_url=self.server.url + "/v1", api_key="none", max_retries=0)

    def tearDown(self):
        self.client.close()

    def test_models(self):
        ids = [model.id for model in self.client.models.list()]
        self.assertIn("digits", ids)
        self.assertEqual(self.client.models.retrieve("clip").id, "clip")

    def test_vectors_of_texts(self):
        # The client asks for base64 unless told otherwise, and decodes it.
        texts = ["a photo of a cat", "two dogs"]
        packed = self.client.embeddings.create(model="clip", input=texts)
        plain = self.client.embeddings.create(model="clip", input=texts, encoding_format="float")
        for a, b in zip(packed.data, plain.data):
            self.assertEqual([round(x, 6) for x in a.embedding], [round(x, 6) for x in b.embedding])
            self.assertAlmostEqual(math.fsum(x * x for x in a.embedding), 1, places=5)
        self.assertEqual([item.index for item in packed.data], [0, 1])
        short = self.client.embeddings.create(model="bert", input="a cat", dimensions=4)
        self.assertEqual(len(short.data[0].embedding), 4)
        self.assertGreater(short.usage.prompt_tokens, 0)

    def test_vectors_of_images_as_vllm_takes_them(self):
        url = "data:image/png;base64," + base64.b64encode((served.DIGITS / "7-black.png").read_bytes()).decode()
        messages = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}},
                                                 {"type": "text", "text": "Represent the image."}]}]  # fmt: skip
        by_messages = self.client.post("/embeddings", cast_to=object, body={"model": "clip", "messages": messages})
        by_input = self.server.post("/v1/embeddings", {"model": "clip", "image": url})
        self.assertEqual(by_messages["data"], by_input["data"])

    def test_completions(self):
        whole = self.client.completions.create(model="gpt2", prompt="Once upon a time", max_tokens=6, temperature=0)
        self.assertIn(whole.choices[0].finish_reason, ("stop", "length"))
        self.assertLessEqual(whole.usage.completion_tokens, 6)
        pieces = list(self.client.completions.create(model="gpt2", prompt="Once upon a time", max_tokens=6,
                                                     temperature=0, stream=True))  # fmt: skip
        self.assertEqual("".join(piece.choices[0].text for piece in pieces), whole.choices[0].text)
        self.assertEqual(pieces[-1].choices[0].finish_reason, whole.choices[0].finish_reason)

    def test_seeds(self):
        def draw(seed):
            return self.client.completions.create(model="llama", prompt="Once", max_tokens=12, temperature=1, seed=seed).choices[0].text

        self.assertEqual(draw(1), draw(1))
        self.assertGreater(len({draw(seed) for seed in range(5)}), 1)

    def test_errors(self):
        with self.assertRaises(openai.NotFoundError) as caught:
            self.client.embeddings.create(model="nothing", input="a")
        self.assertIn("nothing", caught.exception.message)
        with self.assertRaises(openai.BadRequestError):
            self.client.embeddings.create(model="clip", input=[])
        with self.assertRaises(openai.BadRequestError):
            self.client.completions.create(model="gpt2", prompt="a", n=2)


class WithKey(served.Served):
    options = ("--api-key-file", str(served.ROOT / "tests/server/key.txt"))

    def test_key(self):
        with openai.OpenAI(base_url=self.server.url + "/v1", api_key="test-key", max_retries=0) as client:
            self.assertTrue(list(client.models.list()))
        with openai.OpenAI(base_url=self.server.url + "/v1", api_key="wrong", max_retries=0) as client:
            with self.assertRaises(openai.AuthenticationError):
                client.models.list()
        self.assertEqual(self.server.call("GET", "/v2/health/live")[0], 200)
        self.assertEqual(self.server.call("GET", "/v2/models/digits")[0], 401)
        self.assertEqual(self.server.call("GET", "/metrics")[0], 401)


served.run()
