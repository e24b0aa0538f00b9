"""What is offered: options that cannot be are refused at the start, and SIGHUP reads the list again, for the page too."""
import served

served.main()

import json  # noqa: E402
import shutil  # noqa: E402
import signal  # noqa: E402
import struct  # noqa: E402
import subprocess  # noqa: E402
import tempfile  # noqa: E402
import time  # noqa: E402
import unittest  # noqa: E402
from pathlib import Path  # noqa: E402

VIT = served.GOLDEN / "hf_vit_labels"


class Models(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def refused(self, *arguments):
        done = subprocess.run([served.Served.program, *map(str, arguments)], capture_output=True, text=True, timeout=30)
        self.assertEqual(done.returncode, 1, done.stderr)
        return done.stderr

    def test_refuses_at_the_start_what_cannot_be(self):
        half = self.folder / "half"
        half.mkdir()
        shutil.copy(VIT / "config.json", half)
        for command in ("serve", "--port=0"), ("explore", "--no-browser", "--port=0"):
            self.assertIn("nosuch", self.refused(*command, "-m", "nosuch"))
            self.assertIn("half", self.refused(*command, "-m", half))
        bert = served.GOLDEN / "tasks/bert"
        self.assertIn(f"qkv attend -m {bert}", self.refused("explore", "--no-browser", "--port=0", "-m", bert))
        self.assertIn("--dtype", self.refused("serve", "--port=0", "--dtype", "int8"))
        self.assertIn("--dtype", self.refused("serve", "--port=0", "-m", "digits", "--dtype", "fp7"))
        config = self.folder / "server.yaml"
        config.write_text("port: 0\nmodels:\n  - {id: vit, path: nosuch}\n")
        self.assertIn("line 3: models.path", self.refused("serve", "--config", config))

    def offered(self, server):
        """Ids of /v1/models, and titles by id on the page."""
        listed = json.loads(server.call("GET", "/v1/models")[2])["data"]
        status, _, packet = server.call("POST", "/explore/models", "{}", {"Content-Type": "application/json"})
        self.assertEqual(status, 200, packet)
        (length,) = struct.unpack_from("<I", packet)
        page = json.loads(packet[4:4 + length])["models"]
        return [model["id"] for model in listed], {model["id"]: model["title"] for model in page}

    def test_reads_the_list_again(self):
        config = self.folder / "server.yaml"
        config.write_text("port: 0\nmodels:\n  - {id: digits}\n")
        server = served.Server(served.Served.program, config=config)
        try:
            ids, page = self.offered(server)
            self.assertEqual(ids, ["digits"])
            self.assertEqual(page["digits"], "Digits")
            config.write_text(f"port: 0\nmodels:\n  - {{id: one, path: {VIT}}}\n  - {{path: {VIT}}}\n")
            server.process.send_signal(signal.SIGHUP)
            for _ in range(200):
                ids, page = self.offered(server)
                if ids == ["one", VIT.name]:
                    break
                time.sleep(0.05)
            self.assertEqual((page["one"], page[VIT.name]), ("one", VIT.name))
            config.write_text(f"port: 0\nmodels:\n  - {{id: vit, path: {VIT}, title: A ViT, at_start: true}}\n")
            server.process.send_signal(signal.SIGHUP)
            for _ in range(200):
                ids, page = self.offered(server)
                if ids == ["vit"] and server.call("GET", "/v2/health/ready")[0] == 200:
                    break
                time.sleep(0.05)
            self.assertEqual(ids, ["vit"])
            self.assertEqual(page["vit"], "A ViT")
            self.assertIn("digits", page)  # comes with qkv
            config.write_text("port: 0\nmodels: 7\n")
            server.process.send_signal(signal.SIGHUP)
            for _ in range(200):
                if "expected a list" in server.logged():
                    break
                time.sleep(0.05)
            self.assertIn("expected a list", server.logged())
            self.assertEqual(self.offered(server)[0], ["vit"])
        finally:
            self.assertEqual(server.stop(), 0)

    def test_offers_what_comes_with_qkv_once(self):
        config = self.folder / "server.yaml"
        config.write_text(f"port: 0\nmodels:\n  - {{id: en-it, path: {served.ROOT / 'models/english-italian'}}}\n")
        server = served.Server(served.Served.program, config=config)
        try:
            ids, page = self.offered(server)
            self.assertEqual(ids, ["en-it"])
            self.assertEqual(set(page), {"en-it", "digits", "digits-shared", "digits-merged"})
        finally:
            self.assertEqual(server.stop(), 0)


served.run()
