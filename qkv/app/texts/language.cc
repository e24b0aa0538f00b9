#include "qkv/app/texts/language.h"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <utility>
#include <variant>

#include "qkv/app/open/hub.h"
#include "qkv/app/texts/texts.h"
#include "qkv/core/error.h"
#include "qkv/core/lines.h"
#include "qkv/core/parallel.h"
#include "qkv/core/text.h"
#include "qkv/model/sequence/pair_generation.h"
#include "qkv/model/sequence/text_cache.h"

namespace qkv::app {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kNoLimit = int64_t{1} << 40;
constexpr size_t kShownBytes = 60;     // of a text, in a note
constexpr int64_t kUsualTokens = 256;  // of a text whose files do not say how long it may be

// Of what the model reads.
text::Tokenizer OpenTokenizer(const model::TextCheckpoint& checkpoint, const Note& note) {
  const model::TextDescription& d = checkpoint.description;
  text::Tokenizer tokenizer = text::Tokenizer::Open(FolderOf(checkpoint.source), d.sentence.lower_case);
  NotifySettings(tokenizer, checkpoint.source, note);
  RequireIdsWithin(tokenizer, (d.encoder ? *d.encoder : *d.decoder).vocabulary, checkpoint.source);
  return tokenizer;
}

// Of what it writes.
text::Tokenizer OpenTarget(const model::TextCheckpoint& checkpoint, const text::Tokenizer& tokenizer) {
  const bool has_both = checkpoint.description.encoder && checkpoint.description.decoder;
  return has_both ? text::Tokenizer::OpenTarget(FolderOf(checkpoint.source)) : tokenizer;
}

model::TextCheckpoint Named(model::TextCheckpoint checkpoint, const std::string& name) {
  if (!name.empty()) checkpoint.source = name;
  return checkpoint;
}

}  // namespace

model::GenerationSettings UsualSettings(const model::GenerationDefaults& defaults, const text::Tokenizer& tokenizer,
                                        int64_t prompt) {
  model::GenerationSettings settings = SettingsOf(defaults, prompt);
  if (defaults.max_length == 0 && defaults.max_new_tokens == 0) settings.max_tokens = kUsualTokens;
  if (settings.ends.empty() && tokenizer.special().end) settings.ends = {*tokenizer.special().end};
  return settings;
}

std::string DecodeKnown(const text::Tokenizer& tokenizer, std::vector<int32_t> ids) {
  std::erase_if(ids, [&](int32_t id) { return !tokenizer.TokenOf(id); });
  return tokenizer.Decode(ids);
}

LanguageModel::LanguageModel(model::TextCheckpoint checkpoint, const ModelEntry& entry, const Note& note)
    : tokenizer_(OpenTokenizer(checkpoint, note)),
      target_(OpenTarget(checkpoint, tokenizer_)),
      checkpoint_(std::make_shared<const model::TextCheckpoint>(Named(std::move(checkpoint), entry.id))),
      model_(std::make_shared<const model::TextModel>(
          BuildCached(*checkpoint_, entry.build, CacheFor(entry.cache, note)))) {}

LanguageModel LanguageModel::Open(const ModelEntry& entry, const Note& note) {
  model::AnyCheckpoint any = OpenAnyCheckpoint(entry, note);
  auto* const texts = std::get_if<model::TextCheckpoint>(&any);
  Require(texts != nullptr, "{} is {}, expected a text model", entry.path, Describe(model::KindOf(any)));
  return LanguageModel(std::move(*texts), entry, note);
}

// length: tokens that the model reads.
std::vector<std::vector<int32_t>> LanguageModel::Encode(std::span<const std::string> texts, int64_t length) const {
  std::vector<std::vector<int32_t>> ids(texts.size());
  constexpr int64_t kGrain = 16;
  ParallelFor(std::ssize(texts), kGrain, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      RequireTextBytes(texts[i].size(), length, FormatShown("text {}", i + 1));
      ids[i] = tokenizer_.Encode(texts[i], {.max_length = kNoLimit, .padding = text::Padding::kNone});
      Require(!ids[i].empty(), "text {} has no token, and the tokenizer adds none", i + 1);
    }
  });
  return ids;
}

