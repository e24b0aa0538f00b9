#include "qkv/model/sequence/generation_choices.h"

namespace qkv::model {

GenerationSettings GenerationChoices::Over(GenerationSettings s) const {
  const auto take = [](const auto& given, auto* setting) {
    if (given) *setting = *given;
  };
  take(max_tokens, &s.max_tokens), take(min_tokens, &s.min_tokens), take(beams, &s.beams);
  take(no_repeat_ngram, &s.no_repeat_ngram), take(repetition_penalty, &s.repetition_penalty);
  take(length_penalty, &s.length_penalty), take(temperature, &s.sampling.temperature);
  take(top_k, &s.sampling.top_k), take(top_p, &s.sampling.top_p), take(min_p, &s.sampling.min_p);
  s.sampling.seed = seed;
  if (beams && s.beams > 1 && !temperature) s.sampling.temperature = 0;
  if (temperature && *temperature > 0 && !beams) s.beams = 1;
  return s;
}

}  // namespace qkv::model
