// Growth of work: the steps of a text four times as long are at most about four times as many, or there is an Error,
// whatever the files of a tokenizer say. Steps are counted (qkv/core/work.h), no time is measured.
#include <gtest/gtest.h>
#include <utf8proc.h>

#include <cstdlib>
#include <memory>
#include <optional>

#include "qkv/core/rng.h"
#include "qkv/core/text.h"
#include "qkv/core/work.h"
#include "qkv/text/clean.h"
#include "qkv/text/regex.h"
#include "qkv/text/steps.h"
#include "qkv/text/unicode.h"
#include "qkv/text/unicode_versions.h"
#include "tests/support/errors.h"
#include "tests/text/support.h"

namespace qkv::text {
namespace {

// Texts that one of the steps may find hard, of about so many bytes.
std::string Repeated(std::string_view part, size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += part;
  return text;
}
constexpr std::string_view kParts[] = {"a",
                                       " ",
                                       "a photo of 2 cats, isn't it? ",
                                       "aab",
                                       "\u0301\u0323",        // marks out of order
                                       "\u0344\u0f73",        // that become several
                                       "\u1ea5\u0323",        // a letter that becomes one with two
                                       "\u03a3\u0300",        // sigmas with marks between
                                       "\u1100\u1161\u11a8",  // jamo
                                       "\ufdfa",              // becomes 18 characters
                                       "\u732b",
                                       "\U0001f469\u200d",  // joined
                                       " \n\n\t ",
                                       "A1'S",
                                       "\xff\xe2",
                                       "<s> ",
                                       "&amp;",
                                       "...!!!",
                                       "\u2581\u2581a"};

template <typename F>
std::optional<int64_t> StepsOf(F&& f) {
  const int64_t before = StepsDone();
  try {
    f();
  } catch (const Error&) {
    return std::nullopt;
  }
  return StepsDone() - before;
}

// f(text) for texts of n and 4 n bytes.
template <typename F>
void ExpectLinear(std::string_view name, std::string_view part, size_t n, F&& f) {
  const std::string text = Repeated(part, n), longer = Repeated(part, 4 * n);
  const auto steps = StepsOf([&] { f(text); }), more = StepsOf([&] { f(longer); });
  if (!steps || !more) return;  // bounded
  EXPECT_LE(*more, *steps * 9 / 2 + 40'000) << name << " of " << Printable(part);
}

std::string Json(std::string_view parts, std::string_view model = "") {
  constexpr std::string_view kModel =
      R"({"type": "BPE", "vocab": {"a": 0, "b": 1, "aa": 2, "ab": 3, "?": 4, "</w>": 5}, "merges": ["a a", "a b"],)"
      R"( "unk_token": "?"})";
  return fmt::format(R"({{"model": {}{}{}}})", model.empty() ? kModel : model, parts.empty() ? "" : ", ", parts);
}

// Encodes, and decodes what comes out.
void ExpectLinear(std::string_view json) {
  std::optional<Tokenizer> tokenizer;
  if (!ErrorMessage([&] { tokenizer = Tokenizer::FromJson(json, "t"); }).empty()) return;
  for (const std::string_view part : kParts) {
    ExpectLinear(json, part, 4096, [&](const std::string& text) {
      const std::vector<int32_t> ids = tokenizer->Encode(text);
      tokenizer->Decode(ids, true);
    });
  }
}

const std::vector<std::string> kNormalizers = {
    R"({"type": "NFC"})",
    R"({"type": "NFD"})",
    R"({"type": "NFKC"})",
    R"({"type": "NFKD"})",
    R"({"type": "Lowercase"})",
    R"({"type": "Strip"})",
    R"({"type": "StripAccents"})",
    R"({"type": "BertNormalizer"})",
    R"({"type": "ByteLevel"})",
    R"({"type": "Prepend", "prepend": "\u2581"})",
    R"({"type": "Prepend", "prepend": "a photo of a very long prefix "})",
    R"({"type": "Replace", "pattern": {"String": "a"}, "content": "aaa"})",
    R"({"type": "Replace", "pattern": {"String": "aa"}, "content": ""})",
    R"({"type": "Replace", "pattern": {"Regex": "\\s+"}, "content": " "})",
    R"({"type": "Replace", "pattern": {"Regex": "a(?=.*b)?"}, "content": "b"})",
    R"({"type": "Replace", "pattern": {"Regex": "(?<=.)x*"}, "content": "-"})"};

const std::vector<std::string> kPreTokenizers = {
    R"({"type": "ByteLevel"})",
    R"({"type": "ByteLevel", "use_regex": false})",
    R"({"type": "Metaspace"})",
    R"({"type": "Metaspace", "prepend_scheme": "first", "split": false})",
    R"({"type": "Whitespace"})",
    R"({"type": "WhitespaceSplit"})",
    R"({"type": "BertPreTokenizer"})",
    R"({"type": "Punctuation", "behavior": "Contiguous"})",
    R"({"type": "Digits", "individual_digits": true})",
    R"({"type": "Split", "pattern": {"String": "a"}, "behavior": "MergedWithNext"})",
    R"({"type": "Split", "pattern": {"Regex": "\\w+|[^\\w\\s]+"}, "behavior": "Removed", "invert": true})",
    R"({"type": "Split", "pattern": {"Regex": "(?=.*b)a"}, "behavior": "Isolated"})",
    R"({"type": "Split", "pattern": {"Regex": "(a|aa|.)+$"}, "behavior": "MergedWithPrevious"})"};

const std::vector<std::string> kDecoders = {R"({"type": "ByteLevel"})",
                                            R"({"type": "Metaspace"})",
                                            R"({"type": "ByteFallback"})",
                                            R"({"type": "Fuse"})",
                                            R"({"type": "WordPiece"})",
                                            R"({"type": "BPEDecoder"})",
                                            R"({"type": "Strip", "content": "a", "start": 1, "stop": 100000})",
                                            R"({"type": "Replace", "pattern": {"String": "a"}, "content": "aaa"})"};

const std::vector<std::string> kAdded = {
    R"({"content": "a"})",
    R"({"content": " ", "rstrip": true})",
    R"({"content": " ", "lstrip": true, "rstrip": true, "special": true})",
    R"({"content": "<s>", "lstrip": true, "special": true})",
    R"({"content": "aa", "single_word": true, "normalized": false})",
    R"({"content": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"})"};

const std::vector<std::string> kModels = {
    R"({"type": "Unigram", "unk_id": 0, "vocab": [["?", 0], ["a", -1], ["ab", -1], ["aaaaaaaa", -2], [" ", -3]]})",
    R"({"type": "WordPiece", "unk_token": "?", "max_input_chars_per_word": 1000000,)"
    R"( "vocab": {"?": 0, "a": 1, "##a": 2, "##aab": 3, "aaaaaaab": 4}})",
    R"({"type": "BPE", "vocab": {"a": 0, "aa": 1, "aaaa": 2, "aaaaaaaa": 3}, "merges": ["a a", "aa aa", "aaaa aaaa"]})",
    R"({"type": "BPE", "vocab": {"a": 0, "aa": 1, "aaa": 2}, "merges": ["a a", "aa a"], "byte_fallback": true,)"
    R"( "unk_token": "a", "fuse_unk": true})"};

std::string Sequence(std::string_view key, std::string_view list, const std::vector<std::string>& steps) {
  return fmt::format(R"("{}": {{"type": "Sequence", "{}": [{}]}})", key, list, fmt::join(steps, ", "));
}

TEST(Growth, EachStepIsLinear) {
  for (const std::string& step : kNormalizers) ExpectLinear(Json(Sequence("normalizer", "normalizers", {step})));
  for (const std::string& step : kPreTokenizers) {
    ExpectLinear(Json(Sequence("pre_tokenizer", "pretokenizers", {step})));
  }
  for (const std::string& step : kDecoders) ExpectLinear(Json(Sequence("decoder", "decoders", {step})));
  for (const std::string& token : kAdded) ExpectLinear(Json(fmt::format(R"("added_tokens": [{}])", token)));
  for (const std::string& model : kModels) ExpectLinear(Json("", model));
}

TEST(Growth, CompositionsOfStepsAreLinear) {
  Rng rng(43);
  const auto some = [&](const std::vector<std::string>& from) {
    std::vector<std::string> steps;
    for (auto count = rng.Next() % 5; count > 0; --count) steps.push_back(from[rng.Next() % from.size()]);
    return steps;
  };
  for (int i = 0; i < 50; ++i) {
    ExpectLinear(Json(
        fmt::format(R"({}, {}, {}, "added_tokens": [{}])", Sequence("normalizer", "normalizers", some(kNormalizers)),
                    Sequence("pre_tokenizer", "pretokenizers", some(kPreTokenizers)),
                    Sequence("decoder", "decoders", some(kDecoders)), fmt::join(some(kAdded), ", ")),
        i % 2 == 0 ? kModels[rng.Next() % kModels.size()] : ""));
  }
}

TEST(Growth, TokenizersOfTheOriginalsStayFarBelowTheBudget) {
  for (const char* name :
       {"clip",    "clip_slow",  "gpt2",     "llama3",        "qwen2",       "roberta",      "bert",   "bert_cased",
        "t5_json", "t5_slow",    "xlm_slow", "siglip",        "siglip_json", "siglip_model", "gemma",  "gemma_json",
        "llama2",  "llama_json", "marian",   "unigram_bytes", "steps",       "more_steps",   "trained"}) {
    const Tokenizer tokenizer = OpenGolden(name);
    for (const std::string_view part : kParts) {
      const std::string text = Repeated(part, 8192);
      std::vector<int32_t> ids;
      const auto encoding = StepsOf([&] { ids = tokenizer.Encode(text); });
      ASSERT_TRUE(encoding) << name << " of " << Printable(part);
      EXPECT_LT(*encoding, MaxSteps(text.size()) / 3) << name << " of " << Printable(part);
      EXPECT_TRUE(StepsOf([&] { tokenizer.Decode(ids, true); })) << name << " of " << Printable(part);
      ExpectLinear(name, part, 2048, [&](const std::string& of) { tokenizer.Encode(of); });
    }
  }
}

TEST(Growth, CleaningIsLinear) {
  for (const std::string_view part : kParts) {
    ExpectLinear("CleanCanonical", part, 4096, [](const std::string& text) { CleanCanonical(text); });
    ExpectLinear("Lower", part, 4096, [](const std::string& text) { Lower(ReplaceInvalidUtf8(text)); });
  }
}

// The patterns whose steps are not counted: here they are.
TEST(Growth, ListedPatternsAreLinear) {
  for (const std::string_view pattern : LinearPatterns()) {
    const Regex regex(pattern, "test", Regex::Steps::kCounted);
    const auto match = [&](const std::string& text) { regex.ForEachMatch(text, [](size_t, size_t) {}); };
    for (const std::string_view part : kParts) {
      if (!IsValidUtf8(part)) continue;
      for (const std::string_view end : {"", "a", "\n", "z1"}) {
        const std::string text = Repeated(part, 4096) + std::string(end), longer = Repeated(text, 4 * text.size());
        const auto steps = StepsOf([&] { match(text); }), more = StepsOf([&] { match(longer); });
        ASSERT_TRUE(steps && more) << pattern;
        EXPECT_LE(*more, *steps * 9 / 2 + 40'000) << pattern << " on " << Printable(part);
        EXPECT_LE(*steps, 500 * std::ssize(text)) << pattern << " on " << Printable(part);
      }
    }
  }
}

// Each looks at the rest of the text at every byte, where PCRE2's limits do not count it.
TEST(Growth, OtherPatternsEndAtTheBudget) {
  const std::string text(20'000, 'a');
  for (const char* pattern : {"a(?=.*)", "(?=.*b)a|a", R"(a(?=[\\s\\S]*b)?)", "(?>(?=.*)a)", "a(?!.*b)", "(?=(a*))a",
                              R"((?=(a*))a\\1?)", "a(?=(?:a|b)*)", "(?=a*+)a"}) {
    const Tokenizer tokenizer = Tokenizer::FromJson(
        Json(fmt::format(
            R"("pre_tokenizer": {{"type": "Split", "pattern": {{"Regex": "{}"}}, "behavior": "Isolated"}})", pattern)),
        "t");
    const int64_t before = StepsDone();
    const std::string message = ErrorMessage([&] { tokenizer.Encode(text); });
    EXPECT_NE(message.find("encode a text: takes more than"), std::string::npos) << pattern << message;
    EXPECT_LT(StepsDone() - before, MaxSteps(text.size()) + 200'000) << pattern;
    EXPECT_FALSE(tokenizer.Encode("aab").empty()) << pattern;  // short texts are answered
  }
  EXPECT_NE(ErrorMessage([] { Regex("(?<=a{300})b", "here"); }).find("here: expected a pattern that looks back"),
            std::string::npos);
}

TEST(Growth, LongTokensEndAtTheBudget) {
  const std::string text(20'000, 'a');
  const auto message = [&](const std::string& json) {
    const Tokenizer tokenizer = Tokenizer::FromJson(json, "t");
    return ErrorMessage([&] { tokenizer.Encode(text); });
  };
  EXPECT_NE(message(Json(fmt::format(R"("added_tokens": [{{"content": "{}b"}}])", text))).find("takes more than"),
            std::string::npos);
  EXPECT_NE(
      message(Json("", fmt::format(R"({{"type": "Unigram", "unk_id": 0, "vocab": [["?", 0], ["{}b", -1]]}})", text)))
          .find("takes more than"),
      std::string::npos);
}

// Steps that make a text longer have one limit, wherever they run and however often.
TEST(Growth, TextsGrowWithinOneLimit) {
  const std::string twice = R"({"type": "Replace", "pattern": {"String": "a"}, "content": "aa"})";
  const std::vector<std::string> often(40, twice);
  const auto message = [](const std::string& json, const std::string& text) {
    return ErrorMessage([&] {
      const Tokenizer tokenizer = Tokenizer::FromJson(json, "t");
      tokenizer.Decode(tokenizer.Encode(text), true);
    });
  };
  const auto is_bounded = [&](const std::string& json, const std::string& text) {
    return message(json, text).find("make a text longer than") != std::string::npos;
  };
  EXPECT_TRUE(is_bounded(Json(Sequence("normalizer", "normalizers", often)), "a"));
  EXPECT_TRUE(is_bounded(Json(Sequence("decoder", "decoders", often)), "b"));  // when it is opened
  EXPECT_TRUE(is_bounded(Json(Sequence("normalizer", "normalizers", often) +
                              R"(, "added_tokens": [{"content": "a", "normalized": true}])"),
                         "b"));
  // One step, one text.
  const std::string prepend = R"({"type": "Prepend", "prepend": ")" + std::string(1000, 'b') + R"("})";
  EXPECT_TRUE(is_bounded(Json(Sequence("normalizer", "normalizers",
                                       {R"({"type": "Prepend", "prepend": ")" + std::string(2000, 'b') + R"("})"})),
                         "a"));
  EXPECT_EQ(message(Json(Sequence("normalizer", "normalizers", {prepend})), "a"), "");
  // All segments of a text together.
  EXPECT_TRUE(is_bounded(Json(Sequence("normalizer", "normalizers", {prepend}) +
                              R"(, "added_tokens": [{"content": "x", "special": true}])"),
                         Repeated("ax", 1000)));
  // Tokens that are long themselves.
  const Tokenizer tokenizer = Tokenizer::FromJson(
      Json("", R"({"type": "BPE", "vocab": {"a": 0, ")" + std::string(100'000, 'b') + R"(": 1}, "merges": []})"), "t");
  EXPECT_NE(ErrorMessage([&] { tokenizer.Decode(std::vector<int32_t>(10, 1)); }).find("have more than"),
            std::string::npos);
}

TEST(Growth, BatchesAreBounded) {
  const std::vector<std::string> texts(5000, "a");
  const Tokenizer tokenizer = Tokenizer::FromJson(Json(R"("padding": {"strategy": {"Fixed": 16384}})"), "t");
  EXPECT_NE(ErrorMessage([&] { tokenizer.EncodeBatch(texts); }).find("encode fewer texts at a time"),
            std::string::npos);
  EXPECT_EQ(tokenizer.EncodeBatch(std::span(texts).first(2)).columns, 16384);
  EXPECT_NE(ErrorMessage([] {
              Tokenizer::FromJson(Json(R"("padding": {"strategy": {"Fixed": 1000000}})"), "t");
            }).find("expected padding to"),
            std::string::npos);
  // Templates of many items without tokens take as long for each text.
  const std::string none = R"({"SpecialToken": {"id": "s"}})";
  const std::vector<std::string> items(900, none);
  const std::string step =
      fmt::format(R"({{"type": "TemplateProcessing", "single": [{}], "special_tokens": {{"s": {{"ids": []}}}}}})",
                  fmt::join(items, ", "));
  const Tokenizer other =
      Tokenizer::FromJson(Json(Sequence("post_processor", "processors", std::vector<std::string>(30, step))), "t");
  EXPECT_NE(ErrorMessage([&] { other.Encode("a"); }).find("takes more than"), std::string::npos);
}

// Special tokens, and bytes that never become a character.
TEST(Growth, StreamsAreLinear) {
  const Tokenizer llama = OpenGolden("llama2"), gpt2 = OpenGolden("gpt2"), clip = OpenGolden("clip_slow");
  const auto steps = [](const Tokenizer& tokenizer, int32_t id, int count) {
    const int64_t before = StepsDone();
    StreamingDecoder decoder(tokenizer);
    std::string text;
    for (int i = 0; i < count; ++i) text += decoder.Add(id);
    text += decoder.Finish();
    EXPECT_EQ(text, tokenizer.Decode(std::vector<int32_t>(static_cast<size_t>(count), id)));
    return StepsDone() - before;
  };
  const int32_t end = *clip.special().end, byte = *llama.IdOf("<0x80>"), other = gpt2.Encode("\u732b")[1];
  for (const auto& [tokenizer, id] : {std::pair(&clip, end), std::pair(&llama, byte), std::pair(&gpt2, other)}) {
    const int64_t few = steps(*tokenizer, id, 1000), more = steps(*tokenizer, id, 4000);
    EXPECT_LE(more, few * 6 + 100'000) << id;
  }
}

TEST(Growth, EndsSoonWhenCancelled) {
  const Tokenizer clip = OpenGolden("clip_slow"), bert = OpenGolden("bert"), siglip = OpenGolden("siglip_model");
  for (const Tokenizer* tokenizer : {&clip, &bert, &siglip}) {
    for (const std::string_view part : kParts) {
      const std::string text = Repeated(part, size_t{4} << 20);
      int questions = 0;
      int64_t asked = 0;
      const CancelScope scope([&] {
        asked = StepsDone();
        return ++questions == 2;
      });
      EXPECT_THROW(tokenizer->Encode(text), Cancelled) << Printable(part);
      EXPECT_EQ(StepsDone(), asked) << Printable(part);
    }
  }
}

// Code points that have a form of their own, or move.
std::vector<utf8proc_int32_t> HardCharacters() {
  std::vector<utf8proc_int32_t> codes = {'a', 'e', 'o', ' '};
  for (utf8proc_int32_t code = 0x80; code < 0x30000; ++code) {
    if ((code >= 0xd800 && code < 0xe000) || IsInRanges(static_cast<char32_t>(code), kNotNormalized)) continue;
    const utf8proc_property_t& property = *utf8proc_get_property(code);
    const bool jamo = code >= 0x1100 && code < 0x1200, syllable = code >= 0xac00 && code < 0xd7a4;
    if (property.combining_class != 0 || property.decomp_seqindex != UINT16_MAX || property.comb_index != UINT16_MAX ||
        jamo || (syllable && code % 50 == 0)) {
      codes.push_back(code);
    }
  }
  return codes;
}

std::string ByUtf8proc(const std::string& text, int options) {
  utf8proc_uint8_t* mapped = nullptr;
  const utf8proc_ssize_t size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), std::ssize(text),
                                             &mapped, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | options));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(mapped, &std::free);
  return {reinterpret_cast<const char*>(mapped), static_cast<size_t>(size)};
}

TEST(Growth, FormsAreThoseOfTheLibrary) {
  const std::vector<utf8proc_int32_t> all = HardCharacters();
  std::vector<utf8proc_int32_t> marks;
  for (const utf8proc_int32_t code : all) {
    if (utf8proc_get_property(code)->combining_class != 0) marks.push_back(code);
  }
  ASSERT_GT(marks.size(), 500u);
  const std::pair<NormalForm, int> forms[] = {{NormalForm::kNfc, UTF8PROC_COMPOSE},
                                              {NormalForm::kNfd, UTF8PROC_DECOMPOSE},
                                              {NormalForm::kNfkc, UTF8PROC_COMPAT | UTF8PROC_COMPOSE},
                                              {NormalForm::kNfkd, UTF8PROC_COMPAT | UTF8PROC_DECOMPOSE}};
  Rng rng(7);
  for (int i = 0; i < 5000; ++i) {
    std::string text;
    // Now and then longer than what is brought into the form at once.
    const auto length = i % 500 == 0 ? 5000 : rng.Next() % 60;
    const auto share = rng.Next() % 10;  // of marks, in tenths
    for (uint64_t k = 0; k < length; ++k) {
      const auto& from = rng.Next() % 10 < share ? marks : all;
      AppendUtf8(static_cast<char32_t>(from[rng.Next() % from.size()]), &text);
    }
    for (const auto& [form, options] : forms) {
      const std::string normal = Normalize(text, form);
      ASSERT_EQ(normal, ByUtf8proc(text, options)) << Printable(text);
      ASSERT_EQ(Normalize(normal, form), normal) << Printable(text);
    }
  }
}

TEST(Growth, FinalSigmas) {
  const auto is_final = [](std::u32string_view text, size_t at) {
    size_t before = at;
    while (before > 0 && IsCaseIgnorable(text[before - 1])) --before;
    if (before == 0 || !IsCased(text[before - 1])) return false;
    size_t behind = at + 1;
    while (behind < text.size() && IsCaseIgnorable(text[behind])) ++behind;
    return behind == text.size() || !IsCased(text[behind]);
  };
  Rng rng(3);
  constexpr std::u32string_view kCharacters = U"\u03a3\u03a3\u0300'a. \u00ad\u02b01";
  for (int i = 0; i < 3000; ++i) {
    std::u32string codes;
    std::string text, expected;
    for (auto length = rng.Next() % 12; length > 0; --length) codes += kCharacters[rng.Next() % kCharacters.size()];
    for (size_t at = 0; at < codes.size(); ++at) {
      AppendUtf8(codes[at], &text);
      const bool sigma = codes[at] == 0x3a3;
      AppendUtf8(sigma ? (is_final(codes, at) ? 0x3c2 : 0x3c3) : codes[at], &expected);
    }
    ASSERT_EQ(Lower(text), expected) << Printable(text);
  }
}

}  // namespace
}  // namespace qkv::text
