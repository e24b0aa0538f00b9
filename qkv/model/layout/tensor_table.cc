#include "qkv/model/layout/tensor_table.h"

#include <string_view>
#include <utility>

#include "qkv/model/layout/parameters.h"

namespace qkv::model {
namespace {

// A visitor that collects the declared tensors (parameters.h).
class Table {
 public:
  using Views = const float;  // never read

  void Tensor(const TensorName& name, Shape shape, Role role, View<Views>&) { Add(name, "", shape, role); }
  void Linear(const TensorName& name, int64_t outputs, int64_t inputs, bool bias, nn::LinearParameters<Views>&) {
    Add(name, ".weight", {outputs, inputs}, Role::kWeight);
    if (bias) Add(name, ".bias", {outputs}, Role::kBias);
  }
  void Norm(const TensorName& name, int64_t width, const nn::NormConfig& config, nn::NormParameters<Views>&) {
    Add(name, ".weight", {width}, Role::kNorm);
    if (config.has_bias()) Add(name, ".bias", {width}, Role::kNorm);
  }

  void Block(const nn::BlockConfig& config, int64_t tokens, int64_t block) {
    prefix_ = fmt::format("blocks.{}.", block);
    nn::BlockParameters<Views> none;
    VisitBlock(config, tokens, none, *this);
    prefix_.clear();
  }
  template <typename Config>
  void Model(const Config& config) {
    EmbeddingParameters<Views> embedding;
    VisitEmbedding(config, embedding, *this);
    for (int64_t block = 0; block < config.depth; ++block) Block(config.block, config.grid().tokens(), block);
    OutputParameters<Views> output;
    VisitOutput(config, output, *this);
  }

  std::vector<TensorSpec> specs;

 private:
  void Add(const TensorName& name, std::string_view ending, const Shape& shape, Role role) {
    specs.push_back({fmt::format("{}{}{}{}", prefix_, name.layer, name.name, ending), shape, role});
  }

  std::string prefix_;
};

template <typename Config>
std::vector<TensorSpec> MakeTensorTable(const Config& config) {
  Table table;
  table.Model(config);
  return std::move(table.specs);
}

}  // namespace

std::vector<TensorSpec> TensorTable(const VitConfig& config) { return MakeTensorTable(config); }

std::vector<TensorSpec> TensorTable(const SequenceConfig& config) {
  std::vector<TensorSpec> table = MakeTensorTable(config);
  const nn::AttentionConfig& a = config.block.attention;
  const int64_t r = a.query_width();
  if (!a.groups_heads()) return table;
  for (TensorSpec& spec : table) {
    if (spec.name.find(".attn.qkv.") != std::string::npos) {
      spec.parts = {a.heads * r, a.kv_heads() * r, a.values_width()};
    }
  }
  return table;
}

std::vector<TensorSpec> TensorTable(const TextTower& tower) {
  std::vector<TensorSpec> table = TensorTable(tower.config);
  table.push_back({"logit_scale", {1}, Role::kScale});
  if (tower.logit_bias) table.push_back({"logit_bias", {1}, Role::kBias});
  return table;
}

std::vector<TensorSpec> ProjectionTable(const CaptionDecoder& decoder, int64_t width) {
  if (!decoder.projection) return {};
  const nn::BlockConfig& block = decoder.config.block;
  const int64_t source = block.cross->source(block.width);
  return {{"projection.weight", {source, width}, Role::kWeight}, {"projection.bias", {source}, Role::kBias}};
}

int64_t Elements(const std::vector<TensorSpec>& table) {
  int64_t total = 0;
  for (const TensorSpec& spec : table) total += spec.shape.size();
  return total;
}

int64_t Parameters(const VitConfig& config) {
  const nn::AttentionConfig& a = config.block.attention;
  const bool zero_biases = a.kind == nn::AttentionKind::kSeparate && a.bias && !a.key_bias;  // in the table only
  return Elements(TensorTable(config)) - (zero_biases ? config.depth * a.kv_heads() * a.query_width() : 0);
}
int64_t Parameters(const SequenceConfig& config) { return Elements(TensorTable(config)); }

}  // namespace qkv::model
