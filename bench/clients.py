"""Many kinds of client at once on one `qkv serve`, on loopback: python3 bench/clients.py --qkv build/release/qkv

Good, heavy, slow and hostile clients (--list) ask for --minutes: each kind has a few connections, with one request in
flight on each (the pipelined kind has eight). Prints a Markdown table: of each kind the requests sent, answers by
status, requests lost (the connection ended where an answer was due) and the latency of answers in ms; of the server its
memory, processor time and exit status after SIGTERM. `digit-body` is the headline: one digit at a time, 1 ms of work.
"wrong" counts answers with another class or other bytes than before.

    --json FILE                keeps the numbers
    --compare A.json B.json    prints two runs side by side and starts nothing

The models come with qkv and its tests, beside a ViT-B/16 of random weights that is made here. Needs NumPy.
"""

import argparse
import asyncio
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import clients_requests as requests
import serve_load
from serve_load import percentile, resident

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests/golden"))
from pack import unpacked  # noqa: E402

GRACE = 75  # s that requests in flight have at the end: request_seconds and a little
ANSWER_LIMIT = 120  # s until a client takes an answer as lost
MILLISECONDS = {"p50_ms": 0.5, "p99_ms": 0.99, "max_ms": 1}  # shares of the answers
BROKEN = (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, asyncio.TimeoutError, ValueError, IndexError)


class Tally:
    """What the clients of one kind saw."""

    def __init__(self):
        self.sent = self.lost = self.left = self.wrong = self.unfinished = 0
        self.answers, self.seconds, self.first = Counter(), [], {}

    def answered(self, answer, began):
        """Counts an answer, or None for one that was due and did not come."""
        if answer is None:
            self.lost += 1
            return
        self.answers[answer.status] += 1
        self.seconds.append(time.perf_counter() - began)

    def summary(self, connections):
        ms = {name: round(1e3 * percentile(self.seconds, share), 1) if self.seconds else None
              for name, share in MILLISECONDS.items()}  # fmt: skip
        answers = {str(status): count for status, count in sorted(self.answers.items())}
        return {"connections": connections, "sent": self.sent, "answers": answers, "lost": self.lost, "left": self.left,
                "wrong": self.wrong, "unfinished": self.unfinished, **ms}  # fmt: skip


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body


class Connection(serve_load.Connection):
    """One whose answers are read whole, of any framing, and whose requests may be refused before their end."""

    async def open(self):
        if self.writer is None:
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 20)

    async def send(self, data):
        """Sends what the server takes: one that refuses a body answers before its end."""
        await self.open()
        try:
            self.writer.write(data)
            await asyncio.wait_for(self.writer.drain(), ANSWER_LIMIT)
        except (OSError, asyncio.TimeoutError):
            pass

    async def read_body(self, headers):
        if headers.get("transfer-encoding") == "chunked":
            body = b""
            while size := int((await self.reader.readuntil(b"\r\n")).split(b";")[0], 16):
                body += (await self.reader.readexactly(size + 2))[:-2]
            await self.reader.readuntil(b"\r\n")
            return body
        if "content-length" in headers:
            return await self.reader.readexactly(int(headers["content-length"]))
        return await self.reader.read()

    async def receive(self):
        """The next answer; None if the connection ended without a whole one."""
        try:
            async with asyncio.timeout(ANSWER_LIMIT):
                lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                headers = dict(line.lower().split(": ", 1) for line in lines[1:] if ": " in line)
                answer = Answer(int(lines[0].split()[1]), headers, await self.read_body(headers))
        except BROKEN:
            self.close()
            return None
        if headers.get("connection") == "close" or lines[0].startswith("HTTP/1.0"):
            self.close()
        return answer

    async def ask(self, data):
        try:
            await self.send(data)
            return await self.receive()
        except OSError:
            self.close()
            return None


class Site:
    """The server under load, and until when."""

    def __init__(self, process, port, seconds):
        self.process, self.port, self.end = process, port, time.perf_counter() + seconds

    def goes_on(self):
        return self.process.poll() is None and time.perf_counter() < self.end

    async def pause(self, seconds):
        await asyncio.sleep(max(0, min(seconds, self.end - time.perf_counter())))


# What a client does again and again: async (site, connection, tally, request, rng). A request is bytes.


