// The attention layers of a text model: self-attention of its encoder and decoder, and the decoder's
// cross-attention, each read with the norm that precedes it.
//
// The norm depends on the model. With norms before the layers it is the layer's own. With norms after them (BERT,
// Marian) tokens come out of the layer before, so it is that layer's norm; in the first block the embeddings', or none.
// Cross-attention reads tokens that come out of the encoder's last norm.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/inspect/weights.h"
#include "qkv/model/checkpoint/sequence_checkpoint.h"
#include "qkv/model/checkpoint/text_checkpoint.h"
#include "qkv/model/config/separation.h"
#include "qkv/model/layout/bound_tensor.h"
#include "qkv/model/sequence/sequence_model.h"

namespace qkv::inspect {

enum class PartKind { kEncoder, kDecoder, kCross };

/// "encoder", "decoder", "cross"
std::string_view Name(PartKind kind);

/// The attention layers at one place of a model, one a block. Refers to the checkpoint, which must outlive it.
struct AttentionPart {
  PartKind kind = PartKind::kEncoder;
  const model::SequenceConfig* config = nullptr;  // of the blocks
  model::StoredBlocks blocks;
  // For cross-attention: the config of the part whose tokens it reads; null if the checkpoint does not have it.
  const model::SequenceConfig* source = nullptr;
  const std::vector<model::BoundTensor>* source_tensors = nullptr;

  bool is_cross() const { return kind == PartKind::kCross; }
  const nn::AttentionConfig& attention() const { return is_cross() ? *config->block.cross : config->block.attention; }
  int64_t source_width() const { return attention().source(config->block.width); }
  bool causal() const { return !is_cross() && config->causal; }
  bool rotary() const { return !is_cross() && config->positions == model::SequencePositions::kRotary; }
  bool relative_bias() const { return !is_cross() && config->positions == model::SequencePositions::kRelative; }
  /// Logits are bilinear in the tokens, but for constants and what is added beside them.
  bool scores_are_bilinear() const { return !attention().qk_norm && !rotary(); }
  /// There are a W_Q and a W_K that give a head's scores.
  bool has_queries() const { return model::PairObstruction(attention().kind).empty(); }
};

/// The encoder, the decoder, its cross-attention: those that there are, in this order.
std::vector<AttentionPart> FindParts(const model::TextCheckpoint& checkpoint);
/// The one part of a sequence model of qkv's own: a decoder if it is causal, else an encoder.
std::vector<AttentionPart> FindParts(const model::SequenceCheckpoint& checkpoint);

/// Those whose heads have queries. Throws Error if none has.
std::vector<AttentionPart> MeasuredParts(const std::vector<AttentionPart>& parts);

/// The layer of one block. Throws Error if there is no such block, its scores do not come from tokens, or a tensor is
/// not finite.
AttentionWeights ReadAttention(const AttentionPart& part, int64_t block);

}  // namespace qkv::inspect
