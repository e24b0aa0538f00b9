// Attention of texts: which tokens each token attends to, in an encoder, in a decoder, or in a decoder's
// cross-attention to its encoder. How it is written: text_attention_files.h.
//
// In a decoder that cross-attends to an encoder (Marian, T5), row t is the step that wrote token t: its query is the
// token before, or the start token. Rows are named by what was written, columns by what was read.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/app/attention/attend.h"
#include "qkv/app/attention/map_plan.h"
#include "qkv/app/texts/language.h"
#include "qkv/core/tensor.h"
#include "qkv/inspect/parts.h"

namespace qkv::app {

/// "encoder", "decoder", "cross". Throws Error that begins with `option` for any other name.
inspect::PartKind ParsePart(std::string_view name, std::string_view option);

/// What is computed, in the words of `qkv attend`.
struct TextAttendRequest {
  std::optional<inspect::PartKind> part;  // none: cross-attention of an encoder-decoder, else of the part that there is
  std::string layers, head;               // as AttendRequest
  std::optional<std::string> target;      // what an encoder-decoder is given to write; none: it writes by itself
  std::string prefix;                     // put before the text, such as "translate English to German: "
  model::GenerationSettings settings;     // for a decoder, see LanguageModel::Settings
  MapFormat format = MapFormat::kNpy;     // kHtml: every block and head unless given
  std::string model;                      // its name for people; empty: its architecture
  Note note;                              // receives what a page leaves out
  std::function<bool()> stop = {};        // asked before each token that a decoder writes; may throw
};

/// The attention of one text.
struct TextAttention {
  std::string model;  // its name for people
  inspect::PartKind part = inspect::PartKind::kEncoder;
  std::string source;                      // the text that was read, with the prefix
  std::string target;                      // what an encoder-decoder wrote
  std::vector<std::string> rows, columns;  // tokens that look, T, and those that they look at, N (ReadableToken)
  std::vector<int32_t> row_ids, column_ids;
  std::vector<std::string> layers, heads;  // names of the blocks and of the heads
  Tensor<float> weights;                   // [layers, heads, T, N]; a row of an unfused head sums to 1

  /// One block and head: [T, N].
  View<const float> Matrix(int64_t l, int64_t h) const { return View<const float>(weights.view()[l][h]); }
};

/// "cross-attention", "self-attention of the encoder", …
std::string Describe(inspect::PartKind part);
/// The same after the model's name.
std::string Describe(const TextAttention& attention);

/// All but the weights: {"model", "part", "source", for an encoder-decoder "target", "rows", "columns", "row_ids",
/// "column_ids", "layers", "heads"}.
io::Json Facts(const TextAttention& attention);
/// Facts and "weights": nested arrays [layers, heads, T, N].
io::Json ToJson(const TextAttention& attention);

/// Computes the attention of one text after the other. Refers to the model.
class TextAttender {
 public:
  /// Throws Error for a part, blocks or heads that the model does not have, and for a target where it writes none.
  TextAttender(const LanguageModel& model, TextAttendRequest request);

  /// Throws Error if the text is empty or longer than the model reads, if the weights need more than MemoryLimit() or a
  /// page would be too large, and if they are not finite.
  TextAttention Compute(const std::string& text) const { return Compute(text, Read(text)); }
  /// The same for a text whose ids are known.
  TextAttention Compute(const std::string& text, const std::vector<int32_t>& ids) const;
  /// The ids of a text, with the prefix. Throws Error if it is empty or longer than the model reads.
  std::vector<int32_t> Read(const std::string& text) const;

 private:
  struct Ids {
    std::vector<int32_t> source, fed, written;  // read by the encoder or alone; read and written by its decoder
    std::string target;
  };

  Ids Tokens(const std::string& text, const std::vector<int32_t>& source) const;
  std::vector<int32_t> GivenTarget() const;
  std::vector<int32_t> TargetIds(const std::string& text, std::string* target) const;
  void FitPage(MapPlan& plan, int64_t T, int64_t N) const;
  Tensor<float> Weights(const MapPlan& plan, const Ids& ids, int64_t T, int64_t N) const;

  const LanguageModel& model_;
  const TextAttendRequest request_;
  bool pair_ = false;
  inspect::PartKind part_ = inspect::PartKind::kEncoder;
  int64_t depth_ = 0, heads_ = 0;  // of the part
  MapPlan plan_;
};

}  // namespace qkv::app
