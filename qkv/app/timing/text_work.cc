#include "qkv/app/timing/text_work.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "qkv/app/texts/texts.h"
#include "qkv/core/memory.h"
#include "qkv/core/rng.h"
#include "qkv/model/blocks/finite.h"
#include "qkv/model/sequence/decoder.h"
#include "qkv/model/sequence/generation.h"

namespace qkv::app {
namespace {

using Ids = std::vector<std::vector<int32_t>>;

constexpr int64_t kEmbedBatch = 32, kEmbedTokens = 128;
constexpr int64_t kPrompt = 512, kDecodeBatch = 8, kSteps = 16;  // tokens of a pass of decoding
constexpr int64_t kSourceTokens = 32, kBeams = 4, kBeamBatch = 32;
constexpr size_t kGreedyTexts = 8;                                          // of a file, read and written one by one
constexpr int64_t kSampleTexts = 4, kSampleTokens = 16, kFileSamples = 32;  // for the drift

Ids RandomIds(int64_t vocabulary, int64_t texts, int64_t tokens, uint64_t seed) {
  RequireMemory(static_cast<double>(sizeof(int32_t)) * static_cast<double>(texts) * static_cast<double>(tokens),
                fmt::format("bench: {} texts of {} tokens", texts, tokens));
  Rng rng(seed);
  Ids ids(static_cast<size_t>(texts));
  for (std::vector<int32_t>& text : ids) {
    for (int64_t i = 0; i < tokens; ++i) {
      text.push_back(static_cast<int32_t>(rng.Next() % static_cast<uint64_t>(vocabulary)));
    }
  }
  return ids;
}

// The numbers of tokens to measure: those asked for, or the usual one as far as the model goes.
std::vector<int64_t> TokenCounts(const TextWorkOptions& options, int64_t usual, int64_t most, bool several) {
  if (options.tokens.empty()) return {std::min(usual, most)};
  const std::vector<int64_t>& counts = options.tokens;
  for (const int64_t count : counts) {
    Require(count <= most, "bench: --tokens {}, and the model takes {}", count, most);
  }
  Require(several || counts.size() == 1, "bench: --tokens takes several numbers for encoders only");
  return counts;
}

// Texts of an encoder-decoder, padded to one length, and what its decoder reads of them.
struct PairState {
  model::TextWorkspace workspace;
  Tensor<int32_t> ids;
  Tensor<bool> mask;

