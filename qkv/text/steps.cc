#include "qkv/text/steps.h"

namespace qkv::text {
namespace {

// Steps of calling a function that has nothing to do.
constexpr int64_t kCall = 16;

template <typename Steps, typename Run, typename Size>
void RunSteps(const Steps& steps, size_t limit, const Run& run, const Size& size) {
  for (const auto& step : steps) {
    Spend(kCall + static_cast<int64_t>(size()));
    run(step);
    RequireGrown(size(), limit);
  }
}

}  // namespace

void RunNormalizers(const std::vector<Normalizer>& steps, Segment& segment) {
  RunSteps(
      steps, segment.limit, [&](const Normalizer& step) { step(segment); }, [&] { return segment.text.size(); });
}

void RunPreTokenizers(const std::vector<PreTokenizer>& steps, Pieces& pieces) {
  RunSteps(
      steps, pieces.limit, [&](const PreTokenizer& step) { step(pieces); }, [&] { return pieces.text.size(); });
}

void RunDecoders(const std::vector<Decoder>& steps, size_t limit, std::vector<std::string>& tokens) {
  RunSteps(
      steps, limit, [&](const Decoder& step) { step(tokens, limit); },
      [&] {
        size_t bytes = tokens.size();
        for (const std::string& token : tokens) bytes += token.size();
        return bytes;
      });
}

}  // namespace qkv::text
