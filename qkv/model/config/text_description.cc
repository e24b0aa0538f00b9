#include "qkv/model/config/text_description.h"

#include <cmath>
#include <limits>
#include <utility>

#include "qkv/core/error.h"
#include "qkv/core/name_table.h"

namespace qkv::model {
namespace {

constexpr std::pair<SentencePool, std::string_view> kSentencePools[] = {
    {SentencePool::kMean, "mean"}, {SentencePool::kMeanSqrt, "mean_sqrt_len_tokens"},
    {SentencePool::kFirst, "cls"}, {SentencePool::kLast, "lasttoken"},
    {SentencePool::kMax, "max"},
};

int32_t TokenId(const io::Json& value, std::string_view key, const std::string& where) {
  Require(value.is_number_integer() && value.get<int64_t>() >= 0 &&
              value.get<int64_t>() <= std::numeric_limits<int32_t>::max(),
          "{}: \"{}\" holds {}, expected a token's id", where, key, io::Quoted(value.dump()));
  return value.get<int32_t>();
}

// The keys of the second object, where the first lacks them.
class TwoFields {
 public:
  TwoFields(const io::Json& first, const io::Json& second)
      : none_(io::Json::object()),
        first_(first.is_object() ? first : none_, "generation_config.json"),
        second_(second, "config.json") {}

  const Fields& With(std::string_view key) const { return first_.Has(key) ? first_ : second_; }
  int64_t Int(std::string_view key, int64_t otherwise, int64_t high = kMaxExtent) const {
    const int64_t value = With(key).Int(key, otherwise);
    Require(value >= 0 && value <= high, "{}: \"{}\" is {}, expected 0 to {}", With(key).where(), key, value, high);
    return value;
  }
  double Number(std::string_view key, double otherwise, double low, double high) const {
    const double value = With(key).Number(key, otherwise);
    Require(value >= low && value <= high, "{}: \"{}\" is {}, expected {} to {}", With(key).where(), key, value, low,
            high);
    return value;
  }
  /// A token's id, or several.
  std::vector<int32_t> Tokens(std::string_view key) const {
    const Fields& fields = With(key);
    if (!fields.Has(key)) return {};
    const io::Json& value = fields.json()[std::string(key)];
    std::vector<int32_t> tokens;
    if (!value.is_array()) return {TokenId(value, key, fields.where())};
    for (const io::Json& token : value) tokens.push_back(TokenId(token, key, fields.where()));
    return tokens;
  }
  std::optional<int32_t> Token(std::string_view key) const {
    const std::vector<int32_t> tokens = Tokens(key);
    return tokens.empty() ? std::nullopt : std::optional(tokens.front());
  }

 private:
  io::Json none_;
  Fields first_, second_;
};

// Sequences of one token in bad_words_ids; Error for longer ones.
std::vector<int32_t> BadTokens(const TwoFields& fields) {
  constexpr std::string_view kKey = "bad_words_ids";
  const Fields& with = fields.With(kKey);
  if (!with.Has(kKey)) return {};
  std::vector<int32_t> tokens;
  for (const io::Json& words : with.json()[std::string(kKey)]) {
    Require(words.is_array() && words.size() == 1, "{}: \"{}\" holds {}, expected lists of one token", with.where(),
            kKey, io::Quoted(words.dump()));
    tokens.push_back(TokenId(words[0], kKey, with.where()));
  }
  return tokens;
}

}  // namespace

std::string_view Name(SentencePool pool) { return FindName(kSentencePools, pool); }
std::optional<SentencePool> FindSentencePool(std::string_view name) {
  return FindIn<SentencePool>(kSentencePools, name);
}

GenerationDefaults ReadGenerationDefaults(const io::Json& config, const io::Json& generation) {
  const TwoFields fields(generation, config);
  GenerationDefaults g;
  g.start = fields.Token("decoder_start_token_id");
  g.begin = fields.Token("bos_token_id");
  g.ends = fields.Tokens("eos_token_id");
  g.padding = fields.Token("pad_token_id");
  g.forced_first = fields.Token("forced_bos_token_id");
  g.forced_last = fields.Token("forced_eos_token_id");
  g.suppressed = BadTokens(fields);
  for (const int32_t token : fields.Tokens("suppress_tokens")) g.suppressed.push_back(token);
  g.max_length = fields.Int("max_length", 0);
  g.min_length = fields.Int("min_length", 0);
  g.max_new_tokens = fields.Int("max_new_tokens", 0);
  g.min_new_tokens = fields.Int("min_new_tokens", 0);
  g.renormalise = fields.With("renormalize_logits").Bool("renormalize_logits", false);
  g.beams = fields.Int("num_beams", 1, 1 << 12);
  g.length_penalty = fields.Number("length_penalty", 1, -1e3, 1e3);
  const Fields& stopping = fields.With("early_stopping");  // true, false or "never"
  g.early_stopping = stopping.Has("early_stopping") && stopping.json()["early_stopping"] == true;
  g.no_repeat_ngram = fields.Int("no_repeat_ngram_size", 0);
  g.sample = fields.With("do_sample").Bool("do_sample", false);
  g.temperature = fields.Number("temperature", 1, 0, 1e6);
  g.top_p = fields.Number("top_p", 1, 0, 1);
  g.min_p = fields.Number("min_p", 0, 0, 1);
  g.top_k = fields.Int("top_k", 0);
  g.repetition_penalty = fields.Number("repetition_penalty", 1, 1e-3, 1e3);
  return g;
}

void Validate(const TextDescription& d) {
  Require(d.encoder || d.decoder, "config: a model of text has an encoder or a decoder");
  if (d.encoder) {
    Validate(*d.encoder);
    Require(!d.encoder->causal && !d.encoder->block.cross, "config: an encoder sees all tokens, and no source");
  }
  if (!d.decoder) return;
  Validate(*d.decoder);
  Require(d.decoder->causal && d.decoder->outputs > 0, "config: a decoder is causal and has logits");
  const bool reads = d.decoder->block.cross.has_value();
  Require(!d.encoder || reads, "config: a decoder beside an encoder reads its tokens");
  if (!d.encoder) return;
  const int64_t width = d.decoder->block.cross->source(d.decoder->block.width);
  Require(width == d.encoder->block.width, "config: the decoder reads tokens of width {}, and the encoder's are {}",
          width, d.encoder->block.width);
}

}  // namespace qkv::model