  void Read(const model::TextModel& model, std::span<const std::vector<int32_t>> texts) {
    size_t longest = 0;
    for (const std::vector<int32_t>& text : texts) longest = std::max(longest, text.size());
    const auto N = static_cast<int64_t>(longest);
    ids.Reuse({std::ssize(texts), N}), mask.Reuse({std::ssize(texts), N});
    for (int64_t b = 0; b < std::ssize(texts); ++b) {
      const std::vector<int32_t>& text = texts[static_cast<size_t>(b)];
      for (int64_t n = 0; n < N; ++n) {
        const bool read = n < std::ssize(text);
        ids.view().row(b)[n] = read ? text[static_cast<size_t>(n)] : text[0];
        mask.view().row(b)[n] = read;
      }
    }
    model.ReadSource({.ids = ids, .mask = mask}, workspace);
  }
};

int32_t StartToken(const model::TextModel& model) { return model.description().generation.start.value_or(0); }

TextWork EmbedRandom(const model::TextModel& model, int64_t batch, int64_t tokens) {
  TextWork work{.name = "embed", .batch = batch, .tokens = tokens};
  work.texts = static_cast<double>(batch), work.counted = work.texts * static_cast<double>(tokens);
  work.run = [&model, ids = RandomIds(model.encoder().config().vocabulary, batch, tokens, 1)] { model.Embed(ids); };
  return work;
}

TextWork EmbedTexts(const LanguageModel& language, const std::vector<std::string>& texts) {
  TextWork work{.name = "embed", .batch = std::ssize(texts), .texts = static_cast<double>(texts.size())};
  for (const std::string& text : texts) {
    work.counted += static_cast<double>(std::min(language.CountTokens(text), language.model().text_length()));
  }
  work.run = [&language, &texts] { language.Embed(texts); };
  return work;
}

TextWork Prefill(const model::TextModel& model, int64_t tokens) {
  TextWork work{.name = "prefill", .batch = 1, .tokens = tokens, .texts = 1};
  work.counted = static_cast<double>(tokens);
  const auto decoder = std::make_shared<model::Decoder<float>>(model.decoder(), 1, tokens);
  work.run = [decoder, ids = RandomIds(model.decoder().config().vocabulary, 1, tokens, 1)] { decoder->Start(ids); };
  return work;
}

// The context stays short, so that keys and values count for little beside the weights.
TextWork Decode(const model::TextModel& model, const char* name, int64_t batch) {
  const model::SequenceConfig& config = model.decoder().config();
  const int64_t steps = std::min(kSteps, config.length - 1);
  Require(steps > 0, "bench: the decoder takes {} token and writes none", config.length);
  TextWork work{.name = name, .batch = batch, .tokens = steps, .texts = static_cast<double>(batch)};
  work.counted = work.texts * static_cast<double>(steps);
  work.weight_bytes = static_cast<double>(steps) * static_cast<double>(model.decoder().decoding_bytes());
  const auto decoder = std::make_shared<model::Decoder<float>>(model.decoder(), batch, steps + 1);
  work.run = [decoder, steps, prompts = RandomIds(config.vocabulary, batch, 1, 1)] {
    model::Generate(*decoder, prompts, nullptr, {.max_tokens = steps});
  };
  return work;
}

// Writes as many tokens as it reads.
TextWork WriteRandom(const model::TextModel& model, const char* name, int64_t batch, int64_t beams, int64_t tokens) {
  TextWork work{.name = name, .batch = batch, .tokens = tokens, .texts = static_cast<double>(batch)};
  work.counted = work.texts * static_cast<double>(tokens);
  const auto state = std::make_shared<PairState>();
  const auto decoder = std::make_shared<model::Decoder<float>>(model.decoder(), batch * beams, tokens + 1);
  model::GenerationSettings settings{.max_tokens = tokens, .min_tokens = tokens, .beams = beams};
  settings.ends = model.description().generation.ends;
  const Ids starts(static_cast<size_t>(batch), {StartToken(model)});
  work.run = [&model, state, decoder, settings, starts,
              ids = RandomIds(model.encoder().config().vocabulary, batch, tokens, 1)] {
    state->Read(model, ids);
    model::Generate(*decoder, starts, &state->workspace.source, settings);
  };
  return work;
}

TextWork WriteTexts(const LanguageModel& language, const char* name, std::span<const std::string> texts, int64_t batch,
                    int64_t beams) {
  WritingOptions options{.together = batch, .settings = language.Settings()};
  options.settings.sampling = {.temperature = 0};
  options.settings.beams = beams;
  TextWork work{.name = name, .batch = batch, .texts = static_cast<double>(texts.size())};
  for (const Written& written : language.Write(texts, options)) work.counted += static_cast<double>(written.tokens);
  work.run = [&language, texts, options] { language.Write(texts, options); };
  return work;
}

void AddPairWorks(const TextContender& contender, const TextWorkOptions& options, const std::vector<std::string>& texts,
                  const std::function<bool(std::string_view)>& wanted, std::vector<TextWork>* works) {
  const model::TextModel& model = contender.model();
  const int64_t batch = options.batch > 0 ? options.batch : kBeamBatch;
  if (contender.language) {
    const std::span<const std::string> all = texts;
    if (wanted("greedy")) {
      works->push_back(WriteTexts(*contender.language, "greedy", all.first(std::min(kGreedyTexts, all.size())), 1, 1));
    }
    if (wanted("beams")) works->push_back(WriteTexts(*contender.language, "beams", all, batch, kBeams));
    return;
  }
  const int64_t most = std::min(model.encoder().config().length, model.decoder().config().length - 1);
  const int64_t tokens = TokenCounts(options, kSourceTokens, most, false)[0];
  if (wanted("greedy")) works->push_back(WriteRandom(model, "greedy", 1, 1, tokens));
  if (wanted("beams")) works->push_back(WriteRandom(model, "beams", batch, kBeams, tokens));
}

}  // namespace

std::vector<int64_t> ParseTokenCounts(const std::string& text) {
  std::vector<int64_t> counts;
  for (const char *at = text.data(), *const end = at + text.size(); at < end;) {
    int64_t count = 0;
    const auto [stop, error] = std::from_chars(at, end, count);
    if (error != std::errc() || count < 1 || (stop != end && *stop != ',')) return {};
    counts.push_back(count);
    at = stop + (stop != end);
  }
  return counts;
}

TextContender OpenContender(const AnyModel& model, bool with_texts) {
  if (with_texts) return {std::make_shared<const LanguageModel>(model.BuildLanguage()), {}};
  return {{}, std::make_shared<const model::TextModel>(model.BuildTexts())};
}

std::vector<TextWork> MakeTextWorks(const TextContender& contender, const TextWorkOptions& options,
                                    const std::vector<std::string>& texts) {
  const model::TextModel& model = contender.model();
  const auto wanted = [&](std::string_view name) { return options.work.empty() || options.work == name; };
  std::vector<TextWork> works;
  if (!model.has_decoder() && wanted("embed")) {
    if (contender.language) {
      works.push_back(EmbedTexts(*contender.language, texts));
    } else {
      const int64_t batch = options.batch > 0 ? options.batch : kEmbedBatch;
      for (const int64_t tokens : TokenCounts(options, kEmbedTokens, model.text_length(), true)) {
        works.push_back(EmbedRandom(model, batch, tokens));
      }
    }
  }
  if (model.has_encoder() && model.has_decoder()) AddPairWorks(contender, options, texts, wanted, &works);
  if (!model.has_encoder()) {
    const int64_t prompt = TokenCounts(options, kPrompt, model.text_length(), false)[0];
    if (wanted("prefill")) works.push_back(Prefill(model, prompt));
    if (wanted("decode")) works.push_back(Decode(model, "decode", 1));
    if (wanted("decode-batch")) {
      works.push_back(Decode(model, "decode-batch", options.batch > 0 ? options.batch : kDecodeBatch));
    }
  }
  Require(!works.empty(),
          "bench: --work {}: the model is {}; an encoder embeds, a decoder prefills and decodes, an encoder-decoder "
          "writes (greedy, beams)",
          options.work, model.description().architecture);
  return works;
}

TextSamples MakeTextSamples(const TextContender& exact, const std::vector<std::string>& texts) {
  const model::TextModel& model = exact.model();
  const bool pair = model.has_encoder() && model.has_decoder();
  const model::SequenceConfig& reader = (model.has_encoder() ? model.encoder() : model.decoder()).config();
  TextSamples samples{.random = !exact.language};
  const int64_t most = std::min(kSampleTokens, reader.length);
  if (samples.random) {
    samples.ids = RandomIds(reader.vocabulary, kSampleTexts, most, 2);
    const int64_t written = pair ? std::min(kSampleTokens, model.decoder().config().length) : 0;
    if (pair) samples.written = RandomIds(model.decoder().config().vocabulary, kSampleTexts, written, 3);
    return samples;
  }
  for (size_t i = 0; i < std::min<size_t>(texts.size(), kFileSamples); ++i) {
    const text::EncodeOptions cut{.max_length = reader.length, .padding = text::Padding::kNone};
    samples.ids.push_back(exact.language->tokenizer().Encode(texts[i], cut));
    Require(!samples.ids.back().empty(), "bench: text {} has no token", i + 1);
  }
  if (!pair) return samples;
  PairState state;
  model::Decoder<float> decoder(model.decoder(), 1, kSampleTokens + 1);
  for (const std::vector<int32_t>& text : samples.ids) {
    state.Read(model, {&text, 1});
    const Ids start{{StartToken(model)}};
    std::vector<int32_t> written = start[0];
    const model::Generated one =
        model::Generate(decoder, start, &state.workspace.source, {.max_tokens = decoder.length() - 1})[0];
    written.insert(written.end(), one.tokens.begin(), one.tokens.end() - 1);
    samples.written.push_back(std::move(written));
  }
  return samples;
}

Tensor<float> AnswerSamples(const model::TextModel& model, const TextSamples& samples) {
  if (!model.has_decoder()) return model.Embed(samples.ids);
  const bool pair = model.has_encoder();
  int64_t rows = 0;
  for (const auto& ids : pair ? samples.written : samples.ids) rows += std::ssize(ids);
  const int64_t outputs = model.decoder().config().outputs;
  RequireMemory(sizeof(float) * static_cast<double>(rows) * static_cast<double>(outputs), "bench: logits");
  auto logits = Tensor<float>::Uninitialised({rows, outputs});
  model::TextWorkspace workspace;
  int64_t row = 0;
  for (size_t i = 0; i < samples.ids.size(); ++i) {
    const auto of = [](const std::vector<int32_t>& ids) {
      return View<const int32_t>(ids.data(), {1, std::ssize(ids)});
    };
    const int64_t tokens = std::ssize(pair ? samples.written[i] : samples.ids[i]);
    model::TextInputs inputs{.ids = of(samples.ids[i])};
    if (pair) inputs.decoder_ids = of(samples.written[i]);
    model.Forward(inputs, workspace, {.logits = {logits.view().row(row), {1, tokens, outputs}}});
    row += tokens;
  }
  Require(model::AllFinite(logits.data(), logits.size()),
          "bench: logits hold NaN or infinity: weights are broken, or too large for the precision");
  return logits;
}

}  // namespace qkv::app
