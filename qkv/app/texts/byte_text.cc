#include "qkv/app/texts/byte_text.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "qkv/model/blocks/finite.h"
#include "qkv/model/sequence/decoder.h"
#include "qkv/model/sequence/sampling.h"

namespace qkv::app {

bool WritesBytes(const model::SequenceConfig& config) {
  return config.meaning == model::TokenMeaning::kByte && config.causal;
}

model::GenerationSettings ByteSettings() {
  constexpr int64_t kBytes = 500;
  return {.max_tokens = kBytes, .sampling = {.temperature = 1}};
}

Written ContinueBytes(const model::SequenceModel<float>& model, const std::string& name, std::string prompt,
                      const model::GenerationSettings& settings, const std::function<bool(std::string_view)>& show) {
  const model::SequenceConfig& config = model.config();
  Require(WritesBytes(config), "generate: {} is no text model; qkv train book.txt -o RUN makes one", name);
  Require(
      settings.beams == 1 && settings.no_repeat_ngram == 0 && settings.repetition_penalty == 1,
      "generate: {} writes bytes, drawn one by one; beams, no-repeat-ngram and repetition-penalty need a model with "
      "a tokenizer",
      name);
  // The first byte needs a token before it: a line end.
  if (prompt.empty()) prompt = "\n";
  model::Decoder<float> decoder(model);
  model::TokenSampler sampler(settings.sampling);
  std::vector<int32_t> tokens;
  const std::string_view end =
      std::string_view(prompt).substr(prompt.size() - std::min(prompt.size(), static_cast<size_t>(config.length)));
  for (const char byte : end) tokens.push_back(static_cast<uint8_t>(byte));
  Written written{.source_tokens = std::ssize(tokens)};
  std::span<const float> logits = decoder.Prefill(tokens);
  if (!show({})) return written;
  while (written.tokens < settings.max_tokens) {
    if (written.tokens > 0) logits = decoder.Next(tokens.back());
    if (!model::AllFinite(logits.data(), std::ssize(logits))) {
      Fail(
          "generate: the answer to {} tokens holds NaN or infinity, expected finite logits; they begin in {}: weights "
          "there are too large for the precision, or broken",
          decoder.tokens().size(), model.WhereNotFinite(decoder.tokens()));
    }
    tokens.assign(1, sampler.Draw(logits));
    written.text += static_cast<char>(tokens.back());
    written.ids.push_back(tokens.back());
    ++written.tokens;
    if (!show(std::string_view(written.text).substr(written.text.size() - 1))) break;
  }
  return written;
}

}  // namespace qkv::app
