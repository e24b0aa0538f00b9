#include "qkv/inspect/parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "qkv/model/checkpoint/sequence_checkpoint.h"

namespace qkv::inspect {
namespace {

// The norm that the tokens of a block come from.
NormBefore PlaceOf(const AttentionPart& part, int64_t block) {
  const model::SequenceConfig& c = *part.config;
  if (c.block.norm_place == nn::NormPlace::kBefore) {
    return {fmt::format("blocks.{}.{}.", block, part.is_cross() ? "norm_cross" : "norm1")};
  }
  if (part.is_cross()) return {fmt::format("blocks.{}.norm1.", block), /*is_stream=*/true};
  if (block > 0) return {fmt::format("blocks.{}.norm2.", block - 1), /*is_stream=*/true};
  return {c.embedding_norm ? "norm_pre." : "", /*is_stream=*/true};
}

// The last norm of an encoder.
std::string LastNorm(const model::SequenceConfig& c) {
  if (c.final_norm) return "norm.";
  if (c.depth == 0) return c.embedding_norm ? "norm_pre." : "";
  return c.block.norm_place == nn::NormPlace::kAfter ? fmt::format("blocks.{}.norm2.", c.depth - 1) : "";
}

SourceTokens ReadSource(const AttentionPart& part) {
  SourceTokens source;
  if (part.source == nullptr) return source;
  const std::string norm = LastNorm(*part.source);
  if (norm.empty()) return source;
  const model::StoredBlocks encoder(part.blocks.source(), *part.source, *part.source_tensors);
  source.norm = part.source->block.norm.kind == simd::NormKind::kRms ? TokenNorm::kRmsNorm : TokenNorm::kLayerNorm;
  source.gamma = encoder.Read<double>(norm + "weight"), source.beta = encoder.Read<double>(norm + "bias");
  return source;
}

}  // namespace

std::string_view Name(PartKind kind) {
  switch (kind) {
    case PartKind::kEncoder:
      return "encoder";
    case PartKind::kDecoder:
      return "decoder";
    case PartKind::kCross:
      break;
  }
  return "cross";
}

std::vector<AttentionPart> FindParts(const model::TextCheckpoint& checkpoint) {
  const model::TextDescription& d = checkpoint.description;
  std::vector<AttentionPart> parts;
  if (d.encoder) {
    parts.push_back(
        {PartKind::kEncoder, &*d.encoder, model::StoredBlocks(checkpoint.source, *d.encoder, checkpoint.encoder)});
  }
  if (!d.decoder) return parts;
  const model::StoredBlocks blocks(checkpoint.source, *d.decoder, checkpoint.decoder);
  parts.push_back({PartKind::kDecoder, &*d.decoder, blocks});
  if (!d.decoder->block.cross) return parts;
  parts.push_back({PartKind::kCross, &*d.decoder, blocks, d.encoder ? &*d.encoder : nullptr,
                   d.encoder ? &checkpoint.encoder : nullptr});
  return parts;
}

std::vector<AttentionPart> FindParts(const model::SequenceCheckpoint& checkpoint) {
  return {{checkpoint.config.causal ? PartKind::kDecoder : PartKind::kEncoder, &checkpoint.config, checkpoint}};
}

std::vector<AttentionPart> MeasuredParts(const std::vector<AttentionPart>& parts) {
  std::vector<AttentionPart> measured;
  std::ranges::copy_if(parts, std::back_inserter(measured), &AttentionPart::has_queries);
  Require(!measured.empty(), "{}: no W_Q and W_K of a head give its scores: {}", parts.at(0).blocks.source(),
          model::PairObstruction(parts.at(0).attention().kind));
  return measured;
}

AttentionWeights ReadAttention(const AttentionPart& part, int64_t block) {
  AttentionWeights weights = ReadAttention(part.blocks, block, PlaceOf(part, block), part.is_cross());
  if (part.is_cross()) weights.source = ReadSource(part);
  return weights;
}

}  // namespace qkv::inspect