std::vector<std::vector<int32_t>> LanguageModel::Encode(std::span<const std::string> texts) const {
  return Encode(texts, model_->text_length());
}

// As in sentence-transformers: the length in its own file, or the tokenizer's.
int64_t LanguageModel::EmbeddedLength() const {
  const int64_t asked = model_->description().sentence.length;
  const int64_t stated = asked > 0 ? asked : tokenizer_.model_max_length().value_or(kNoLimit);
  return std::min(stated, model_->text_length());
}

// Tokens of the prompt alone, without the one that ends a text, as sentence-transformers counts them.
int64_t LanguageModel::CountPrompt(const std::string& prompt) const {
  if (model_->description().sentence.pools_prompt || prompt.empty()) return 0;
  const std::vector<int32_t> ids = tokenizer_.Encode(prompt, {.max_length = kNoLimit, .padding = text::Padding::kNone});
  return std::ssize(ids) - (!ids.empty() && tokenizer_.IsHidden(ids.back()) ? 1 : 0);
}

const std::string& LanguageModel::PromptOr(const std::optional<std::string>& prompt) const {
  return prompt ? *prompt : model_->description().sentence.prompt;
}

std::vector<TextIds> LanguageModel::Read(std::span<const std::string> texts,
                                         const std::optional<std::string>& prompt) const {
  const int64_t length = EmbeddedLength();
  const std::string& before = PromptOr(prompt);
  std::vector<std::string> prompted;
  if (!before.empty()) {
    for (const std::string& text : texts) prompted.push_back(before + text);
    texts = prompted;
  }
  std::vector<std::vector<int32_t>> ids = Encode(texts, length);
  std::vector<TextIds> read(texts.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    read[i].tokens = std::ssize(ids[i]);
    read[i].read = std::min(read[i].tokens, length);
    read[i].ids = read[i].is_cut()
                      ? tokenizer_.Encode(texts[i], {.max_length = length, .padding = text::Padding::kNone})
                      : std::move(ids[i]);
  }
  return read;
}

Tensor<float> LanguageModel::Embed(std::span<const TextIds> texts, const std::optional<std::string>& prompt) const {
  std::vector<std::vector<int32_t>> ids;
  for (const TextIds& text : texts) ids.push_back(text.ids);
  return model_->Embed(ids, CountPrompt(PromptOr(prompt)));
}

Tensor<float> LanguageModel::Embed(std::span<const std::string> texts, const Note& note,
                                   const std::optional<std::string>& prompt) const {
  const std::vector<TextIds> read = Read(texts, prompt);
  std::vector<uint8_t> is_cut;
  for (const TextIds& text : read) is_cut.push_back(text.is_cut());
  NoteCutTexts(note, texts, is_cut, EmbeddedLength());
  return Embed(read, prompt);
}

std::string LanguageModel::Prefix(std::string_view task) const {
  const io::Json config = io::ParseJson(checkpoint_->configuration, checkpoint_->source);
  const auto tasks = config.find("task_specific_params");
  if (tasks == config.end() || !tasks->is_object()) return "";
  // Only "summarization": translations need a pair of languages, which the user chooses.
  if (task != "summarize" || !tasks->contains("summarization")) return "";
  const io::Json& summarization = (*tasks)["summarization"];
  const auto prefix = summarization.is_object() ? summarization.find("prefix") : summarization.end();
  return prefix != summarization.end() && prefix->is_string() ? prefix->get<std::string>() : "";
}

model::GenerationSettings LanguageModel::Settings(int64_t prompt) const {
  return UsualSettings(model_->description().generation, tokenizer_, prompt);
}

int32_t LanguageModel::StartToken() const {
  const std::optional<int32_t> start = model_->description().generation.start;
  const std::optional<int32_t> first = start ? start : tokenizer_.special().padding;
  Require(first.has_value(), "{}: neither generation_config.json nor config.json has a \"decoder_start_token_id\"",
          checkpoint_->source);
  return *first;
}

int64_t LanguageModel::usual_length() const {
  const int64_t trained = model_->description().trained_length;
  return trained > 0 ? std::min(trained, model_->text_length()) : model_->text_length();
}

int64_t LanguageModel::CountTokens(const std::string& text) const { return std::ssize(Encode({&text, 1})[0]); }

