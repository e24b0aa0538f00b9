// The calls about one pass: predictions and attention, rollout, relevance, features of tokens, and a head's
// contribution. Without edits the pass is the engine's own; with edits it is an open one (open_pass.h).
#pragma once

#include "qkv/explore/explored_images.h"
#include "qkv/explore/explored_model.h"
#include "qkv/explore/packet.h"

namespace qkv::explore {

/// The subject of a call: an image model, one image, and the request with "edits".
struct PassCall {
  ExploredModel& model;
  const PreparedImage& image;
  const io::Json& request;
};

/// "pass": logits and scores of the classes, or without classes the embedding; and the attention of "blocks".
Packet AnswerPass(const PassCall& call);
/// "rollout": from block "start" through the last one, "discard" of each block's weights left out: [N, N].
Packet AnswerRollout(const PassCall& call);
/// "relevance" of each token for "class".
Packet AnswerRelevance(const PassCall& call);
/// "tokens" after "block": "what" is "pca" (colours of the patches) or "similarity" (cosines of all tokens).
Packet AnswerTokens(const PassCall& call);
/// "knockout": how the logit of "class" changes when a head of "block" is removed, for each head; for a model without
/// classes the cosine of its embeddings with and without the head.
Packet AnswerKnockout(const PassCall& call);

/// Attention of all heads of the given blocks, [blocks, H, N, N], with or without edits.
Tensor<float> AttentionOf(const PassCall& call, std::span<const int64_t> blocks, Tensor<float>* logits = nullptr);

}  // namespace qkv::explore
