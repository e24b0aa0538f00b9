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

int64_t Count(const io::Fields& fields, std::string_view key, int64_t otherwise, int64_t high = kMaxExtent) {
  const int64_t value = fields.Int(key, otherwise);
  Require(value >= 0 && value <= high, "{}: \"{}\" is {}, expected 0 to {}", fields.where(), key, value, high);
  return value;
}

double Number(const io::Fields& fields, std::string_view key, double otherwise, double low, double high) {
  const double value = fields.Number(key, otherwise);
  Require(value >= low && value <= high, "{}: \"{}\" is {}, expected {} to {}", fields.where(), key, value, low, high);
  return value;
}

// A token's id, or several.
std::vector<int32_t> Tokens(const io::Fields& fields, std::string_view key) {
  const io::Json& value = fields.Value(key);
  if (value.is_null()) return {};
  if (!value.is_array()) return {TokenId(value, key, fields.where())};
  std::vector<int32_t> tokens;
  for (const io::Json& token : value) tokens.push_back(TokenId(token, key, fields.where()));
  return tokens;
}

std::optional<int32_t> Token(const io::Fields& fields, std::string_view key) {
  const std::vector<int32_t> tokens = Tokens(fields, key);
  return tokens.empty() ? std::nullopt : std::optional(tokens.front());
}

// Sequences of one token in bad_words_ids; Error for longer ones.
std::vector<int32_t> BadTokens(const io::Fields& fields) {
  constexpr std::string_view kKey = "bad_words_ids";
  std::vector<int32_t> tokens;
  for (const io::Json& words : fields.Value(kKey)) {
    Require(words.is_array() && words.size() == 1, "{}: \"{}\" holds {}, expected lists of one token", fields.where(),
            kKey, io::Quoted(words.dump()));
    tokens.push_back(TokenId(words[0], kKey, fields.where()));
  }
  return tokens;
}

// Keys that generation supports at these values only, or that do not affect the text.
constexpr io::KnownKey kGenerationKeys[] = {
    {"transformers_version"},
    {"use_cache"},
    {"cache_implementation"},
    {"cache_config"},
    {"return_dict_in_generate"},
    {"return_legacy_cache"},
    {"output_attentions"},
    {"output_hidden_states"},
    {"output_scores"},
    {"output_logits"},
    {"compile_config"},
    {"disable_compile"},
    {"prefill_chunk_size"},
    {"low_memory"},
    {"remove_invalid_values"},
    {"trust_remote_code"},
    {"language"},
    {"task"},
    // Drafts by another model; the texts stay the model's own.
    {"is_assistant"},
    {"num_assistant_tokens"},
    {"num_assistant_tokens_schedule"},
    {"assistant_confidence_threshold"},
    {"assistant_early_exit"},
    {"assistant_lookbehind"},
    {"target_lookbehind"},
    {"prompt_lookup_num_tokens"},
    {"max_matching_ngram_size"},
    {"speculation"},
    {"num_return_sequences"},  // the first is the one that is written; checked below
    {"num_beam_groups", "1"},
    {"diversity_penalty", "0"},
    {"constraints", "[]"},
    {"force_words_ids", "[]"},
    {"penalty_alpha", "0"},
    {"dola_layers", "null"},
    {"typical_p", "1"},
    {"top_h", "null"},
    {"epsilon_cutoff", "0"},
    {"eta_cutoff", "0"},
    {"encoder_repetition_penalty", "1"},
    {"encoder_no_repeat_ngram_size", "0"},
    {"exponential_decay_length_penalty", "null"},
    {"begin_suppress_tokens", "[]"},
    {"forced_decoder_ids", "[]"},
    {"sequence_bias", "null"},
    {"guidance_scale", "1"},
    {"watermarking_config", "null"},
    {"token_healing", "false"},
    {"stop_strings", "[]"},
    {"max_time", "null"},
};

