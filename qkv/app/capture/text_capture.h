// All outputs of a text model, or of a model that writes about images, for token ids in a file, by the names of `qkv
// run`: `tokens` (the last hidden state), `pooled`, `encoder_tokens`, `logits`, `attention.L`, `cross_attention.L`,
// `encoder_attention.L`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/app/capture/capture.h"
#include "qkv/io/safetensors.h"
#include "qkv/model/caption_model.h"
#include "qkv/model/sequence/sequence_model.h"
#include "qkv/model/sequence/text_model.h"

namespace qkv::app {

/// The outputs for the tensors of a safetensors file: "input_ids" [B, N], optionally "attention_mask" and
/// "token_type_ids" [B, N], and "decoder_input_ids" [B, T], which an encoder-decoder needs. attention: blocks whose
/// weights are kept, in every part and layer that has them; activations are kept too. path: the file's name. Throws
/// Error that names a tensor that does not fit, and if the outputs need more than MemoryLimit().
Captured CaptureText(const model::TextModel& model, const io::SafeTensors& file, const std::string& path,
                     const std::vector<int64_t>& attention, const ActivationRequest& activations = {});

/// The same for "pixels" [B, channels, H, W] and "decoder_input_ids" [B, T].
Captured CaptureCaptions(const model::CaptionModel& model, const io::SafeTensors& file, const std::string& path,
                         const std::vector<int64_t>& attention, const ActivationRequest& activations = {});

/// The same for "input_ids" [B, N] alone, of a run of `qkv train` on a task or a text: `tokens`, `logits`,
/// `attention.L`.
Captured CaptureSequences(const model::SequenceModel<float>& model, const io::SafeTensors& file,
                          const std::string& path, const std::vector<int64_t>& attention,
                          const ActivationRequest& activations = {});

/// True for a tensor of ids, masks or types that these read.
bool IsTokenInput(std::string_view name);

/// Zeroes the padded tokens, which mean nothing, in `values`, an output of this name, by the "attention_mask" of the
/// file that CaptureText read.
template <typename T>
void HidePadding(const std::string& name, const model::TextDescription& description, const io::SafeTensors& file,
                 const std::string& path, Tensor<T>* values);

/// Number of blocks of the part with most of them.
int64_t TextDepth(const model::TextDescription& description);
/// The same for an image encoder and its decoder. Throws Error if there is no decoder.
int64_t CaptionDepth(const model::Description& description);

}  // namespace qkv::app