std::vector<TextIds> LanguageModel::ReadSources(std::span<const std::string> texts, const std::string& prefix) const {
  RequireWriter();
  std::vector<std::string> prefixed;
  for (const std::string& text : texts) prefixed.push_back(prefix + text);
  std::vector<std::vector<int32_t>> ids = Encode(prefixed);
  std::vector<TextIds> sources(texts.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    const int64_t tokens = std::ssize(ids[i]);
    RequireTextLength(tokens <= model_->text_length(),
                      "text {} has {} tokens, and the model reads {}; cut it in pieces: {}", i + 1, tokens,
                      model_->text_length(), Printable(prefixed[i], kShownBytes));
    sources[i] = {.ids = std::move(ids[i]), .read = tokens, .tokens = tokens, .is_blank = Trim(texts[i]).empty()};
  }
  return sources;
}

std::vector<Written> LanguageModel::Write(std::span<const std::string> texts, const WritingOptions& options,
                                          const std::function<void(size_t)>& done) const {
  return Write(ReadSources(texts, options.prefix), options, done);
}

std::vector<Written> LanguageModel::Write(std::span<const TextIds> texts, const WritingOptions& options,
                                          const std::function<void(size_t)>& done) const {
  // A text without words has an empty answer.
  std::vector<Written> written(texts.size(), {.ended = true});
  std::vector<size_t> numbers;
  std::vector<std::vector<int32_t>> sources;
  WritingOptions own = options;
  own.settings.seeds.clear();
  for (size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].is_blank) continue;
    numbers.push_back(i);
    sources.push_back(texts[i].ids);
    own.settings.seeds.push_back(options.settings.sampling.seed + i);
  }
  std::vector<Written> results = Write(sources, own, done);
  for (size_t i = 0; i < numbers.size(); ++i) written[numbers[i]] = std::move(results[i]);
  return written;
}

std::vector<Written> LanguageModel::Write(std::span<const std::vector<int32_t>> ids, const WritingOptions& options,
                                          const std::function<void(size_t)>& done) const {
  RequireWriter();
  const std::vector<model::Generated> results = model::GenerateFromSources(
      *model_, ids, StartToken(), options.settings, options.together, options.stop, [&](int64_t count) {
        if (done) done(static_cast<size_t>(count));
      });
  std::vector<Written> written;
  for (size_t i = 0; i < results.size(); ++i) {
    const model::Generated& one = results[i];
    written.push_back({.text = DecodeWritten(one.tokens),
                       .ids = one.tokens,
                       .source_tokens = std::ssize(ids[i]),
                       .tokens = std::ssize(one.tokens),
                       .score = one.score,
                       .ended = one.ended});
  }
  return written;
}

// Decodes with the start token before: it is special, so almost no tokenizer turns it into text, and byte-level BPE
// begins a word, and so a text, with a space.
std::string LanguageModel::DecodeWritten(const std::vector<int32_t>& tokens) const {
  std::vector<int32_t> ids = {StartToken()};
  ids.insert(ids.end(), tokens.begin(), tokens.end());
  return std::string(Trim(DecodeKnown(target_, std::move(ids))));
}

Written LanguageModel::WriteOne(const std::string& text, const WritingOptions& options,
                                const std::function<bool(std::string_view)>& show) const {
  return WriteOne(ReadSources({&text, 1}, options.prefix)[0], options, show);
}

