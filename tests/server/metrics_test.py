"""The counters of qkv serve, as Prometheus' parser reads them."""
import served

served.main("prometheus_client")

from prometheus_client.parser import text_string_to_metric_families  # noqa: E402


class Metrics(served.Served):
    def read(self):
        status, headers, body = self.server.call("GET", "/metrics")
        self.assertEqual(status, 200)
        self.assertTrue(headers["Content-Type"].startswith("text/plain; version=0.0.4"), headers)
        return {family.name: family for family in text_string_to_metric_families(body.decode())}

    def value(self, families, family, sample, **labels):
        found = [s.value for s in families[family].samples
                 if s.name == sample and labels.items() <= s.labels.items()]  # fmt: skip
        return sum(found)

    def test_counters_follow_requests(self):
        image = (served.DIGITS / "7-black.png").read_bytes()
        for _ in range(3):
            self.server.call("POST", "/v1/classify", image, {"Content-Type": "image/png"})
        self.server.call("POST", "/v1/classify", b"nothing", {"Content-Type": "image/png"})
        self.server.call("GET", "/nowhere/at/all")
        self.server.post("/v1/translate", {"text": "A house."})
        families = self.read()
        route = {"route": "/v1/classify"}
        self.assertEqual(self.value(families, "qkv_requests", "qkv_requests_total", status="200", **route), 3)
        self.assertEqual(self.value(families, "qkv_requests", "qkv_requests_total", status="400", **route), 1)
        self.assertEqual(self.value(families, "qkv_requests", "qkv_requests_total", route="other"), 1)
        self.assertEqual(self.value(families, "qkv_request_seconds", "qkv_request_seconds_count", **route), 4)
        self.assertEqual(self.value(families, "qkv_batch_size", "qkv_batch_size_sum", model="digits"), 3)
        self.assertEqual(self.value(families, "qkv_compute_seconds", "qkv_compute_seconds_count", model="digits"), 3)
        self.assertEqual(self.value(families, "qkv_wait_seconds", "qkv_wait_seconds_count", model="digits"), 3)
        for name in "qkv_decode_seconds", "qkv_prepare_seconds":
            self.assertEqual(self.value(families, name, f"{name}_count", model="digits"), 3)
        depths = {s.labels["model"]: s.value for s in families["qkv_queue_depth"].samples}
        self.assertEqual(depths["digits"], 0)
        self.assertIn("vit", depths)
        self.assertGreater(self.value(families, "qkv_tokens", "qkv_tokens_total", model="english-italian"), 0)
        self.assertEqual(self.value(families, "qkv_models_loaded", "qkv_models_loaded"), 2)
        self.assertGreater(self.value(families, "qkv_model_bytes", "qkv_model_bytes"), 0)
        self.assertGreater(self.value(families, "process_cpu_seconds", "process_cpu_seconds_total"), 0)
        self.assertGreater(self.value(families, "process_resident_memory_bytes", "process_resident_memory_bytes"), 1e6)
        self.assertEqual(self.value(families, "qkv_build_info", "qkv_build_info"), 1)
        for family in families.values():
            self.assertTrue(family.documentation, family.name)


served.run()
