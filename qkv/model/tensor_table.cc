#include "qkv/model/tensor_table.h"

namespace qkv::model {
namespace {

class Table {
 public:
  void Linear(const std::string& name, int64_t outputs, int64_t inputs, bool bias) {
    specs.push_back({name + ".weight", {outputs, inputs}, Role::kWeight});
    if (bias) specs.push_back({name + ".bias", {outputs}, Role::kBias});
  }
  void Norm(const std::string& name, int64_t width) {
    specs.push_back({name + ".weight", {width}, Role::kNorm});
    specs.push_back({name + ".bias", {width}, Role::kNorm});
  }

  std::vector<TensorSpec> specs;
};

void AddEmbedding(const VitConfig& c, Table& table) {
  if (c.class_token) table.specs.push_back({"cls_token", {1, 1, c.block.width}, Role::kToken});
  if (c.distillation_token) table.specs.push_back({"dist_token", {1, 1, c.block.width}, Role::kToken});
  if (c.registers > 0) table.specs.push_back({"reg_token", {1, c.registers, c.block.width}, Role::kToken});
  if (c.positions == Positions::kLearned) {
    table.specs.push_back({"pos_embed", {1, c.position_prefix + c.patches(), c.block.width}, Role::kPosition});
  }
  if (c.patch_norms) {
    table.Norm("patch_embed.norm_in", c.patch_features());
    table.Linear("patch_embed.proj", c.block.width, c.patch_features(), c.patch_bias);
    table.Norm("patch_embed.norm_out", c.block.width);
  } else {
    table.specs.push_back(
        {"patch_embed.proj.weight", {c.block.width, c.channels, c.patch_height, c.patch_width}, Role::kWeight});
    if (c.patch_bias) table.specs.push_back({"patch_embed.proj.bias", {c.block.width}, Role::kBias});
  }
  if (c.pre_norm) table.Norm("norm_pre", c.block.width);
}

// What scores and values of a block are made of.
void AddQueriesKeysValues(const nn::AttentionConfig& c, int64_t D, int64_t tokens, const std::string& attn,
                          Table& table) {
  using nn::AttentionKind;
  const int64_t H = c.heads, queries = H * c.query_width(), values = c.joined_width();
  if (c.kind == AttentionKind::kSeparate) {
    table.Linear(attn + "qkv", 3 * values, D, c.bias);
    return;
  }
  switch (c.kind) {
    case AttentionKind::kShared:
    case AttentionKind::kUnified:
      table.Linear(attn + "qk", queries, D, c.bias);
      break;
    case AttentionKind::kSharedKeyValue:
    case AttentionKind::kLowRank:
      table.Linear(attn + "qk.query", queries, D, c.bias);
      table.Linear(attn + "qk.key", queries, D, c.bias);
      break;
    case AttentionKind::kMerged:
      table.specs.push_back({attn + "qk.merged", {H, D, D}, Role::kWeight});
      if (c.bias) table.specs.push_back({attn + "qk.key_term", {H, D}, Role::kBias});
      break;
    case AttentionKind::kSymmetric:
      table.Linear(attn + "qk", queries, D, false);
      table.specs.push_back({attn + "qk.eigenvalues", {H, c.query_width()}, Role::kScale});
      break;
    case AttentionKind::kGaussian:
      table.specs.push_back({attn + "qk.bandwidth", {H}, Role::kScale});
      break;
    case AttentionKind::kPositional:
      for (const char* name : {"qk.query", "qk.key"}) {
        table.specs.push_back({attn + name, {H, tokens, c.query_width()}, Role::kPosition});
      }
      break;
    case AttentionKind::kSeparate:
      break;
  }
  if (!nn::ValuesAreKeys(c.kind)) table.Linear(attn + "v", values, D, c.bias);
}

void AddBlock(const nn::BlockConfig& c, int64_t tokens, const std::string& block, Table& table) {
  const nn::AttentionConfig& attention = c.attention;
  const int64_t D = c.width, joined = attention.joined_width(), M = c.mlp.width;
  table.Norm(block + "norm1", D);
  AddQueriesKeysValues(attention, D, tokens, block + "attn.", table);
  if (attention.qk_norm) {
    table.Norm(block + "attn.q_norm", attention.query_width());
    table.Norm(block + "attn.k_norm", attention.query_width());
  }
  if (attention.output_norm) table.Norm(block + "attn.norm", joined);
  if (attention.projection) table.Linear(block + "attn.proj", D, joined, attention.projection_bias);
  if (c.layer_scale) table.specs.push_back({block + "ls1.gamma", {D}, Role::kScale});
  table.Norm(block + "norm2", D);
  table.Linear(block + "mlp.fc1", (c.mlp.gate == simd::Gate::kNone ? 1 : 2) * M, D, c.mlp.bias);
  if (c.mlp.norm) table.Norm(block + "mlp.norm", M);
  table.Linear(block + "mlp.fc2", D, M, c.mlp.bias);
  if (c.layer_scale) table.specs.push_back({block + "ls2.gamma", {D}, Role::kScale});
}

void AddHead(const VitConfig& c, Table& table) {
  if (c.final_norm) table.Norm("norm", c.block.width);
  if (c.pool == Pool::kMap) {
    table.specs.push_back({"attn_pool.latent", {1, 1, c.block.width}, Role::kToken});
    table.Linear("attn_pool.q", c.block.width, c.block.width, true);
    table.Linear("attn_pool.kv", 2 * c.block.width, c.block.width, true);
    table.Linear("attn_pool.proj", c.block.width, c.block.width, true);
    table.Norm("attn_pool.norm", c.block.width);
    table.Linear("attn_pool.mlp.fc1", c.map_mlp_width, c.block.width, true);
    table.Linear("attn_pool.mlp.fc2", c.block.width, c.map_mlp_width, true);
  }
  if (c.pooler_width > 0) table.Linear("pooler", c.pooler_width, c.block.width, true);
  if (c.fc_norm) table.Norm("fc_norm", c.block.width);
  if (c.head_norm) table.Norm("head_norm", c.pooled_width());
  if (c.classes > 0) table.Linear("head", c.classes, c.pooled_width(), true);
  if (c.distillation_head) table.Linear("head_dist", c.classes, c.block.width, true);
}

}  // namespace

std::vector<TensorSpec> TensorTable(const VitConfig& config) {
  Table table;
  AddEmbedding(config, table);
  for (int64_t block = 0; block < config.depth; ++block) {
    AddBlock(config.block, config.tokens(), fmt::format("blocks.{}.", block), table);
  }
  AddHead(config, table);
  return std::move(table.specs);
}

std::vector<TensorSpec> BlockTable(const nn::BlockConfig& config, int64_t tokens, int64_t block) {
  Table table;
  AddBlock(config, tokens, fmt::format("blocks.{}.", block), table);
  return std::move(table.specs);
}

int64_t Elements(const std::vector<TensorSpec>& table) {
  int64_t total = 0;
  for (const TensorSpec& spec : table) total += spec.shape.size();
  return total;
}

int64_t Parameters(const VitConfig& config) { return Elements(TensorTable(config)); }

}  // namespace qkv::model
