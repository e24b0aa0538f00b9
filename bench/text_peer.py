"""Runs one peer on texts: python bench/text_peer.py PROGRAM WORK PRECISION FOLDER THREADS

WORK is embed (FOLDER/ids.safetensors, one padded batch), sentences (FOLDER/sentences.txt, from text to vectors),
prefill (FOLDER/ids.safetensors, the last token's logits), greedy or beams (FOLDER/ids.safetensors, as many tokens
written as read). The model is FOLDER/model, in the layout of transformers. For sentences the vectors go to
FOLDER/PROGRAM-PRECISION.npy. Writes the line "ready"; then, for each line read, runs one timed pass and writes the
milliseconds.

Sentences are computed as sentence-transformers does: batches of 32 of similar lengths, padded to the longest.
"""

import os
import sys
import time
from pathlib import Path

from common import TOOLS

sys.path.insert(0, str(TOOLS))

BEAMS = 4
SENTENCES_TOGETHER = 32  # sentence-transformers' batch_size


def read_ids(folder):
    from safetensors.torch import load_file

    return load_file(folder / "ids.safetensors")["ids"]


# ---------------------------------------------------------------------------------------------------------------------
# Encoders: run(ids, mask) -> vectors, of unit length, the means of the tokens


def encoder_module(folder):
    import torch
    from transformers import AutoModel

    class Encoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = AutoModel.from_pretrained(folder / "model", dtype=torch.float32)

        def forward(self, input_ids, attention_mask):
            tokens = self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
            weights = attention_mask.unsqueeze(-1).to(tokens.dtype)
            mean = (tokens * weights).sum(1) / weights.sum(1)
            return torch.nn.functional.normalize(mean, dim=-1)

    return Encoder().eval()


def export(module, inputs, names, path):
    """An ONNX file of batches of any size and length; exported once per folder."""
    import torch

    if not path.exists():
        axes = {name: {0: "batch", 1: "tokens"} for name in names}
        with torch.no_grad():
            torch.onnx.export(module, inputs, path, dynamo=False, input_names=names, output_names=["out"],
                              dynamic_axes={**axes, "out": {0: "batch"}}, opset_version=17)  # fmt: skip
    return path


def encoder_onnx(folder):
    import torch

    example = torch.ones([2, 8], dtype=torch.int64)
    return export(encoder_module(folder), (example, example), ["input_ids", "attention_mask"], folder / "encoder.onnx")


def pytorch_encoder(folder, precision, threads):
    """int8: the linear layers, by dynamic quantisation."""
    import torch

    module = encoder_module(folder)
    if precision == "int8":
        module = torch.ao.quantization.quantize_dynamic(module, {torch.nn.Linear}, dtype=torch.qint8)

    def run(ids, mask):
        with torch.no_grad():
            return module(torch.as_tensor(ids), torch.as_tensor(mask)).numpy()

    return run


def session(path, threads):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def onnxruntime_encoder(folder, precision, threads):
    """Through its transformer optimizer, which fuses attention; int8 is dynamic quantisation, weights by channel."""
    from onnxruntime.transformers import optimizer

    path, fused = encoder_onnx(folder), folder / "encoder-fused.onnx"
    if not fused.exists():
        optimizer.optimize_model(str(path), model_type="bert", num_heads=12, hidden_size=384).save_model_to_file(
            str(fused))  # fmt: skip
    if precision == "int8":
        from onnxruntime.quantization import QuantType, quantize_dynamic

        quantized = folder / "encoder-int8.onnx"
        quantize_dynamic(fused, quantized, weight_type=QuantType.QInt8, per_channel=True,
                         extra_options={"DefaultTensorType": 1})  # float: fused operators tell no types
        fused = quantized
    run = session(fused, threads)
    return lambda ids, mask: run.run(None, {"input_ids": ids, "attention_mask": mask})[0]


def openvino_encoder(folder, precision, threads):
    """int8 is NNCF's static quantisation for transformers, calibrated on the sentences."""
    import openvino

    core = openvino.Core()
    model = core.read_model(encoder_onnx(folder))
    config = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": threads}
    if precision == "int8":
        import nncf

        batches = [dict(zip(("input_ids", "attention_mask"), pad(some))) for some in sorted_batches(tokenized(folder))]
        model = nncf.quantize(model, nncf.Dataset(batches[::4]), model_type=nncf.ModelType.TRANSFORMER,
                              preset=nncf.QuantizationPreset.MIXED, subset_size=len(batches[::4]))  # fmt: skip
    else:
        config["INFERENCE_PRECISION_HINT"] = "f32"
    request = core.compile_model(model, "CPU", config).create_infer_request()
    return lambda ids, mask: request.infer({"input_ids": ids, "attention_mask": mask})[0].copy()


def pad(texts):
    """(ids, mask), [B, N] each, of a list of ids."""
    import numpy as np

    ids = np.zeros([len(texts), max(map(len, texts))], np.int64)
    mask = np.zeros_like(ids)
    for row, text in enumerate(texts):
        ids[row, : len(text)] = text
        mask[row, : len(text)] = 1
    return ids, mask


