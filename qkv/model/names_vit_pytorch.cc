// vit-pytorch's names: ViT (a dropout between the MLP's layers takes a number) and SimpleViT (which has none).
#include "qkv/model/names_attention.h"

namespace qkv::model {
namespace {

constexpr NameRow kVitRows[] = {
    {"cls_token", "cls_token"},
    {"pos_embed", "pos_embedding"},
    {"patch_embed.norm_in", "to_patch_embedding.1"},
    {"patch_embed.proj", "to_patch_embedding.2"},
    {"patch_embed.norm_out", "to_patch_embedding.3"},
    {"blocks.{}.norm1", "transformer.layers.{}.0.norm"},
    {"blocks.{}.attn.qkv", "transformer.layers.{}.0.to_qkv"},
    {"blocks.{}.attn.proj", "transformer.layers.{}.0.to_out.0"},
    {"blocks.{}.norm2", "transformer.layers.{}.1.net.0"},
    {"blocks.{}.mlp.fc1", "transformer.layers.{}.1.net.1"},
    {"blocks.{}.mlp.fc2", "transformer.layers.{}.1.net.4"},
    {"norm", "transformer.norm"},
    {"head_norm", "mlp_head.0"},
    {"head", "mlp_head|mlp_head.1"},
};

constexpr NameRow kSimpleRows[] = {
    {"patch_embed.norm_in", "to_patch_embedding.1"},
    {"patch_embed.proj", "to_patch_embedding.2"},
    {"patch_embed.norm_out", "to_patch_embedding.3"},
    {"blocks.{}.norm1", "transformer.layers.{}.0.norm"},
    {"blocks.{}.attn.qkv", "transformer.layers.{}.0.to_qkv"},
    {"blocks.{}.attn.proj", "transformer.layers.{}.0.to_out"},
    {"blocks.{}.norm2", "transformer.layers.{}.1.net.0"},
    {"blocks.{}.mlp.fc1", "transformer.layers.{}.1.net.1"},
    {"blocks.{}.mlp.fc2", "transformer.layers.{}.1.net.3"},
    {"norm", "transformer.norm"},
    {"head", "linear_head"},
};

constexpr std::span<const NameRow> kVitTables[] = {kVitRows, kAttentionKindRows},
                                   kSimpleTables[] = {kSimpleRows, kAttentionKindRows};
constexpr Layout kVit = {kVitTables, {}}, kSimple = {kSimpleTables, {}};

}  // namespace

const Layout& VitPytorchLayout(const VitConfig& config) { return config.architecture == "SimpleViT" ? kSimple : kVit; }

}  // namespace qkv::model
