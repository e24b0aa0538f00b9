#include "cli/writing.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "cli/output.h"
#include "qkv/core/error.h"
#include "qkv/model/sequence/generation_choices.h"

namespace qkv::cli {

void DecodingOptions::AddSampling(Command command) {
  command
      .AddOption(
          "--temperature", &temperature,
          "Logits are divided by it: below 1 safer, above bolder; 0: always the most probable token (default: as "
          "the model's files say)")
      .Range(0.0, 1e6)
      .TypeName("X");
  command.AddOption("--top-k", &top_k, "Only the N most probable tokens; 0: all").Range(0.0, 1e6).TypeName("N");
  command.AddOption("--top-p", &top_p, "Of these the fewest that are together at least so probable (nucleus sampling)")
      .Range(1e-6, 1.0)
      .TypeName("X");
  command
      .AddOption("--min-p", &min_p, "Of these those that are at least so probable, relative to the most probable one")
      .Range(0.0, 1.0)
      .TypeName("X");
  command.AddOption("--seed", &seed, "Of what is drawn: the same seed, the same text").TypeName("N").ShowDefault();
}

void DecodingOptions::AddSearch(Command command, std::string_view what) {
  command.AddOption("--tokens", &tokens, what).Range(0.0, 1e12).TypeName("N");
  command.AddOption("--min-tokens", &min_tokens, "No text ends before so many tokens").Range(0.0, 1e9).TypeName("N");
  command.AddOption("--beams", &beams, "Search with so many texts at a time, and take the best; 1: token by token")
      .Range(1.0, 4096.0)
      .TypeName("N");
  command
      .AddOption("--length-penalty", &length_penalty,
                 "Of a search: scores are divided by the length to this power; above 1 favours long texts")
      .Range(-1e3, 1e3)
      .TypeName("X");
  command.AddOption("--no-repeat-ngram", &no_repeat_ngram, "No N tokens in a row occur twice; 0: any may")
      .Range(0.0, 1e6)
      .TypeName("N");
  command
      .AddOption("--repetition-penalty", &repetition_penalty, "Above 1: tokens that are there already are less likely")
      .Range(1e-3, 1e3)
      .TypeName("X");
}

model::GenerationSettings DecodingOptions::Over(const model::GenerationSettings& settings) const {
  const auto whole = [](const std::optional<double>& given) -> std::optional<int64_t> {
    if (!given) return {};
    Require(*given == std::floor(*given), "expected a whole number, got {}", *given);
    return static_cast<int64_t>(*given);
  };
  const model::GenerationChoices choices{.max_tokens = whole(tokens),
                                         .min_tokens = whole(min_tokens),
                                         .beams = whole(beams),
                                         .no_repeat_ngram = whole(no_repeat_ngram),
                                         .top_k = whole(top_k),
                                         .temperature = temperature,
                                         .top_p = top_p,
                                         .min_p = min_p,
                                         .length_penalty = length_penalty,
                                         .repetition_penalty = repetition_penalty,
                                         .seed = seed};
  return choices.Over(settings);
}

void UnfinishedTexts::Add(bool ended, int64_t tokens) {
  ++texts;
  if (ended) return;
  ++unfinished;
  longest = std::max(longest, tokens);
}

void UnfinishedTexts::Print() const {
  if (unfinished == 0) return;
  PrintNote(
      FormatShown("{} of {} texts end without the model's end, the longest after {} tokens; --tokens gives them "
                  "more, as far as the model goes",
                  unfinished, texts, longest));
}

}  // namespace qkv::cli
