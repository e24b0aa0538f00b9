"""Load on `qkv serve`, on loopback: python3 bench/serve_load.py --qkv build/release/qkv --model FOLDER --photos FOLDER

Prints one JSON object, and lines on stderr while it works:
  throughput  images/s of the server in a closed loop, beside `qkv classify` on the same photos (its own batches)
  latency     p50, p99 in ms at 70 % of that throughput, arrivals by a Poisson process
  overload    at three times the throughput: answers by status, lost requests, resident memory
  end         SIGTERM under load: requests that were sent before it and have no answer
  memory      resident memory over many requests: its growth from a fifth of them to all

With --peer PYTHON (an environment with fastapi, uvicorn, python-multipart, onnxruntime, numpy, pillow) and --onnx FILE the
same throughput and latency of FastAPI with ONNX Runtime (serve_load_peer.py), in turns with qkv's. Photos are sent as
they are: decoding is part of the work of both. The load takes some of the processor too, of all alike.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
CONNECTIONS = 32
ENDINGS = (".jpg", ".jpeg", ".png")


def say(text):
    print(text, file=sys.stderr, flush=True)


class Connection:
    """One request after the other over a connection that is kept."""

    def __init__(self, port):
        self.port, self.reader, self.writer = port, None, None

    async def ask(self, request):
        """The status of the answer; None if the connection ended without one."""
        try:
            if self.writer is None:
                self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
            self.writer.write(request)
            await self.writer.drain()
            head = await self.reader.readuntil(b"\r\n\r\n")
            lines = head.decode("latin-1").lower().split("\r\n")
            headers = dict(line.split(": ", 1) for line in lines[1:] if ": " in line)
            await self.reader.readexactly(int(headers["content-length"]))
            if headers.get("connection") == "close":
                self.close()
            return int(lines[0].split()[1])
        except (OSError, asyncio.IncompleteReadError):
            self.close()
            return None

    def close(self):
        if self.writer is not None:
            self.writer.close()
        self.reader = self.writer = None


def request_of(photo, path):
    body = photo.read_bytes()
    kind = "png" if photo.suffix == ".png" else "jpeg"
    head = (f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: image/{kind}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n")  # fmt: skip
    return head.encode() + body


async def closed_loop(port, requests, seconds, connections=CONNECTIONS, stop=None, log=None):
    """(answers by status, seconds). Each connection asks again when it has its answer."""
    answers, end = Counter(), time.perf_counter() + seconds

    async def one(number):
        connection = Connection(port)
        while time.perf_counter() < end and not (stop and stop.is_set()):
            request = requests[random.randrange(len(requests))]
            began = time.perf_counter()
            status = await connection.ask(request)
            answers[status] += 1
            if log is not None:
                log.append((began, status))
            if status == 429:
                await asyncio.sleep(0.05)
        connection.close()

    start = time.perf_counter()
    await asyncio.gather(*(one(number) for number in range(connections)))
    return answers, time.perf_counter() - start


async def open_loop(port, requests, rate, seconds):
    """(answers by status, latencies in s of those of 200, longest first wait). Requests come whether or not others have
    their answers, each on a free connection."""
    answers, latencies, free, tasks = Counter(), [], [], set()

    async def one():
        connection = free.pop() if free else Connection(port)
        start = time.perf_counter()
        status = await connection.ask(requests[random.randrange(len(requests))])
        answers[status] += 1
        if status == 200:
            latencies.append(time.perf_counter() - start)
        free.append(connection)

    start = due = time.perf_counter()
    while due < start + seconds:
        due += random.expovariate(rate)
        await asyncio.sleep(max(0, due - time.perf_counter()))
        task = asyncio.ensure_future(one())
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)
    for connection in free:
        connection.close()
    return answers, latencies


def resident(process):
    """MB"""
    text = Path(f"/proc/{process.pid}/status").read_text()
    return int(next(line for line in text.splitlines() if line.startswith("VmRSS")).split()[1]) / 1000


class Qkv:
    def __init__(self, program, model, active=None):
        self.folder = tempfile.TemporaryDirectory()
        config = Path(self.folder.name) / "server.yaml"
        config.write_text(f"log: false\nlimits: {{active: {active or 128}}}\nmodels:\n  - {{id: model, at_start: true"
                          + (f", path: {model}" if model else "") + "}\n")  # fmt: skip
        self.process = subprocess.Popen([program, "serve", "--config", str(config), "--port", "0"],
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)  # fmt: skip
        self.port = int(self.process.stdout.readline().rsplit(":", 1)[1])
        self.path = "/v1/classify?top=5"

    def stop(self):
        self.process.terminate()
        status = self.process.wait(60)
        self.process.stdout.close()
        self.folder.cleanup()
        return status


class FastApi:
    def __init__(self, python, onnx):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.process = subprocess.Popen([python, str(HERE / "serve_load_peer.py"), onnx, str(self.port)],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
        self.path = "/classify"
        for _ in range(600):
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except OSError:
                time.sleep(0.1)
        raise RuntimeError("the peer does not listen")

    def stop(self):
        self.process.terminate()
        return self.process.wait(60)


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] if values else None


def library_rate(program, model, photos, folder):
    """images/s of `qkv classify`: of twice as many photos minus once as many, so that loading does not count."""

    def seconds(repeats):
        place = Path(folder) / f"photos-{repeats}"
        place.mkdir(exist_ok=True)
        for r in range(repeats):
            for i, photo in enumerate(photos):
                (place / f"{r:03}-{i:05}{photo.suffix}").symlink_to(photo.resolve())
        command = [program, "classify", "-q", "--json", *(["-m", model] if model else []), str(place)]
        start = time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        return time.perf_counter() - start

    repeats = max(1, 200 // len(photos))
    seconds(1)
    return repeats * len(photos) / (seconds(2 * repeats) - seconds(repeats))


def measure(server, photos, seconds, rate=None):
    """Throughput, and latency at 70 % of it."""
    requests = [request_of(photo, server.path) for photo in photos]
    asyncio.run(closed_loop(server.port, requests, 2))
    answers, took = asyncio.run(closed_loop(server.port, requests, seconds))
    throughput = answers[200] / took
    at_70, latencies = asyncio.run(open_loop(server.port, requests, 0.7 * (rate or throughput), seconds))
    return {"images_per_second": round(throughput, 2), "answers": named(answers),
            "p50_ms": round(1e3 * percentile(latencies, 0.5), 2), "p99_ms": round(1e3 * percentile(latencies, 0.99), 2),
            "answers_at_70": named(at_70)}  # fmt: skip


def named(answers):
    return {"lost" if status is None else str(status): count for status, count in sorted(answers.items(), key=str)}


def overload(server, photos, rate, seconds):
    requests = [request_of(photo, server.path) for photo in photos]
    before, highest = resident(server.process), 0

    async def run():
        nonlocal highest

        async def watch():
            nonlocal highest
            while True:
                highest = max(highest, resident(server.process))
                await asyncio.sleep(0.2)

        watching = asyncio.ensure_future(watch())
        try:
            return await open_loop(server.port, requests, 3 * rate, seconds)
        finally:
            watching.cancel()

    answers, latencies = asyncio.run(run())
    return {"answers": named(answers), "good_per_second": round(answers[200] / seconds, 2), "lost": answers[None],
            "p99_ms": round(1e3 * percentile(latencies, 0.99), 2), "resident_before_mb": round(before),
            "resident_highest_mb": round(highest)}  # fmt: skip


def end_under_load(program, model, photos):
    """Requests that were sent before SIGTERM get their answers."""
    server = Qkv(program, model)
    requests = [request_of(photo, server.path) for photo in photos]
    log, stopped = [], None

    async def run():
        nonlocal stopped
        stop = asyncio.Event()
        load = asyncio.ensure_future(closed_loop(server.port, requests, 30, connections=16, stop=stop, log=log))
        await asyncio.sleep(2)
        stopped = time.perf_counter()
        server.process.send_signal(signal.SIGTERM)
        stop.set()
        await load

    asyncio.run(run())
    status = server.stop()
    before = [answer for began, answer in log if began < stopped]
    return {"sent_before": len(before), "lost": sum(answer is None for answer in before), "exit_status": status}


def growth(program, count, photo):
    """Many small requests, of the built-in digits: the memory does not grow."""
    server = Qkv(program, None)
    requests = [request_of(photo, server.path)]
    samples, done = [], 0
    while done < count:
        answers, _ = asyncio.run(closed_loop(server.port, requests, 2))
        done += sum(answers.values())
        samples.append((done, resident(server.process)))
    server.stop()
    early = next(size for number, size in samples if number >= count / 5)
    return {"requests": done, "resident_mb_at_a_fifth": round(early, 1), "resident_mb": round(samples[-1][1], 1),
            "growth_mb": round(samples[-1][1] - early, 1)}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--qkv", default="build/release/qkv")
    parser.add_argument("--model", help="folder of a classifier; the built-in digits without it")
    parser.add_argument("--photos", default=str(HERE.parent / "examples/digits"))
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=100_000, help="of the test of memory")
    parser.add_argument("--peer", help="Python of an environment with fastapi and onnxruntime")
    parser.add_argument("--onnx", help="the same model for it")
    options = parser.parse_args()
    random.seed(1)
    photos = sorted(path for path in Path(options.photos).rglob("*") if path.suffix.lower() in ENDINGS)
    if not photos:
        sys.exit(f"{options.photos}: no photos")
    result = {"cores": len(os.sched_getaffinity(0)), "photos": len(photos), "rounds": []}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.rounds):
            server = Qkv(options.qkv, options.model)
            one = {"server": measure(server, photos, options.seconds)}
            server.stop()
            place = Path(folder) / str(number)
            place.mkdir()
            one["library_images_per_second"] = round(library_rate(options.qkv, options.model, photos, place), 2)
            one["ratio"] = round(one["server"]["images_per_second"] / one["library_images_per_second"], 3)
            if options.peer:
                peer = FastApi(options.peer, options.onnx)
                one["fastapi_onnxruntime"] = measure(peer, photos, options.seconds)
                peer.stop()
            say(f"round {number + 1}: {one}")
            result["rounds"].append(one)
        rate = statistics.median(one["server"]["images_per_second"] for one in result["rounds"])
        server = Qkv(options.qkv, options.model)
        result["overload"] = overload(server, photos, rate, options.seconds)
        say(f"overload: {result['overload']}")
        server.stop()
    result["end"] = end_under_load(options.qkv, options.model, photos)
    say(f"end: {result['end']}")
    result["memory"] = growth(options.qkv, options.requests, HERE.parent / "examples/digits/7-black.png")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
