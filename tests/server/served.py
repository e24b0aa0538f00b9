"""A server for the tests over the wire: `qkv serve` with the models of models.yaml.

A test is a file of unittest that begins with `served.main(...)`; it is run as python3 FILE PROGRAM. A package that it
needs and that this Python lacks is looked for in the environment of tools/server_env.sh; without it the test is skipped
(exit status 77).
"""
import contextlib
import http.client
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/golden"))
import pack  # noqa: E402

GOLDEN = pack.unpacked("tests/golden")
DIGITS = ROOT / "examples/digits"
VENV = Path(os.environ.get("QKV_SERVER_VENV", Path.home() / ".cache/qkv/server-venv"))
SKIPPED = 77


def require(*packages):
    """Runs this file again with the environment's Python if a package is missing here."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if not missing:
        return
    python = VENV / "bin/python"
    if python.exists() and Path(sys.prefix) != VENV:
        os.execv(python, [str(python), *sys.argv])
    print(f"skipped: no {', '.join(missing)} (tools/server_env.sh installs them)")
    sys.exit(SKIPPED)


def configuration():
    """models.yaml with whole paths."""
    text = (ROOT / "tests/server/models.yaml").read_text()
    return text.replace("path: golden", f"path: {GOLDEN}").replace("path: models", f"path: {ROOT}/models")


class Server:
    """A running server: its port, its process, and what it logged."""

    def __init__(self, program, *options, config=None):
        self.log = tempfile.TemporaryFile()
        self.folder = tempfile.TemporaryDirectory()
        if config is None:
            config = Path(self.folder.name) / "models.yaml"
            config.write_text(configuration())
        self.process = subprocess.Popen([program, "serve", "--config", str(config), "--port", "0", *options],
                                        stdout=subprocess.PIPE, stderr=self.log, text=True)  # fmt: skip
        self.url = self.process.stdout.readline().strip()
        if not self.url:
            self.process.wait()
            raise RuntimeError(self.logged())
        self.port = int(self.url.rsplit(":", 1)[1])
        while self.process.poll() is None and self.call("GET", "/v2/health/ready")[0] == 503:
            time.sleep(0.05)

    def logged(self):
        self.log.seek(0)
        return self.log.read().decode()

    def stop(self):
        self.process.terminate()
        status = self.process.wait(60)
        self.process.stdout.close()
        return status

    def call(self, method, path, body=None, headers=None, timeout=60):
        """(status, headers, body) of one request."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        with contextlib.closing(connection):
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()

    def post(self, path, fields, **options):
        """The answer's JSON to a JSON object."""
        status, _, body = self.call("POST", path, json.dumps(fields), {"Content-Type": "application/json"}, **options)
        answer = json.loads(body)
        if status != 200:
            raise RuntimeError(f"{status}: {answer}")
        return answer


class Served(unittest.TestCase):
    """Tests with one server for all of a class."""

    program = None
    options = ()

    @classmethod
    def setUpClass(cls):
        cls.server = Server(cls.program, *cls.options)

    @classmethod
    def tearDownClass(cls):
        status = cls.server.stop()
        logged = cls.server.logged()
        assert status == 0, f"the server ended with {status}: {logged[-2000:]}"
        faults = [line for line in logged.splitlines() if re.search(r'"event": ?"fault"', line)]
        assert not faults, faults[:5]


def form(fields, files):
    """(body, content type) of multipart/form-data. files: {name: bytes}"""
    boundary = "qkv0123456789"
    parts = []
    for name, value in fields.items():
        parts.append(f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode())
    for name, value in files.items():
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"; filename="blob"\r\n\r\n'
        parts.append(head.encode() + value + b"\r\n")
    return b"".join(parts) + f"--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"


def main(*packages):
    """Call it before importing the packages that are to be there."""
    if len(sys.argv) < 2:
        sys.exit(f"usage: {sys.argv[0]} PROGRAM")
    require(*packages)
    Served.program = sys.argv[1]


def run():
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=1)
