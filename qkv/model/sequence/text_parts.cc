// The built layers of a TextModel as tensors, and back: one list of a part's layers (SequenceModel::Parts) serves both
// directions. Those of the encoder and the decoder have its name before theirs.
#include "qkv/core/memory.h"
#include "qkv/model/blocks/layer_parts.h"
#include "qkv/model/sequence/text_model.h"

namespace qkv::model {

template <typename T>
template <typename Archive, typename Self>
void SequenceModel<T>::Parts(Archive& archive, const std::string& prefix, Self& model, const BuildOptions& options) {
  const SequenceConfig& c = model.config_;
  const int64_t D = c.block.width;
  archive.Part(prefix + "tokens", model.tokens_, {c.vocabulary, D}, true);
  archive.Part(prefix + "types", model.types_, {c.token_types, D}, c.token_types > 0);
  if (c.positions == SequencePositions::kLearned) {
    archive.Part(prefix + "positions", model.positions_, {1, c.position_offset + c.length, D}, true);
  }
  if (c.positions == SequencePositions::kRelative) {
    archive.Part(prefix + "relative", model.relative_, {c.block.attention.heads, 2 * c.length - 1}, true);
  }
  NormParts(archive, prefix + "norm_pre", model.norm_pre_, D, c.block.norm);
  archive.Count(model.blocks_, c.depth);
  for (int64_t block = 0; block < c.depth; ++block) {
    BlockParts(archive, fmt::format("{}blocks.{}", prefix, block), model.blocks_[static_cast<size_t>(block)], c.block,
               c.length, model.BlockBuild(block), options.precision);
  }
  NormParts(archive, prefix + "norm", model.norm_, D, c.block.norm);
  LinearParts(archive, prefix + "pooler", model.pooler_, {c.pooler_width, D, simd::Gate::kNone, options.precision});
  if (c.outputs == 0) return;
  NormParts(archive, prefix + "head_norm", model.head_norm_, D, c.block.norm);
  LinearParts(archive, prefix + "head", model.head_, {c.outputs, D, simd::Gate::kNone, options.precision});
}

std::vector<io::StoredTensor> TextModel::Store(const BuildOptions& options) const {
  PartWriter<float> writer;
  if (encoder_) SequenceModel<float>::Parts(writer, "encoder.", *encoder_, options);
  if (decoder_) SequenceModel<float>::Parts(writer, "decoder.", *decoder_, options);
  return std::move(writer.tensors);
}

TextModel TextModel::Restore(const TextDescription& description, const BuildOptions& options,
                             std::shared_ptr<const io::SafeTensors> tensors) {
  PartReader<float> reader(tensors);
  const auto restore = [&](const std::optional<SequenceConfig>& config, const char* prefix) {
    if (!config) return std::unique_ptr<SequenceModel<float>>();
    Validate(*config);
    RequireMemory(SequenceModel<float>::PositionBytes(*config), "restore: the positions of a sequence model");
    std::unique_ptr<SequenceModel<float>> part(new SequenceModel<float>());
    part->config_ = *config;
    part->restored_from_ = tensors;
    SequenceModel<float>::Parts(reader, prefix, *part, options);
    part->ComputePositions();
    return part;
  };
  TextModel model;
  model.description_ = description;
  model.encoder_ = restore(description.encoder, "encoder.");
  model.decoder_ = restore(description.decoder, "decoder.");
  reader.Finish();
  return model;
}

}  // namespace qkv::model