async def ask(site, connection, tally, request, rng):
    """Asks, and checks the answer where the kind of client says how."""
    tally.sent += 1
    began = time.perf_counter()
    answer = await connection.ask(request.data)
    tally.answered(answer, began)
    if answer is None or answer.status != 200 or request.check is None:
        return
    same = tally.first.setdefault(request.data, answer.body) == answer.body
    try:
        right = request.check(answer)
    except (ValueError, KeyError, IndexError, OSError, EOFError):
        right = False
    tally.wrong += not (same and right)


async def leave(site, connection, tally, request, rng):
    """Sends a request, whole or cut by the kind, and goes after 50 ms."""
    tally.sent += 1
    tally.left += 1
    await connection.send(request.data)
    await asyncio.sleep(0.05)
    connection.close()


async def drip(site, connection, tally, request, rng):
    """Sends a piece every 0.4 s, in about eight seconds; stops when the server answers."""
    tally.sent += 1
    began = time.perf_counter()
    await connection.open()
    receiving = asyncio.ensure_future(connection.receive())
    for start in range(0, len(request.data), request.piece):
        if receiving.done() or connection.writer is None:
            break
        connection.writer.write(request.data[start : start + request.piece])
        await asyncio.sleep(0.4)
    tally.answered(await receiving, began)


async def read_slowly(site, connection, tally, request, rng):
    """Takes a stream 512 bytes at a time, 20 times a second."""
    tally.sent += 1
    began = time.perf_counter()
    await connection.send(request.data)
    taken = b""
    try:
        while not taken.endswith(b"0\r\n\r\n"):
            piece = await asyncio.wait_for(connection.reader.read(512), ANSWER_LIMIT)
            if not piece:
                break
            taken += piece
            await asyncio.sleep(0.05)
        status = int(taken.split(b" ", 2)[1])
        whole = status != 200 or taken.endswith(b"0\r\n\r\n")
        tally.answered(Answer(status, {}, b"") if whole else None, began)
    except BROKEN:
        tally.answered(None, began)
    connection.close()


async def pipeline(site, connection, tally, request, rng):
    """Eight requests at once; their answers come in order."""
    tally.sent += 8
    began = time.perf_counter()
    await connection.send(request.data * 8)
    for _ in range(8):
        answer = await connection.receive() if connection.reader else None
        tally.answered(answer, began)
        if answer and answer.status == 200:
            tally.wrong += not request.check(answer)


async def client(site, kind, tally, number):
    """One connection of a kind, until the end."""
    rng = random.Random(f"{kind.name} {number}")
    connection = Connection(site.port)
    await site.pause(rng.random())
    while site.goes_on():
        request = kind.requests[rng.randrange(len(kind.requests))]
        try:
            await globals()[kind.does](site, connection, tally, request, rng)
        except BROKEN:
            tally.lost += 1
            connection.close()
        except asyncio.CancelledError:
            tally.unfinished += 1
            raise
        await site.pause(kind.pause)
    connection.close()


def cpu_seconds(process):
    fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def watch(site, samples):
    while site.process.poll() is None:
        samples.append((resident(site.process), cpu_seconds(site.process)))
        await asyncio.sleep(0.25)


async def load(site, kinds):
    """Tallies by kind, and (MB, CPU seconds) of the server over time."""
    tallies = {kind.name: Tally() for kind in kinds}
    samples = []
    watching = asyncio.ensure_future(watch(site, samples))
    tasks = [asyncio.ensure_future(client(site, kind, tallies[kind.name], number))
             for kind in kinds for number in range(kind.connections)]  # fmt: skip
    _, late = await asyncio.wait(tasks, timeout=max(0, site.end - time.perf_counter()) + GRACE)
    for task in late:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.sleep(1)  # for the last answers to be freed before memory is read
    watching.cancel()
    return tallies, samples


def start(program, folder):
    """The server's process and port."""
    config = Path(folder) / "server.yaml"
    models = {"vit": requests.write_vit(Path(folder) / "vit"), "clip": unpacked("tests/golden/towers/clip"),
              "en-it": ROOT / "models/english-italian", "synopsis": ROOT / "models/synopsis",
              "llama": unpacked("tests/golden/tasks/llama"), "spare": ROOT / "models/cifar10"}  # fmt: skip
    lines = [f"  - {{id: {name}, path: {path}}}\n" for name, path in models.items()]
    config.write_text("log: false\nmemory: 2GB\nmodels:\n  - {id: digits}\n" + "".join(lines))
    process = subprocess.Popen([program, "serve", "--config", str(config), "--port", "0"],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)  # fmt: skip
    return process, int(process.stdout.readline().rsplit(":", 1)[1])


