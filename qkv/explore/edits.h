// Changes to a model's attention that a pass applies while it runs; which edits a model can have, and why not others.
//
// They apply to each head's scores S = s · Q Kᵀ in this order, whatever their order in the request: the rank and the
// gauge of W_Q and W_K, the symmetric and the antisymmetric part, hidden keys, and whether the head's output is used.
// Several of a kind combine: the lowest rank, gauges one after the other, products of t.
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
/// Names of the possible edits. None if no pass can be edited at all.
std::vector<std::string> PossibleEdits(const model::VitConfig& config);

/// Factors of W_Q and W_K.
struct GaugeEdit {
  double strength = 0;
  uint64_t seed = 0;
};

/// The changes to one head.
struct HeadEdit {
  double t = 1;                 // scores of M_s + t · M_a
  std::optional<int64_t> rank;  // of M; none: as it is
  bool rank_by_data = false;    // the best approximation for this image's tokens, not for the weights
  std::vector<GaugeEdit> gauges;
  bool removed = false;  // its output is 0

  /// Scores and weights are those of the model.
  bool plain() const { return t == 1 && !rank && gauges.empty(); }
};

/// The greatest rank of a head's M: the number of directions in which its queries and keys are compared.
int64_t GreatestRank(const model::VitConfig& config);

/// All changes of one pass.
class Edits {
 public:
  Edits() = default;
  /// list: as docs/explore_protocol.md has it; null or missing is none. Throws Error for an unknown edit, for blocks,
  /// heads or tokens that do not exist, and for an edit that the model cannot have, with the reason.
  Edits(const io::Json& list, const model::VitConfig& config);

  bool empty() const { return heads_.empty() && hidden_.empty(); }
  /// The edits of a head; plain ones if there are none.
  const HeadEdit& Of(int64_t block, int64_t head) const;
  void Remove(int64_t block, int64_t head);
  /// Tokens that no other token attends to.
  const std::vector<int64_t>& hidden() const { return hidden_; }

 private:
  void Add(const io::Json& edit, const model::VitConfig& config);
  HeadEdit& At(int64_t block, int64_t head);

  int64_t depth_ = 0, heads_a_block_ = 0;
  std::vector<HeadEdit> heads_;  // [L · H], or empty
  std::vector<int64_t> hidden_;
};

}  // namespace qkv::explore
