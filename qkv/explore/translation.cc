#include "qkv/explore/translation.h"

#include <chrono>

#include "qkv/app/attention/text_attention.h"
#include "qkv/app/attention/weight_bytes.h"
#include "qkv/app/texts/cross_rule.h"
#include "qkv/core/lines.h"
#include "qkv/explore/fields.h"

namespace qkv::explore {

Packet AnswerTranslate(ExploredModel& model, const io::Json& request) {
  const auto start = std::chrono::steady_clock::now();
  const app::LanguageModel& pair = model.language();
  app::TextAttendRequest attend{.part = inspect::PartKind::kCross,
                                .layers = "all",
                                .head = "all",
                                .prefix = pair.Prefix("translate"),
                                .settings = pair.Settings(),
                                .model = TitleOf(model.entry())};
  const std::string rule = TextField(request, "rule", ""), target = TextField(request, "target", "");
  if (!rule.empty()) attend.settings.cross = app::ParseCrossWeights(rule, "\"rule\"");
  if (!Trim(target).empty()) attend.target = target;
  const app::TextAttention attention = app::TextAttender(pair, attend).Compute(TextField(request, "text"));
  const Tensor<float>& weights = attention.weights;  // [L, H, T, N]
  const int64_t L = weights.dim(0), H = weights.dim(1), T = weights.dim(2), N = weights.dim(3);
  Packet answer;
  Array bytes{ArrayType::kU8, {L, H, T, N}, std::vector<std::byte>(static_cast<size_t>(weights.size()))};
  Tensor<float> scales({L, H, T});
  app::WeightBytes(View<const float>(weights.data(), {L * H * T, N}), reinterpret_cast<uint8_t*>(bytes.bytes.data()),
                   scales.data());
  answer.arrays["attention"] = std::move(bytes), answer.arrays["scales"] = MakeArray(scales);
  answer.json = {{"text", attention.target},
                 {"rows", attention.rows},
                 {"columns", attention.columns},
                 {"rule", app::DescribeCrossWeights(attend.settings.cross)}};
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
  answer.json["milliseconds"] = time.count();
  return answer;
}

}  // namespace qkv::explore
