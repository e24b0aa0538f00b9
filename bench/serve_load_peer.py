"""The usual way to serve a model: FastAPI, Pillow and ONNX Runtime. PYTHON bench/serve_load_peer.py MODEL.onnx PORT

A photo is the body; it is decoded, resized to the model's input and normalised as ImageNet's models are, and computed
alone, in a thread of the pool, as FastAPI's documentation has it. ONNX Runtime uses all cores for each.
"""

import io
import sys

import numpy as np
import onnxruntime
import uvicorn
from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from PIL import Image

session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
name, (_, channels, height, width) = session.get_inputs()[0].name, session.get_inputs()[0].shape
app = FastAPI()


def classify(body):
    image = Image.open(io.BytesIO(body)).convert("L" if channels == 1 else "RGB")
    image = image.resize((width, height), Image.Resampling.BICUBIC)
    pixels = np.asarray(image, dtype=np.float32).reshape(height, width, channels).transpose(2, 0, 1)[None] / 127.5 - 1
    logits = session.run(None, {name: pixels})[0][0]
    probabilities = np.exp(logits - logits.max())
    probabilities /= probabilities.sum()
    best = np.argsort(-probabilities)[:5]
    return {"top": [{"index": int(i), "score": float(probabilities[i])} for i in best]}


@app.post("/classify")
async def answer(request: Request):
    return await run_in_threadpool(classify, await request.body())


uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="error")
