#include "qkv/server/generation_request.h"

#include <algorithm>
#include <optional>

#include "qkv/app/texts/language.h"
#include "qkv/model/sequence/generation_choices.h"
#include "qkv/server/tasks.h"

namespace qkv::server {
namespace {

constexpr size_t kMaxStops = 16, kMaxStop = 1000;
// Beam search holds the keys and values of all its beams.
constexpr int64_t kMaxBeams = 64;
// The largest integer that JSON's numbers hold in every language.
constexpr int64_t kMaxSeed = (int64_t{1} << 53) - 1;
constexpr int64_t kMaxTokens = 1'000'000;

constexpr Field Whole(std::string_view name, int64_t low, int64_t high, std::string_view meaning = "") {
  return {.name = name,
          .type = Field::Type::kInteger,
          .meaning = meaning,
          .low = static_cast<double>(low),
          .high = static_cast<double>(high),
          .places = Field::Places::kBody};
}
constexpr Field Real(std::string_view name, double low, double high, std::string_view meaning = "") {
  return {.name = name,
          .type = Field::Type::kNumber,
          .meaning = meaning,
          .low = low,
          .high = high,
          .places = Field::Places::kBody};
}

constexpr Field kMaxTokensField =
    Whole("max_tokens", 1, kMaxTokens, "Greatest number of tokens (the model's files say the usual one)");
constexpr Field kMinTokens = Whole("min_tokens", 0, kMaxTokens);
constexpr Field kBeams = Whole("beams", 1, kMaxBeams, "Above 1: a search, without drawing");
constexpr Field kLengthPenalty = Real("length_penalty", -10, 10);
constexpr Field kNoRepeatNgram = Whole("no_repeat_ngram", 0, kMaxTokens);
constexpr Field kRepetitionPenalty = Real("repetition_penalty", 1e-3, 1e3);
constexpr Field kTemperature = Real("temperature", 0, 1e6, "0: the most probable token");
constexpr Field kTopK = Whole("top_k", 0, kMaxTokens);
constexpr Field kTopP = Real("top_p", 1e-6, 1);
constexpr Field kMinP = Real("min_p", 0, 1);
constexpr Field kSeed = Whole("seed", 0, kMaxSeed, "The same seed gives the same text");

}  // namespace

model::GenerationSettings SettingsOf(const RequestInput& input, const model::GenerationSettings& settings) {
  const auto whole = [&](const Field& field) {
    return input.Has(field.name) ? std::optional(input.Integer(field, 0)) : std::nullopt;
  };
  const auto real = [&](const Field& field) {
    return input.Has(field.name) ? std::optional(input.Number(field, 0)) : std::nullopt;
  };
  const model::GenerationChoices choices{.max_tokens = whole(kMaxTokensField),
                                         .min_tokens = whole(kMinTokens),
                                         .beams = whole(kBeams),
                                         .no_repeat_ngram = whole(kNoRepeatNgram),
                                         .top_k = whole(kTopK),
                                         .temperature = real(kTemperature),
                                         .top_p = real(kTopP),
                                         .min_p = real(kMinP),
                                         .length_penalty = real(kLengthPenalty),
                                         .repetition_penalty = real(kRepetitionPenalty),
                                         .seed = static_cast<uint64_t>(input.Integer(kSeed, 0))};
  model::GenerationSettings chosen = choices.Over(settings);
  chosen.Validate();
  return chosen;
}

std::vector<Field> WithDecoding(std::vector<Field> fields) {
  fields.insert(fields.end(), {kMaxTokensField, kMinTokens, kBeams, kLengthPenalty, kNoRepeatNgram, kRepetitionPenalty,
                               kTemperature, kTopK, kTopP, kMinP, kSeed});
  return fields;
}

std::vector<app::Written> WriteTexts(Context& context, const Call& call,
                                     const std::shared_ptr<const LoadedModel>& model,
                                     std::span<const app::TextIds> texts, const app::WritingOptions& options) {
  std::vector<app::Written> written;
  const auto most =
      static_cast<size_t>(std::max<int64_t>(1, context.config().batching.most_together / options.settings.beams));
  for (size_t begin = 0; begin < texts.size(); begin += most) {
    const std::span<const app::TextIds> some = texts.subspan(begin, std::min(most, texts.size() - begin));
    app::WritingOptions own = options;
    own.settings.sampling.seed += begin;
    own.together = context.config().batching.most_together;
    const auto task = std::make_shared<WriteTask>(model, std::vector<app::TextIds>(some.begin(), some.end()), own,
                                                  [&context] { context.GiveWay(); });
    context.Compute(task, call);
    written.insert(written.end(), task->written().begin(), task->written().end());
  }
  return written;
}

std::vector<std::string> StopsOf(const RequestInput& input) {
  std::vector<std::string> stops = input.Texts("stop");
  const bool fit = stops.size() <= kMaxStops && std::all_of(stops.begin(), stops.end(), [](const std::string& stop) {
                     return !stop.empty() && stop.size() <= kMaxStop;
                   });
  if (!fit) {
    BadRequest("stop: expected up to 16 texts of 1 to 1,000 bytes");
  }
  return stops;
}

}  // namespace qkv::server