// Read below, from generation_config.json where there is one.
constexpr std::string_view kReadKeys[] = {"forced_bos_token_id",
                                          "force_bos_token_to_be_generated",
                                          "forced_eos_token_id",
                                          "bad_words_ids",
                                          "suppress_tokens",
                                          "max_length",
                                          "min_length",
                                          "max_new_tokens",
                                          "min_new_tokens",
                                          "renormalize_logits",
                                          "num_beams",
                                          "do_sample",
                                          "early_stopping",
                                          "length_penalty",
                                          "no_repeat_ngram_size",
                                          "temperature",
                                          "top_p",
                                          "min_p",
                                          "top_k",
                                          "repetition_penalty"};

// The default of transformers when sampling.
constexpr int64_t kUsualTopK = 50;

}  // namespace

std::string_view Name(SentencePool pool) { return FindName(kSentencePools, pool); }
std::optional<SentencePool> FindSentencePool(std::string_view name) {
  return FindIn<SentencePool>(kSentencePools, name);
}

std::span<const io::KnownKey> GenerationKeys(bool superseded) {
  static const std::vector<io::KnownKey> all = [] {
    std::vector<io::KnownKey> keys;
    for (const io::KnownKey& known : kGenerationKeys) keys.push_back({known.key});
    for (const std::string_view key : kReadKeys) keys.push_back({key});
    return keys;
  }();
  return superseded ? std::span<const io::KnownKey>(all) : kGenerationKeys;
}

GenerationDefaults ReadGenerationDefaults(const io::Fields& config, const io::Fields* generation) {
  const io::Fields& fields = generation ? *generation : config;
  const auto ids = [&](std::string_view key) { return Tokens(fields.Has(key) ? fields : config, key); };
  const auto id = [&](std::string_view key) { return Token(fields.Has(key) ? fields : config, key); };
  GenerationDefaults g;
  g.start = id("decoder_start_token_id");
  g.begin = id("bos_token_id");
  g.ends = ids("eos_token_id");
  g.padding = id("pad_token_id");
  g.forced_first = Token(fields, "forced_bos_token_id");
  // The older form of a config.json.
  if (!generation && !g.forced_first && config.Bool("force_bos_token_to_be_generated", false)) g.forced_first = g.begin;
  g.forced_last = Token(fields, "forced_eos_token_id");
  g.suppressed = BadTokens(fields);
  for (const int32_t token : Tokens(fields, "suppress_tokens")) g.suppressed.push_back(token);
  g.max_length = Count(fields, "max_length", 0);
  g.min_length = Count(fields, "min_length", 0);
  g.max_new_tokens = Count(fields, "max_new_tokens", 0);
  g.min_new_tokens = Count(fields, "min_new_tokens", 0);
  g.renormalise = fields.Bool("renormalize_logits", false);
  g.beams = Count(fields, "num_beams", 1, 1 << 12);
  g.length_penalty = Number(fields, "length_penalty", 1, -1e3, 1e3);
  const int64_t sequences = Count(fields, "num_return_sequences", 1);
  Require(sequences <= g.beams || (g.beams == 1 && fields.Bool("do_sample", false)),
          "{}: \"num_return_sequences\" is {}, and there are {} beams and no draws", fields.where(), sequences,
          g.beams);
  g.early_stopping = fields.Value("early_stopping") == true;  // or false or "never"
  g.no_repeat_ngram = Count(fields, "no_repeat_ngram_size", 0);
  g.sample = fields.Bool("do_sample", false);
  g.temperature = Number(fields, "temperature", 1, 0, 1e6);
  g.top_p = Number(fields, "top_p", 1, 0, 1);
  g.min_p = Number(fields, "min_p", 0, 0, 1);
  g.top_k = Count(fields, "top_k", g.sample ? kUsualTopK : 0);
  g.repetition_penalty = Number(fields, "repetition_penalty", 1, 1e-3, 1e3);
  return g;
}

void Validate(const TextDescription& d) {
  Require(d.encoder || d.decoder, "config: a text model has an encoder or a decoder");
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
