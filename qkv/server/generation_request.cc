#include "qkv/server/generation_request.h"

#include <algorithm>

#include "qkv/app/texts/language.h"
#include "qkv/server/tasks.h"

namespace qkv::server {
namespace {

constexpr size_t kMaxStops = 16, kMaxStop = 1000;
// Beam search holds the keys and values of all its beams.
constexpr int64_t kMaxBeams = 64;
// The largest integer that JSON's numbers hold in every language.
constexpr int64_t kMaxSeed = (int64_t{1} << 53) - 1;

}  // namespace

model::GenerationSettings SettingsOf(const RequestInput& input, model::GenerationSettings s) {
  s.max_tokens = input.Integer("max_tokens", s.max_tokens, 1, 1'000'000);
  s.min_tokens = input.Integer("min_tokens", s.min_tokens, 0, 1'000'000);
  s.beams = input.Integer("beams", s.beams, 1, kMaxBeams);
  s.length_penalty = input.Number("length_penalty", s.length_penalty, -10, 10);
  s.no_repeat_ngram = input.Integer("no_repeat_ngram", s.no_repeat_ngram, 0, 1'000'000);
  s.repetition_penalty = input.Number("repetition_penalty", s.repetition_penalty, 1e-3, 1e3);
  s.sampling.temperature = input.Number("temperature", s.sampling.temperature, 0, 1e6);
  s.sampling.top_k = input.Integer("top_k", s.sampling.top_k, 0, 1'000'000);
  s.sampling.top_p = input.Number("top_p", s.sampling.top_p, 1e-6, 1);
  s.sampling.min_p = input.Number("min_p", s.sampling.min_p, 0, 1);
  s.sampling.seed = static_cast<uint64_t>(input.Integer("seed", 0, 0, kMaxSeed));
  // Beam search and sampling exclude each other: a field for one switches off the other of the model's settings.
  if (input.Has("beams") && s.beams > 1 && !input.Has("temperature")) s.sampling.temperature = 0;
  if (input.Has("temperature") && s.sampling.temperature > 0 && !input.Has("beams")) s.beams = 1;
  s.Validate();
  return s;
}

FieldNames WithDecoding(FieldNames names) {
  names.insert(names.end(), {"max_tokens", "min_tokens", "beams", "length_penalty", "no_repeat_ngram",
                             "repetition_penalty", "temperature", "top_k", "top_p", "min_p", "seed"});
  return names;
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

std::string StopScanner::Add(std::string_view piece) {
  if (stopped_) return "";
  pending_ += piece;
  size_t first = std::string::npos, kept = 0;
  for (const std::string& stop : stops_) {
    first = std::min(first, pending_.find(stop));
    for (size_t n = std::min(stop.size() - 1, pending_.size()); n > kept; --n) {
      if (std::string_view(pending_).ends_with(std::string_view(stop).substr(0, n))) kept = n;
    }
  }
  stopped_ = first != std::string::npos;
  std::string shown = pending_.substr(0, stopped_ ? first : pending_.size() - kept);
  pending_.erase(0, stopped_ ? pending_.size() : shown.size());
  return shown;
}

std::string StopScanner::Rest() { return std::exchange(pending_, ""); }

}  // namespace qkv::server
