"""Writes the folder of static files that is the explorer without a server: what `make web` runs last (docs/web.md).

    python3 tools/web_folder.py PAGE WASM THREADS OUT

PAGE: the page, one HTML file. WASM: the folder of the build of qkv.js and qkv.wasm. THREADS: that of the build with
threads, or nothing (an empty word). OUT is written anew: index.html, qkv-worker.js, qkv.js, qkv.wasm, qkv-threads.*,
models/, the headers that a host needs for threads, and offline.html, which has all of it in one file and runs from disk.
"""
import base64
import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENGINE = ROOT / "web/engine"
# Models beside the page; the digits are in the program. Title, and files that the engine reads.
MODELS = {
    "digits-shared": ("Digits, shared queries and keys", ["config.json", "model.safetensors"]),
    "digits-merged": ("Digits, merged queries and keys", ["config.json", "model.safetensors"]),
    "cifar10": ("Photographs of 10 kinds (CIFAR-10)", ["config.json", "model.safetensors"]),
    "english-italian": ("English to Italian, of descriptions of software",
                        ["config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
                         "model.safetensors"]),
}
# With these a browser lets the workers of the page share memory, and qkv uses all cores. Hosts that read another file or
# none: docs/web.md.
HEADERS = """/*
  Cross-Origin-Opener-Policy: same-origin
  Cross-Origin-Embedder-Policy: require-corp
  Cross-Origin-Resource-Policy: same-origin
"""
# The page of a disk may not start a worker from a file, but from its own text.
FROM_TEXT = """{
  const FromFile = self.Worker;
  self.Worker = function (url, options) {
    if (!String(url).endsWith("qkv-worker.js")) return new FromFile(url, options);
    const text = document.getElementById("qkv-engine-text").textContent;
    return new FromFile(URL.createObjectURL(new Blob([text], { type: "text/javascript" })), options);
  };
}"""


def insert(page, place, text):
    """The page with the text after the first `place`."""
    at = page.find(place)
    if at < 0:
        sys.exit(f"web_folder: the page has no {place}")
    at += len(place)
    return page[:at] + text + page[at:]


def script(text):
    """Text that a script element may hold."""
    return text.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def write_models(out):
    """The models' files and models/index.json, by the names that the worker reads: {path: bytes}."""
    files = {}
    models = {model: what for model, what in MODELS.items() if (ROOT / "models" / model).is_dir()}
    for model, (_, names) in models.items():
        for name in names:
            files[f"models/{model}/{name}"] = (ROOT / "models" / model / name).read_bytes()
    index = {"models": [{"id": model, "title": title, "files": names} for model, (title, names) in models.items()]}
    for path, data in files.items():
        (out / path).parent.mkdir(parents=True, exist_ok=True)
        (out / path).write_bytes(data)
    (out / "models/index.json").write_text(json.dumps(index))
    subprocess.run(["node", ENGINE / "describe.mjs", out], check=True)
    files["models/index.json"] = (out / "models/index.json").read_bytes()
    return files


def worker_text():
    """The worker as a classic script, which exports nothing, with what it knows of packets."""
    packets = (ENGINE / "packet.mjs").read_text().replace("\nexport ", "\n")
    return packets + (ENGINE / "qkv-worker.js").read_text()


def offline(page, files, engine):
    """The page with the engine, its models and the worker inside."""
    texts = {path: base64.b64encode(data).decode() for path, data in files.items()}
    worker = f"self.qkvEmbedded = {json.dumps(texts)};\n{engine}\n{worker_text()}"
    if "script-src " in page:  # the page's Content-Security-Policy names its scripts
        digest = base64.b64encode(hashlib.sha256(FROM_TEXT.encode()).digest()).decode()
        page = insert(page, "script-src ", f"'sha256-{digest}' ")
    return insert(page, "<head>", f'\n<script type="text/plain" id="qkv-engine-text">{script(worker)}</script>\n'
                                  f"<script>{FROM_TEXT}</script>\n")


def main(page, wasm, threads, out):
    out = Path(out)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    page = insert(Path(page).read_text(), "<head>", '\n<meta name="qkv-engine" content="wasm">')
    (out / "index.html").write_text(page)
    (out / "qkv-worker.js").write_text(worker_text())
    built = [Path(wasm) / name for name in ("qkv.js", "qkv.wasm")]
    if threads:
        built += [Path(threads) / f"qkv-threads.{ending}" for ending in ("js", "wasm", "worker.js")]
    for path in built:
        shutil.copy(path, out)
    (out / "_headers").write_text(HEADERS)
    files = write_models(out)
    files["qkv.wasm"] = (out / "qkv.wasm").read_bytes()
    (out / "offline.html").write_text(offline(page, files, (out / "qkv.js").read_text()))
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    print(f"{out}: {size / 1e6:.1f} MB, of which offline.html is {(out / 'offline.html').stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
