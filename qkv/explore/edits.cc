#include "qkv/explore/edits.h"

#include <algorithm>
#include <array>

#include "qkv/core/error.h"
#include "qkv/explore/fields.h"
#include "qkv/nn/block_config.h"

namespace qkv::explore {
namespace {

constexpr std::array kKinds = {EditKind::kSymmetry, EditKind::kRank, EditKind::kGauge, EditKind::kHead,
                               EditKind::kToken};

// More changes than anyone makes by hand; each is a pass over heads.
constexpr size_t kMaxEdits = 256;

EditKind ParseKind(const std::string& name) {
  for (const EditKind kind : kKinds) {
    if (name == Name(kind)) return kind;
  }
  Fail("edit: expected the kind symmetry, rank, gauge, head or token, got \"{}\"", name);
}

// Why no pass of this model can be edited.
std::string PassObstacle(const model::VitConfig& c) {
  if (std::string only = model::OnlyInInference(c); !only.empty()) return only;
  if (c.block.attention.maps() > 1) return std::string(model::kTwoMaps);
  return c.block.attention.groups_heads() ? "its heads share keys and values" : "";
}

std::string PairObstacle(EditKind kind, const model::VitConfig& c) {
  const nn::AttentionConfig& attention = c.block.attention;
  if (nn::IsPositional(attention.kind)) {
    return "its scores come from positions, not from tokens, so there is no W_Q and no W_K";
  }
  if (kind == EditKind::kSymmetry) return "";
  if (attention.qk_norm) return "a norm stands between W_Q, W_K and their product, so there is no matrix M";
  if (c.rotary != model::PatchRotary::kNone) {
    return "queries and keys are rotated by their positions, so M is another matrix for each distance";
  }
  if (kind == EditKind::kRank) return "";
  if (attention.kind == nn::AttentionKind::kMerged) return "W_Q and W_K are merged into one matrix: no gauge is left";
  if (nn::QueriesAreKeys(attention.kind) || attention.kind == nn::AttentionKind::kSymmetric) {
    return "queries and keys have one weight, which no A and A⁻ᵀ can change apart";
  }
  if (nn::ValuesAreKeys(attention.kind)) return "the keys are the values too, so A⁻ᵀ W_K would change what is read";
  return "";
}

}  // namespace

std::string_view Name(EditKind kind) {
  switch (kind) {
    case EditKind::kSymmetry:
      return "symmetry";
    case EditKind::kRank:
      return "rank";
    case EditKind::kGauge:
      return "gauge";
    case EditKind::kHead:
      return "head";
    default:
      return "token";
  }
}

std::string Obstacle(EditKind kind, const model::VitConfig& config) {
  std::string why = PassObstacle(config);
  if (why.empty() && (kind == EditKind::kSymmetry || kind == EditKind::kRank || kind == EditKind::kGauge)) {
    why = PairObstacle(kind, config);
  }
  return why;
}

std::vector<std::string> PossibleEdits(const model::VitConfig& config) {
  std::vector<std::string> names;
  for (const EditKind kind : kKinds) {
    if (Obstacle(kind, config).empty()) names.emplace_back(Name(kind));
  }
  return names;
}

int64_t GreatestRank(const model::VitConfig& config) {
  const nn::AttentionConfig& attention = config.block.attention;
  if (attention.kind == nn::AttentionKind::kMerged) return config.block.width;
  return std::min(attention.query_width(), config.block.width);
}

Edits::Edits(const io::Json& list, const model::VitConfig& config)
    : depth_(config.depth), heads_a_block_(config.block.attention.heads) {
  if (list.is_null()) return;
  Require(list.is_array() && list.size() <= kMaxEdits, "edits: expected a list of at most {} edits, got {}", kMaxEdits,
          list.is_array() ? std::to_string(list.size()) : std::string(list.type_name()));
  for (const io::Json& edit : list) Add(edit, config);
}

HeadEdit& Edits::At(int64_t block, int64_t head) {
  if (heads_.empty()) heads_.resize(static_cast<size_t>(depth_ * heads_a_block_));
  return heads_[static_cast<size_t>(block * heads_a_block_ + head)];
}

const HeadEdit& Edits::Of(int64_t block, int64_t head) const {
  static const HeadEdit kNone;
  return heads_.empty() ? kNone : heads_[static_cast<size_t>(block * heads_a_block_ + head)];
}

void Edits::Remove(int64_t block, int64_t head) { At(block, head).removed = true; }

void Edits::Add(const io::Json& edit, const model::VitConfig& config) {
  Require(edit.is_object(), "edit: expected an object such as {{\"kind\": \"head\", \"block\": 0, \"head\": 1}}");
  const EditKind kind = ParseKind(TextField(edit, "kind"));
  const std::string why = Obstacle(kind, config);
  Require(why.empty(), "edit: {} cannot have \"{}\": {}", config.architecture, Name(kind), why);
  if (kind == EditKind::kToken) {
    const int64_t token = IntegerField(edit, "token", 0, config.tokens() - 1);
    if (std::find(hidden_.begin(), hidden_.end(), token) == hidden_.end()) hidden_.push_back(token);
    return;
  }
  if (kind == EditKind::kHead) {
    Remove(IntegerField(edit, "block", 0, depth_ - 1), IntegerField(edit, "head", 0, heads_a_block_ - 1));
    return;
  }
  const int64_t greatest = GreatestRank(config);
  for (const int64_t block : ListField(edit, "blocks", depth_)) {
    for (const int64_t head : ListField(edit, "heads", heads_a_block_)) {
      HeadEdit& at = At(block, head);
      if (kind == EditKind::kSymmetry) at.t *= NumberField(edit, "t", -1, 1, 1);
      if (kind == EditKind::kGauge) {
        at.gauges.push_back({NumberField(edit, "strength", 0, 1, 1),
                             static_cast<uint64_t>(IntegerField(edit, "seed", 0, int64_t{1} << 52, 0))});
      }
      if (kind != EditKind::kRank) continue;
      const int64_t rank = IntegerField(edit, "rank", 1, greatest);
      const std::string by = TextField(edit, "by", "weights");
      Require(by == "weights" || by == "data", "edit: \"by\" is \"weights\" or \"data\", got \"{}\"", by);
      // The best approximation of full rank is M itself.
      if (rank == greatest || (at.rank && *at.rank <= rank)) continue;
      at.rank = rank, at.rank_by_data = by == "data";
    }
  }
}

}  // namespace qkv::explore
