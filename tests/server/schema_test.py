"""schemathesis against the OpenAPI document that qkv serve gives: no finding."""
import served

served.main("schemathesis")

import os  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
import tempfile  # noqa: E402

# Whether bytes are an image, or a model has a block 7, is beyond a schema: such refusals are no findings.
CONFIG = """
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "400", "401", "403", "404", "413", "415", "422", "429"]
"""
EXAMPLES = int(os.environ.get("QKV_SCHEMA_EXAMPLES", "25"))


class Schema(served.Served):
    def test_no_finding(self):
        with tempfile.TemporaryDirectory() as folder:
            config = os.path.join(folder, "schemathesis.toml")
            with open(config, "w") as file:
                file.write(CONFIG)
            done = subprocess.run(
                [sys.executable, "-m", "schemathesis.cli", "--config-file", config, "run", self.server.url + "/openapi.json",
                 "--url", self.server.url, "--checks", "all", "--phases", "examples,coverage,fuzzing",
                 "--max-examples", str(EXAMPLES), "--seed", "1", "--no-color", "--continue-on-failure",
                 "--suppress-health-check", "all"],
                cwd=folder, capture_output=True, text=True, timeout=600)  # fmt: skip
        print(done.stdout[-1500:])
        self.assertEqual(done.returncode, 0, done.stdout[-30000:] + done.stderr[-3000:])


served.run()
