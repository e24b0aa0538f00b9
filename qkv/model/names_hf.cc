// Hugging Face's names of both generations, that on disk first: ViT and DeiT (layernorm_before, …), DINOv2 (norm1, …).
#include "qkv/model/names_attention.h"

namespace qkv::model {
namespace {

constexpr NameRow kShared[] = {
    {"cls_token", "@embeddings.cls_token"},
    {"dist_token", "@embeddings.distillation_token"},
    {"reg_token", "@embeddings.register_tokens"},
    {"pos_embed", "@embeddings.position_embeddings"},
    {"patch_embed.proj", "@embeddings.patch_embeddings.projection"},
    {"norm", "@layernorm"},
    {"pooler", "@pooler.dense"},
    {"head", "classifier"},
};

constexpr NameRow kVitBlocks[] = {
    {"blocks.{}.norm1", "@encoder.layer.{}.layernorm_before|@layers.{}.layernorm_before"},
    {"blocks.{}.attn.qkv",
     "@encoder.layer.{}.attention.attention.query+@encoder.layer.{}.attention.attention.key+"
     "@encoder.layer.{}.attention.attention.value"
     "|@layers.{}.attention.q_proj+@layers.{}.attention.k_proj+@layers.{}.attention.v_proj"},
    {"blocks.{}.attn.proj", "@encoder.layer.{}.attention.output.dense|@layers.{}.attention.o_proj"},
    {"blocks.{}.norm2", "@encoder.layer.{}.layernorm_after|@layers.{}.layernorm_after"},
    {"blocks.{}.mlp.fc1", "@encoder.layer.{}.intermediate.dense|@layers.{}.mlp.fc1"},
    {"blocks.{}.mlp.fc2", "@encoder.layer.{}.output.dense|@layers.{}.mlp.fc2"},
};

constexpr NameRow kTeacherHeads[] = {
    {"head", "cls_classifier"},
    {"head_dist", "distillation_classifier"},
};

constexpr NameRow kDinov2Blocks[] = {
    {"blocks.{}.norm1", "@encoder.layer.{}.norm1"},
    {"blocks.{}.attn.qkv",
     "@encoder.layer.{}.attention.attention.query+@encoder.layer.{}.attention.attention.key+"
     "@encoder.layer.{}.attention.attention.value"
     "|@encoder.layer.{}.attention.q_proj+@encoder.layer.{}.attention.k_proj+@encoder.layer.{}.attention.v_proj"},
    {"blocks.{}.attn.proj", "@encoder.layer.{}.attention.output.dense|@encoder.layer.{}.attention.o_proj"},
    {"blocks.{}.ls1.gamma", "@encoder.layer.{}.layer_scale1.lambda1"},
    {"blocks.{}.norm2", "@encoder.layer.{}.norm2"},
    {"blocks.{}.mlp.fc1", "@encoder.layer.{}.mlp.fc1"},
    {"blocks.{}.mlp.fc2", "@encoder.layer.{}.mlp.fc2"},
    {"blocks.{}.ls2.gamma", "@encoder.layer.{}.layer_scale2.lambda1"},
};

constexpr NameRow kSwiGlu[] = {
    {"blocks.{}.mlp.fc1",
     "@encoder.layer.{}.mlp.weights_in|@encoder.layer.{}.mlp.gate_proj+@encoder.layer.{}.mlp.up_proj"},
    {"blocks.{}.mlp.fc2", "@encoder.layer.{}.mlp.weights_out|@encoder.layer.{}.mlp.down_proj"},
};

constexpr std::string_view kIgnored[] = {"@embeddings.mask_token"};

constexpr std::span<const NameRow> kVitTables[] = {kVitBlocks, kShared, kAttentionKindRows};
constexpr std::span<const NameRow> kTeacherTables[] = {kTeacherHeads, kVitBlocks, kShared, kAttentionKindRows};
constexpr std::span<const NameRow> kDinov2Tables[] = {kDinov2Blocks, kShared, kAttentionKindRows};
constexpr std::span<const NameRow> kSwiGluTables[] = {kSwiGlu, kDinov2Blocks, kShared, kAttentionKindRows};

constexpr Layout kVit = {kVitTables, kIgnored}, kTeacher = {kTeacherTables, kIgnored};
constexpr Layout kDinov2 = {kDinov2Tables, kIgnored}, kDinov2SwiGlu = {kSwiGluTables, kIgnored};

}  // namespace

const Layout& HuggingFaceLayout(const VitConfig& config) {
  if (config.block.layer_scale) return config.block.mlp.gate == simd::Gate::kNone ? kDinov2 : kDinov2SwiGlu;
  return config.distillation_head ? kTeacher : kVit;
}

}  // namespace qkv::model
