// Outputs of a model with two towers beside those of its image encoder: embeddings of both towers, and logits.
#pragma once

#include <string>

#include "qkv/app/capture/capture.h"
#include "qkv/io/safetensors.h"
#include "qkv/model/checkpoint/checkpoint.h"
#include "qkv/model/vision/vit.h"

namespace qkv::app {

/// Token ids of texts, and the mask of those that others attend to: both [B, N], or the mask empty.
struct TextTensors {
  Tensor<int64_t> ids, mask;
};

/// A tensor of ids, masks or types: integers of 32 or 64 bits, [texts, tokens]. Throws Error otherwise.
Tensor<int64_t> ReadTokenTensor(const io::StoredTensor& stored, const std::string& path);

/// The tensors "input_ids" and "attention_mask" (if there is one) of a safetensors file, both [B, N] of integers.
/// Throws Error if a shape or type does not fit.
TextTensors ReadTextTensors(const io::SafeTensors& file, const std::string& path);

/// True for a tensor that ReadTextTensors reads.
bool IsTextInput(std::string_view name);

/// Adds "image_embeds" from "pooled", if it is there; for a file with "input_ids" also "text_embeds", and with both
/// "logits_per_image". Adds nothing to a model without a text encoder. file: null if there is none; path: its name.
/// Throws Error if the file holds "input_ids" for a model without a text encoder.
void AddEmbeddings(const model::Checkpoint& checkpoint, const model::BuildOptions& options, const io::SafeTensors* file,
                   const std::string& path, Captured* captured);

}  // namespace qkv::app