def tokenized(folder, tokenizer=None):
    from tokenizers import Tokenizer

    tokenizer = tokenizer or Tokenizer.from_file(str(folder / "model/tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)
    lines = (folder / "sentences.txt").read_text().splitlines()
    return [text.ids for text in tokenizer.encode_batch(lines)]


def sorted_batches(texts):
    texts = sorted(texts, key=len, reverse=True)
    return [texts[i : i + SENTENCES_TOGETHER] for i in range(0, len(texts), SENTENCES_TOGETHER)]


def sentences_pass(folder, run):
    """() -> vectors in the order of the file"""
    import numpy as np
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "model/tokenizer.json"))

    def work():
        texts = tokenized(folder, tokenizer)
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        vectors = [None] * len(texts)
        for first in range(0, len(order), SENTENCES_TOGETHER):
            some = order[first : first + SENTENCES_TOGETHER]
            for i, vector in zip(some, run(*pad([texts[i] for i in some]))):
                vectors[i] = vector
        return np.stack(vectors)

    return work


# ---------------------------------------------------------------------------------------------------------------------
# Decoders and pairs


def prefill_pass(program, folder, precision, threads):
    """Of the last token's logits; keys and values are not returned, which spares the peers their copies."""
    import torch
    from transformers import AutoModelForCausalLM

    class Prefill(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = AutoModelForCausalLM.from_pretrained(folder / "model", dtype=torch.float32)

        def forward(self, input_ids):
            # Without a mask transformers looks for packed texts by an operator that ONNX does not have.
            mask = torch.ones_like(input_ids) if torch.jit.is_tracing() else None
            output = self.model(input_ids=input_ids, attention_mask=mask, use_cache=False, logits_to_keep=1)
            return output.logits[:, -1]

    module, ids = Prefill().eval(), read_ids(folder)[:1]
    if program == "pytorch":

        def work():
            with torch.no_grad():
                return module(ids)

        return work
    path = export(module, (ids,), ["input_ids"], folder / "prefill.onnx")
    if program == "openvino":
        import openvino

        core = openvino.Core()
        config = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32"}
        request = core.compile_model(core.read_model(path), "CPU", config).create_infer_request()
        return lambda: request.infer([ids.numpy()])[0]
    run, feed = session(path, threads), {"input_ids": ids.numpy()}
    return lambda: run.run(None, feed)[0]


def convert_marian(folder):
    """FOLDER/ct2, without a tokenizer: its tokens are numbers."""
    import ctranslate2
    from ctranslate2.converters.transformers import MarianMTLoader
    from transformers import MarianMTModel

    target = folder / "ct2"
    if not target.exists():
        model = MarianMTModel.from_pretrained(folder / "model")
        spec = MarianMTLoader().get_model_spec(model)
        # The loader drops the padding token, the last, and decodes from a vector of zeros.
        names = [str(i) for i in range(model.config.vocab_size - 1)]
        names[model.config.eos_token_id] = "</s>"
        spec.register_source_vocabulary(names)
        spec.register_target_vocabulary(names)
        spec.config.eos_token = spec.config.decoder_start_token = "</s>"
        spec.config.bos_token = spec.config.unk_token = "1"
        spec.validate()
        spec.optimize()
        target.mkdir()
        spec.save(str(target))
    return ctranslate2, target


def writing_pass(program, folder, beams, precision, threads):
    ids = read_ids(folder)
    ids = ids if beams > 1 else ids[:1]
    length = ids.shape[1]
    if program == "ctranslate2":
        ctranslate2, target = convert_marian(folder)
        kind = {"fp32": "float32", "int8": "int8"}[precision]
        translator = ctranslate2.Translator(str(target), "cpu", compute_type=kind, inter_threads=1, intra_threads=threads)
        tokens = [[str(int(i)) for i in row] for row in ids]

        def work():
            return translator.translate_batch(tokens, beam_size=beams, min_decoding_length=length,
                                              max_decoding_length=length, max_batch_size=0)  # fmt: skip

        return work
    import torch
    from transformers import MarianMTModel

    model = MarianMTModel.from_pretrained(folder / "model").eval()

    def work():
        with torch.no_grad():
            return model.generate(ids, attention_mask=torch.ones_like(ids), num_beams=beams, do_sample=False,
                                  min_new_tokens=length, max_new_tokens=length)  # fmt: skip

    return work


def make(program, work, precision, folder, threads):
    if work in ("embed", "sentences"):
        makers = {"pytorch": pytorch_encoder, "onnxruntime": onnxruntime_encoder, "openvino": openvino_encoder}
        run = makers[program](folder, precision, threads)
        if work == "sentences":
            return sentences_pass(folder, run)
        ids = read_ids(folder).numpy()
        mask = ids * 0 + 1
        return lambda: run(ids, mask)
    if work == "prefill":
        return prefill_pass(program, folder, precision, threads)
    return writing_pass(program, folder, BEAMS if work == "beams" else 1, precision, threads)


def main():
    program, work, precision, folder, threads = *sys.argv[1:4], Path(sys.argv[4]), int(sys.argv[5])
    # Answers go to the original stdout; output of libraries goes to the log.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    import torchvision_stub  # noqa: F401  before transformers
    import numpy as np
    import torch

    torch.set_num_threads(threads)
    run = make(program, work, precision, folder, threads)
    out = run()
    if work == "sentences":
        np.save(folder / f"{program}-{precision}.npy", out)
    print("ready", file=answers, flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        run()
        print(1e3 * (time.perf_counter() - start), file=answers, flush=True)


if __name__ == "__main__":
    main()