def stop(process):
    """Exit status after SIGTERM; -9 if it did not end within a minute."""
    process.terminate()
    try:
        return process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def measure(options, kinds):
    folder = tempfile.mkdtemp(prefix="qkv-clients-")
    process = None
    try:
        process, port = start(options.qkv, folder)
        site = Site(process, port, 60 * options.minutes)
        tallies, samples = asyncio.run(load(site, kinds))
        survived = process.poll() is None
        status = stop(process)
    finally:
        if process and process.poll() is None:
            process.kill()
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)
    server = {"resident_highest_mb": round(max(mb for mb, _ in samples)), "resident_end_mb": round(samples[-1][0]),
              "cpu_seconds": round(samples[-1][1], 1), "survived": survived, "exit_status": status}  # fmt: skip
    return {"minutes": options.minutes, "cores": len(os.sched_getaffinity(0)), "server": server,
            "kinds": {kind.name: tallies[kind.name].summary(kind.connections) for kind in kinds}}  # fmt: skip


def answers_of(one):
    return ", ".join(f"{status}: {count}" for status, count in one["answers"].items()) or "none"


def print_table(result):
    print("| client | connections | sent | answers | lost | left | wrong | unfinished | p50, ms | p99 | max |\n"
          "|---|---:|---:|---|---:|---:|---:|---:|---:|---:|---:|")  # fmt: skip
    for name, one in result["kinds"].items():
        cells = [name, one["connections"], one["sent"], answers_of(one), one["lost"], one["left"], one["wrong"],
                 one["unfinished"], *("–" if one[key] is None else one[key] for key in MILLISECONDS)]  # fmt: skip
        print("| " + " | ".join(map(str, cells)) + " |")
    print_server([result])


def print_server(results):
    print("\n| server |" + " |" * len(results) + "\n|---|" + "---:|" * len(results))
    names = {"resident_highest_mb": "resident memory, highest, MB", "resident_end_mb": "at the end, MB",
             "cpu_seconds": "processor, s", "survived": "runs at the end",
             "exit_status": "exit status after SIGTERM"}  # fmt: skip
    for key, title in names.items():
        print(f"| {title} | " + " | ".join(str(result["server"][key]) for result in results) + " |")
    for key in ("lost", "wrong", "unfinished"):
        totals = [sum(one[key] for one in result["kinds"].values()) for result in results]
        print(f"| {key}, all clients | " + " | ".join(map(str, totals)) + " |")


def compare(files):
    before, after = (json.loads(Path(file).read_text()) for file in files)
    print("| client | answers before | after | lost | p50, ms | p99, ms | max, ms |\n|---|---|---|---:|---:|---:|---:|")
    none = Tally().summary(0)
    for name in {**before["kinds"], **after["kinds"]}:
        pair = [run["kinds"].get(name, none) for run in (before, after)]
        both = [" → ".join("–" if one[key] is None else f"{one[key]:g}" for one in pair)
                for key in ("lost", *MILLISECONDS)]  # fmt: skip
        print("| " + " | ".join([name, answers_of(pair[0]), answers_of(pair[1]), *both]) + " |")
    print_server([before, after])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--qkv", default="build/release/qkv")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--clients", help="kinds, with commas; all unless given")
    parser.add_argument("--json", help="file for the numbers")
    parser.add_argument("--compare", nargs=2, metavar="FILE", help="two such files: before and after")
    parser.add_argument("--list", action="store_true", help="print the kinds")
    options = parser.parse_args()
    if options.compare:
        return compare(options.compare)
    kinds = {kind.name: kind for kind in requests.kinds(ROOT)}
    if options.list:
        return print("\n".join(f"{kind.name:16} {kind.connections:2}  {kind.note}" for kind in kinds.values()))
    chosen = options.clients.split(",") if options.clients else list(kinds)
    if unknown := [name for name in chosen if name not in kinds]:
        sys.exit(f"--clients: no kind {', '.join(unknown)}; kinds are {', '.join(kinds)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the server is ended too
    result = measure(options, [kinds[name] for name in chosen])
    if options.json:
        Path(options.json).write_text(json.dumps(result, indent=1) + "\n")
    print_table(result)


if __name__ == "__main__":
    main()
