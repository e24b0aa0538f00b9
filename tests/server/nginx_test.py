"""docs/nginx.conf in front of qkv serve: TLS, HTTP/1.1 to the server, streams unbuffered, the counters closed."""
import served

served.main()

import http.client  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import shutil  # noqa: E402
import socket  # noqa: E402
import ssl  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
import tempfile  # noqa: E402
import time  # noqa: E402
import unittest  # noqa: E402
from pathlib import Path  # noqa: E402

NGINX = shutil.which("nginx") or ("/usr/sbin/nginx" if os.path.exists("/usr/sbin/nginx") else None)
if NGINX is None or shutil.which("openssl") is None:
    print("skipped: no nginx or openssl")
    sys.exit(served.SKIPPED)

HOST = "qkv.example.org"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Nginx(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        folder = Path(cls.folder.name)
        (folder / "server.yaml").write_text(served.configuration() + f"hosts: {HOST}\n")
        cls.server = served.Server(served.Served.program, config=folder / "server.yaml")
        cls.port = free_port()
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                        "-keyout", folder / "key.pem", "-out", folder / "cert.pem", "-days", "2", "-subj", f"/CN={HOST}",
                        "-addext", f"subjectAltName=DNS:{HOST}"], check=True, capture_output=True)  # fmt: skip
        given = (served.ROOT / "docs/nginx.conf").read_text()
        for old, new in (("127.0.0.1:8080", f"127.0.0.1:{cls.server.port}"), ("listen 443", f"listen 127.0.0.1:{cls.port}"),
                         ("  listen [::]:443 ssl http2;\n", ""),
                         ("/etc/letsencrypt/live/qkv.example.org/fullchain.pem", str(folder / "cert.pem")),
                         ("/etc/letsencrypt/live/qkv.example.org/privkey.pem", str(folder / "key.pem"))):  # fmt: skip
            assert old in given, old
            given = given.replace(old, new)
        paths = "".join(f"  {kind}_temp_path {folder}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        (folder / "nginx.conf").write_text(
            f"daemon off;\npid {folder}/pid;\nerror_log {folder}/error.log;\nevents {{}}\n"
            f"http {{\n  access_log off;\n{paths}{given}}}\n")
        cls.nginx = subprocess.Popen([NGINX, "-p", str(folder), "-c", str(folder / "nginx.conf")], stderr=subprocess.PIPE)
        cls.context = ssl.create_default_context(cafile=folder / "cert.pem")
        for _ in range(100):
            try:
                socket.create_connection(("127.0.0.1", cls.port)).close()
                return
            except OSError:
                time.sleep(0.05)
        raise RuntimeError(cls.nginx.stderr.read())

    @classmethod
    def tearDownClass(cls):
        cls.nginx.terminate()
        cls.nginx.wait(20)
        cls.nginx.stderr.close()
        assert cls.server.stop() == 0
        cls.folder.cleanup()

    def call(self, method, path, body=None, headers=None):
        # The name is the certificate's, the address this machine's.
        connection = http.client.HTTPSConnection(HOST, self.port, context=self.context, timeout=30)
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        connection.sock = self.context.wrap_socket(plain, server_hostname=HOST)
        connection.request(method, path, body, headers or {})
        return connection, connection.getresponse()

    def test_answers_through_tls(self):
        image = (served.DIGITS / "7-black.png").read_bytes()
        connection, answer = self.call("POST", "/v1/classify", image, {"Content-Type": "image/png"})
        self.assertEqual(answer.status, 200)
        self.assertEqual(json.loads(answer.read())["data"][0]["top"][0]["label"], "7")
        self.assertEqual(len(answer.headers["X-Request-Id"]), 16)
        connection.close()

    def test_streams_are_not_held_back(self):
        fields = {"model": "llama", "prompt": "Once", "max_tokens": 20, "stream": True, "temperature": 1, "seed": 1}
        connection, answer = self.call("POST", "/v1/generate", json.dumps(fields), {"Content-Type": "application/json"})
        self.assertEqual(answer.status, 200)
        first = answer.read1(65536)
        self.assertTrue(first.startswith(b"data: {"), first)
        self.assertTrue((first + answer.read()).endswith(b"data: [DONE]\n\n"))
        connection.close()

    def test_counters_are_closed(self):
        connection, answer = self.call("GET", "/metrics")
        self.assertEqual(answer.status, 403)
        connection.close()

    def test_limit_of_bodies(self):
        headers = {"Content-Type": "image/png", "Content-Length": "64000001"}  # a byte more than limits.body
        connection, answer = self.call("POST", "/v1/classify", b"", headers)
        self.assertEqual(answer.status, 413)
        connection.close()


served.run()
