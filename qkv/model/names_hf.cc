// Hugging Face's names of both generations: ViT and DeiT (layernorm_before, …) and DINOv2 (norm1, …).
#include "qkv/model/layout.h"

namespace qkv::model {
namespace {

constexpr NameRow kRows[] = {
    {"cls_token", "@embeddings.cls_token"},
    {"dist_token", "@embeddings.distillation_token"},
    {"reg_token", "@embeddings.register_tokens"},
    {"pos_embed", "@embeddings.position_embeddings"},
    {"patch_embed.proj", "@embeddings.patch_embeddings.projection"},
    {"blocks.{}.norm1", "@encoder.layer.{}.layernorm_before|@encoder.layer.{}.norm1|@layers.{}.layernorm_before"},
    {"blocks.{}.attn.qkv",
     "@encoder.layer.{}.attention.attention.query+@encoder.layer.{}.attention.attention.key+"
     "@encoder.layer.{}.attention.attention.value"
     "|@encoder.layer.{}.attention.q_proj+@encoder.layer.{}.attention.k_proj+@encoder.layer.{}.attention.v_proj"
     "|@layers.{}.attention.q_proj+@layers.{}.attention.k_proj+@layers.{}.attention.v_proj"},
    {"blocks.{}.attn.proj",
     "@encoder.layer.{}.attention.output.dense|@encoder.layer.{}.attention.o_proj|@layers.{}.attention.o_proj"},
    {"blocks.{}.ls1.gamma", "@encoder.layer.{}.layer_scale1.lambda1"},
    {"blocks.{}.norm2", "@encoder.layer.{}.layernorm_after|@encoder.layer.{}.norm2|@layers.{}.layernorm_after"},
    {"blocks.{}.mlp.fc1",
     "@encoder.layer.{}.intermediate.dense|@encoder.layer.{}.mlp.fc1|@encoder.layer.{}.mlp.weights_in"
     "|@encoder.layer.{}.mlp.gate_proj+@encoder.layer.{}.mlp.up_proj|@layers.{}.mlp.fc1"},
    {"blocks.{}.mlp.fc2",
     "@encoder.layer.{}.output.dense|@encoder.layer.{}.mlp.fc2|@encoder.layer.{}.mlp.weights_out"
     "|@encoder.layer.{}.mlp.down_proj|@layers.{}.mlp.fc2"},
    {"blocks.{}.ls2.gamma", "@encoder.layer.{}.layer_scale2.lambda1"},
    {"norm", "@layernorm"},
    {"pooler", "@pooler.dense"},
    {"head", "classifier|cls_classifier"},
    {"head_dist", "distillation_classifier"},
};

constexpr std::string_view kIgnored[] = {"@embeddings.mask_token"};

}  // namespace

const Layout kHuggingFaceLayout = {kRows, kIgnored};

}  // namespace qkv::model
