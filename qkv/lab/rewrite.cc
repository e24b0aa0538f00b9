#include "qkv/lab/rewrite.h"

#include <set>

#include "qkv/io/json.h"
#include "qkv/model/checkpoint/convert.h"
#include "qkv/model/config/separation.h"
#include "qkv/model/families/families.h"
#include "qkv/model/layout/bound_tensor.h"
#include "qkv/model/layout/cost.h"
#include "qkv/model/layout/tensor_names.h"
#include "qkv/model/layout/tensor_table.h"

namespace qkv::lab {
namespace {

namespace fs = std::filesystem;

// Number of a block's query and key parameters.
int64_t QueryKeyParameters(const model::VitConfig& config) {
  const int64_t H = config.block.attention.heads, D = config.block.width,
                pair = 2 * H * config.block.attention.query_width() * (D + config.block.attention.bias);
  switch (config.block.attention.kind) {
    case nn::AttentionKind::kMerged:
      return config.depth * H * D * (D + config.block.attention.bias);
    case nn::AttentionKind::kSeparate: {
      const nn::AttentionConfig& a = config.block.attention;
      return config.depth * (pair - (a.bias && !a.key_bias ? H * a.query_width() : 0));
    }
    case nn::AttentionKind::kLowRank:
      return config.depth * pair;
    default: {
      int64_t count = 0;
      for (const model::TensorSpec& spec : model::TensorTable(config)) {
        if (spec.name.find(".attn.qk.") != std::string::npos) count += spec.shape.size();
      }
      return count;
    }
  }
}

// `input`: the size of the images that are computed, which may be smaller than that of the stored positions.
Size MeasureSize(const model::VitConfig& config, const model::VitConfig& input, size_t bytes) {
  model::VitConfig computed = config;
  computed.image_height = input.image_height, computed.image_width = input.image_width;
  return {model::Parameters(config), QueryKeyParameters(config), model::Flops(computed) / 2, bytes};
}

// The text of the configuration with the target's kind of attention.
std::string WithAttention(const std::string& text, const model::VitConfig& target) {
  auto json = nlohmann::ordered_json::parse(text);
  model::SetOwnKeys(target, &json);
  return json.dump(2) + "\n";
}

using Table = std::map<std::string, model::TensorSpec>;
Table IndexTensors(const model::VitConfig& config) {
  Table table;
  for (model::TensorSpec& spec : model::TensorTable(config)) table.emplace(spec.name, spec);
  return table;
}
bool Has(const Table& table, const model::TensorSpec& spec) {
  const auto found = table.find(spec.name);
  return found != table.end() && found->second.shape == spec.shape;
}

// Takes what a tensor is stored in off the list.
void Erase(const model::BoundTensor& bound, std::vector<io::StoredTensor>* tensors) {
  Require(bound.extract.whole(), "rewrite: {} is stored inside of {}: convert the model first (qkv convert)",
          bound.spec.name, bound.parts[0]->name);
  for (const io::StoredTensor* part : bound.parts) {
    std::erase_if(*tensors, [&](const io::StoredTensor& tensor) { return tensor.name == part->name; });
  }
}

io::Json ToJson(const Size& size) {
  return {{"parameters", size.parameters},
          {"query_key_parameters", size.query_key},
          {"multiply_adds", size.multiply_adds},
          {"bytes", size.bytes}};
}

}  // namespace

Written WriteRewritten(const model::Checkpoint& checkpoint, const model::VitConfig& target,
                       const std::function<AttentionTensors(int64_t block)>& make, const fs::path& folder,
                       const WriteOptions& options, ReplacedTensors replace) {
  model::RequireWritable(folder, options.force);
  const model::VitConfig& source = checkpoint.description.config;
  const Table old = IndexTensors(source), wanted = IndexTensors(target);
  std::set<std::string> replaced;
  Written written;
  for (const model::BoundTensor& bound : checkpoint.bound) {
    if (Has(wanted, bound.spec)) continue;
    for (const io::StoredTensor* part : bound.parts) replaced.insert(part->name);
    if (bound.spec.role == model::Role::kWeight) written.dtype = bound.parts[0]->dtype;
  }
  written.dtype = options.dtype.value_or(written.dtype);

  model::ModelFiles files = model::SameFiles(checkpoint, {});
  std::erase_if(files.weights.tensors, [&](const io::StoredTensor& tensor) { return replaced.contains(tensor.name); });
  for (int64_t block = 0; block < target.depth; ++block) {
    const std::string attn = fmt::format("blocks.{}.attn.", block);
    const AttentionTensors made = make(block);
    for (const auto& [suffix, values] : made) {
      const auto spec = wanted.find(attn + suffix);
      if (spec == wanted.end()) continue;
      DType dtype = written.dtype;
      if (Has(old, spec->second)) {
        if (replace == ReplacedTensors::kMissing) continue;
        const model::BoundTensor& bound = *checkpoint.Find(spec->first);
        Erase(bound, &files.weights.tensors);
        written.dtype = dtype = options.dtype.value_or(bound.parts[0]->dtype);
      }
      Require(values.shape() == spec->second.shape, "rewrite: expected {} of {}, got {}", spec->first,
              spec->second.shape, values.shape());
      model::AddParts(
          model::StoreAs(spec->first, values, dtype, &files.weights),
          model::NamesBeside(model::GetLayout(target), *checkpoint.tensors, spec->first, attn + "proj.weight"),
          &files.weights.tensors);
    }
    if (options.advance) options.advance();
  }
  std::string& config = model::ConfigText(files);
  config = WithAttention(config, target);
  const model::VitConfig input = model::InputConfig(checkpoint.description);
  written.before = MeasureSize(source, input, checkpoint.tensors->bytes());
  written.after = MeasureSize(target, input, model::WriteModel(files, folder, options.force));
  written.notes = std::move(files.notes);
  return written;
}

io::Json ToJson(const Written& written) {
  return {{"before", ToJson(written.before)},
          {"after", ToJson(written.after)},
          {"dtype", Name(written.dtype)},
          {"notes", written.notes}};
}

void RequireLinearScores(const model::Checkpoint& checkpoint, const char* operation) {
  const model::VitConfig& config = checkpoint.description.config;
  Require(!config.block.attention.qk_norm,
          "{}: {} normalises queries and keys (QK-norm): their product is not a function of one matrix", operation,
          checkpoint.source);
  Require(config.rotary == model::PatchRotary::kNone,
          "{}: {} rotates queries and keys by their positions: each distance has another matrix", operation,
          checkpoint.source);
  Require(!config.block.attention.sinks,
          "{}: {} has attention sinks: terms that are the same for all keys of a query do not cancel", operation,
          checkpoint.source);
  const std::string none = model::PairObstruction(config.block.attention.kind);
  Require(none.empty(), "{}: {}: {}", operation, checkpoint.source, none);
}

}  // namespace qkv::lab