Written LanguageModel::WriteOne(const TextIds& source, const WritingOptions& options,
                                const std::function<bool(std::string_view)>& show) const {
  RequireWriter();
  const std::vector<int32_t>& ids = source.ids;
  Written written{.source_tokens = source.tokens, .ended = true};
  if (source.is_blank) return written;
  const int64_t length = std::min(model_->decoder().config().length, options.settings.max_tokens + 1);
  model::TextWorkspace workspace;
  model::Decoder<float> decoder(model_->decoder(), options.settings.beams, length);
  Tensor<bool> mask({1, std::ssize(ids)});
  std::fill_n(mask.data(), mask.size(), true);
  model_->ReadSource(
      {.ids = View<const int32_t>(ids.data(), mask.shape()), .mask = mask.view(), .cross = &options.settings.cross},
      workspace);
  text::StreamingDecoder stream(target_);
  bool going = true, began = false;
  const auto pass_on = [&](std::string_view piece) {
    // Byte-level BPE begins a word, and so a text, with a space.
    if (!began) piece.remove_prefix(std::min(piece.find_first_not_of(' '), piece.size()));
    if (piece.empty()) return;
    began = true;
    going = show(piece);
  };
  const auto take = [&](size_t, int32_t token) {
    if (std::ranges::find(options.settings.ends, token) == options.settings.ends.end() && target_.TokenOf(token)) {
      pass_on(stream.Add(token));
    }
    return going;
  };
  const std::vector<int32_t> start = {StartToken()};
  take(0, start[0]);
  const model::Generated one =
      model::Generate(decoder, {&start, 1}, &workspace.source, options.settings, take, options.stop)[0];
  const std::string rest = stream.Finish();
  if (going) pass_on(rest);
  written.text = DecodeWritten(one.tokens);
  written.ids = one.tokens, written.tokens = std::ssize(one.tokens), written.score = one.score,
  written.ended = one.ended;
  return written;
}

void LanguageModel::RequireWriter() const {
  Require(model_->has_encoder() && model_->has_decoder(),
          "{}: {} does not read one text and write another; models of translation and summaries do (Marian, T5)",
          checkpoint_->source, model_->description().architecture);
}

std::vector<int32_t> LanguageModel::ReadPrompt(const std::string& prompt, bool add_special_tokens) const {
  Require(model_->has_decoder() && !model_->has_encoder(),
          "{}: {} does not continue a text; decoders do (GPT-2, Llama, Qwen)", checkpoint_->source,
          model_->description().architecture);
  RequireTextBytes(prompt.size(), model_->text_length(), "the prompt");
  std::vector<int32_t> ids = tokenizer_.Encode(
      prompt, {.add_special_tokens = add_special_tokens, .max_length = kNoLimit, .padding = text::Padding::kNone});
  if (!ids.empty()) return ids;
  const model::GenerationDefaults& defaults = model_->description().generation;
  const std::optional<int32_t> begin = defaults.begin ? defaults.begin : tokenizer_.special().begin;
  Require(begin.has_value(), "{}: an empty prompt, and the model has no token to begin with; give a --prompt",
          checkpoint_->source);
  return {*begin};
}

Written LanguageModel::Continue(const std::string& prompt, const model::GenerationSettings& settings,
                                const std::function<bool(std::string_view)>& show, const Note& note,
                                const std::function<bool()>& stop) const {
  return Continue(ReadPrompt(prompt), settings, show, note, stop);
}

Written LanguageModel::Continue(std::vector<int32_t> ids, const model::GenerationSettings& settings,
                                const std::function<bool(std::string_view)>& show, const Note& note,
                                const std::function<bool()>& stop) const {
  const int64_t length = model_->text_length();
  const auto prompt_tokens = std::ssize(ids);
  if (prompt_tokens >= length) {
    ids.erase(ids.begin(), ids.end() - std::max<int64_t>(1, length / 2));
    Notify(note, FormatShown("the prompt has {} tokens, and the model sees {}: it reads the last {}", prompt_tokens,
                             length, ids.size()));
  }
  model::Decoder<float> decoder(model_->decoder(), settings.beams,
                                std::min(length, std::ssize(ids) + settings.max_tokens));
  text::StreamingDecoder stream(tokenizer_);
  Written written{.source_tokens = std::ssize(ids)};
  // The beginning of new text depends on the prompt's last tokens (a space before a word).
  for (const int32_t id : ids) stream.Add(id);
  bool going = true;
  const auto take = [&](size_t, int32_t token) {
    if (std::ranges::find(settings.ends, token) != settings.ends.end() || !tokenizer_.TokenOf(token)) return true;
    const std::string text = stream.Add(token);
    written.text += text;
    if (!text.empty()) going = show(text);
    return going;
  };
  const model::Generated one = model::Generate(decoder, {&ids, 1}, nullptr, settings, take, stop)[0];
  const std::string rest = stream.Finish();
  if (going && !rest.empty()) show(rest);
  written.text += rest;
  written.ids = one.tokens, written.tokens = std::ssize(one.tokens), written.score = one.score,
  written.ended = one.ended;
  return written;
}

}  // namespace qkv::app
