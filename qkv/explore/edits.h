// Changes to a model's attention that a pass applies while it runs: what they are, which a model can have, and why not.
//
// They apply to each head's scores S = s · Q Kᵀ in this order, whatever their order in the request: the rank and the
// gauge of its pair, the symmetric and the antisymmetric part, hidden keys, and whether its output is used. Several of
// a kind add up: the lowest rank, gauges one after the other, products of t.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "qkv/io/json.h"
#include "qkv/model/config/vit_config.h"

namespace qkv::explore {

enum class EditKind { kSymmetry, kRank, kGauge, kHead, kToken };

/// "symmetry", "rank", "gauge", "head", "token"
std::string_view Name(EditKind kind);

/// Why the model cannot have such an edit exactly; empty if it can.
std::string Obstacle(EditKind kind, const model::VitConfig& config);
/// Names of the edits that it can have. None if no pass is open to edits at all.
std::vector<std::string> PossibleEdits(const model::VitConfig& config);

/// What W_Q and W_K are multiplied by.
struct GaugeEdit {
  double strength = 0;
  uint64_t seed = 0;
};

/// The changes of one head.
struct HeadEdit {
  double t = 1;                 // scores of M_s + t · M_a
  std::optional<int64_t> rank;  // of M; none: as it is
  bool rank_by_data = false;    // the best for this image's tokens, not for the weights
  std::vector<GaugeEdit> gauges;
  bool removed = false;  // its output is 0

  /// Scores and weights are those of the model.
  bool plain() const { return t == 1 && !rank && gauges.empty(); }
};

/// The greatest rank that a head's M can have, so many directions its queries and keys are compared in.
int64_t GreatestRank(const model::VitConfig& config);

/// All changes of one pass.
class Edits {
 public:
  Edits() = default;
  /// list: as docs/explore_protocol.md has it; null or missing is none. Throws Error for an edit that is not one, for
  /// blocks, heads or tokens that there are not, and for one that the model cannot have, which says why.
  Edits(const io::Json& list, const model::VitConfig& config);

  bool empty() const { return heads_.empty() && hidden_.empty(); }
  /// Of a head, or none.
  const HeadEdit& Of(int64_t block, int64_t head) const;
  void Remove(int64_t block, int64_t head);
  /// Tokens that no other one attends to.
  const std::vector<int64_t>& hidden() const { return hidden_; }

 private:
  void Add(const io::Json& edit, const model::VitConfig& config);
  HeadEdit& At(int64_t block, int64_t head);

  int64_t depth_ = 0, heads_a_block_ = 0;
  std::vector<HeadEdit> heads_;  // [L · H], or empty
  std::vector<int64_t> hidden_;
};

}  // namespace qkv::explore
