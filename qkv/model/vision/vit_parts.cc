// The built layers of a Vit as tensors, and back: one list of its parts (Vit::Parts) serves both directions.
#include "qkv/model/blocks/attention_orders.h"
#include "qkv/model/blocks/layer_parts.h"
#include "qkv/model/layout/parameters.h"
#include "qkv/model/vision/vit.h"

namespace qkv::model {
namespace {

template <typename Archive, typename Pool>
void PoolParts(Archive& archive, const std::string& name, Pool& pool, const VitConfig& c, bool absorbs) {
  archive.Part(name + ".latent", pool.latent, {1, c.block.width}, true);
  AttentionParts(archive, name + ".attention", pool.attention,
                 {.config = {.heads = c.pool_heads(), .head_width = c.block.width / c.pool_heads()},
                  .width = c.block.width,
                  .tokens = c.tokens(),
                  .absorbs = absorbs,
                  .fewer_queries = true},
                 Precision::kFloat32);
  NormParts(archive, name + ".norm", pool.norm, c.block.width, c.block.norm);
  MlpParts(archive, name + ".mlp", pool.mlp, c.block, c.map_mlp_width, simd::Gate::kNone, Precision::kFloat32);
}

template <typename Archive, typename Head>
void MaskHeadParts(Archive& archive, Head& head, const VitConfig& c) {
  const int64_t D = c.block.width;
  archive.Constant(head.activation, c.mask_activation);
  LinearParts(archive, "mask_class", head.classes, {c.mask_classes + 1, D});
  for (size_t layer = 0; layer < head.queries.size(); ++layer) {
    LinearParts(archive, fmt::format("mask_head.{}", layer), head.queries[layer], {D, D});
  }
  archive.Count(head.doublings, c.mask_doublings);
  for (size_t i = 0; i < head.doublings.size(); ++i) {
    const std::string name = fmt::format("doubling.{}", i);
    auto& doubling = head.doublings[i];
    LinearParts(archive, name + ".expand", doubling.expand, {4 * D, D});
    archive.Part(name + ".smooth", doubling.smooth, {3, 3, D}, true);
    NormParts(archive, name + ".norm", doubling.norm, D, kMaskNorm);
  }
}

}  // namespace

template <typename T>
template <typename Archive, typename Self>
void Vit<T>::Parts(Archive& archive, Self& vit, const BuildOptions& options) {
  const VitConfig& c = vit.config_;
  archive.Part("prefix", vit.prefix_, {c.prefix(), c.block.width}, true);
  archive.Part("positions", vit.positions_, {c.patches(), c.block.width}, c.positions != Positions::kNone);
  archive.Part("block_positions", vit.block_positions_, {c.position_blocks(), c.tokens(), c.block.width},
               c.position_blocks() > 0);
  archive.Part("relative_biases", vit.relative_biases_,
               {c.relative_bias_tables(), c.block.attention.heads, c.relative_bias_rows()},
               c.relative_bias_tables() > 0);
  archive.Part("rotary_frequencies", vit.rotary_frequencies_,
               {2, c.depth, c.block.attention.heads, c.block.attention.query_width() / 2},
               c.rotary == PatchRotary::kMixed);
  archive.Constant(vit.patch_embed_.patch_height, c.patch_height);
  archive.Constant(vit.patch_embed_.patch_width, c.patch_width);
  archive.Constant(vit.patch_embed_.channel_last, c.patch_norms);
  NormParts(archive, "patch_embed.norm_in", vit.patch_embed_.norm_in, c.patch_features(), c.block.norm);
  LinearParts(archive, "patch_embed.projection", vit.patch_embed_.projection, {c.block.width, c.patch_features()});
  NormParts(archive, "patch_embed.norm_out", vit.patch_embed_.norm_out, c.block.width, c.block.norm);
  NormParts(archive, "norm_pre", vit.norm_pre_, c.block.width, c.block.norm);
  archive.Count(vit.blocks_, c.depth);
  for (int64_t block = 0; block < c.depth; ++block) {
    BlockParts(archive, fmt::format("blocks.{}", block), vit.blocks_[static_cast<size_t>(block)], c.block, c.tokens(),
               ChooseAttentionBuild(c, options, block), options.precision);
  }
  NormParts(archive, "norm", vit.norm_, c.block.width, c.block.norm);
  if (c.pool == Pool::kMap) PoolParts(archive, "attention_pool", vit.attention_pool_, c, options.absorb);
  LinearParts(archive, "pooler", vit.pooler_, {c.pooler_width, c.block.width});
  NormParts(archive, "fc_norm", vit.fc_norm_, c.block.width, c.block.norm);
  LinearParts(archive, "projection", vit.projection_, {c.projection_width, c.projection_input()});
  NormParts(archive, "head_norm", vit.head_norm_, c.pooled_width(), c.block.norm);
  LinearParts(archive, "head", vit.head_, {c.classes, c.pooled_width()});
  LinearParts(archive, "head_dist", vit.head_dist_, {c.distillation_head ? c.classes : 0, c.block.width});
  const int64_t D = c.detection_classes > 0 ? c.block.width : 0;
  for (size_t layer = 0; layer < vit.class_head_.size(); ++layer) {
    const bool last = layer + 1 == vit.class_head_.size();
    LinearParts(archive, fmt::format("class_head.{}", layer), vit.class_head_[layer],
                {last && D > 0 ? c.detection_classes + 1 : D, c.block.width});
    LinearParts(archive, fmt::format("box_head.{}", layer), vit.box_head_[layer],
                {last && D > 0 ? 4 : D, c.block.width});
  }
  if (c.mask_classes > 0) MaskHeadParts(archive, vit.mask_head_, c);
}

template <typename T>
std::vector<io::StoredTensor> Vit<T>::Store(const BuildOptions& options) const {
  PartWriter<T> writer;
  Parts(writer, *this, options);
  return std::move(writer.tensors);
}

template <typename T>
Vit<T> Vit<T>::Restore(const VitConfig& config, const BuildOptions& options,
                       std::shared_ptr<const io::SafeTensors> tensors) {
  Vit vit;
  vit.config_ = config;
  vit.read_rows_ = options.read_rows;
  vit.id_ = NextId();
  vit.restored_from_ = tensors;
  PartReader<T> reader(std::move(tensors));
  Parts(reader, vit, options);
  reader.Finish();
  vit.ComputeRotary();
  vit.LinkWeights();
  return vit;
}

template std::vector<io::StoredTensor> Vit<float>::Store(const BuildOptions&) const;
template Vit<float> Vit<float>::Restore(const VitConfig&, const BuildOptions&, std::shared_ptr<const io::SafeTensors>);

}  // namespace qkv::model
