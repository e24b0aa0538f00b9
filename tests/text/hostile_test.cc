// Files that lie: a clear error or a tokenizer that works, never a crash, little memory.
#include <gtest/gtest.h>

#include "qkv/core/error.h"
#include "tests/support/errors.h"
#include "tests/text/support.h"

namespace qkv::text {
namespace {

// Opens and uses it; any Error is fine.
void Use(const std::function<Tokenizer()>& open) {
  try {
    const Tokenizer tokenizer = open();
    for (const char* text : {"", "a photo of a cat", "\xff\xfe", "<|endoftext|> \xe7\x8c\xab"}) {
      const std::vector<int32_t> ids = tokenizer.Encode(text);
      tokenizer.Decode(ids, true);
    }
  } catch (const Error& error) {
    EXPECT_LT(std::string_view(error.what()).size(), 5000u);
  }
}

TEST(Hostile, ModelsCutAtEveryByte) {
  for (const char* name : {"siglip_model/spiece.model", "gemma/tokenizer.model"}) {
    const std::string bytes = ReadFile(GoldenFolder() / name);
    for (size_t size = 0; size < bytes.size(); size += size < 200 || size + 300 > bytes.size() ? 1 : 97) {
      Use([&] { return Tokenizer::FromSentencePiece(std::string_view(bytes).substr(0, size), "cut"); });
    }
  }
}

TEST(Hostile, ModelsWithAChangedByte) {
  const std::string bytes = ReadFile(GoldenFolder() / "siglip_model/spiece.model");
  for (size_t at = 0; at < bytes.size(); at += 41) {
    std::string changed = bytes;
    changed[at] = static_cast<char>(changed[at] ^ (1 << at % 8));
    Use([&] { return Tokenizer::FromSentencePiece(changed, "changed"); });
  }
}

TEST(Hostile, JsonCutAnywhere) {
  const std::string text = ReadFile(GoldenFolder() / "steps/tokenizer.json");
  for (size_t size = 0; size < text.size(); size += size < 300 ? 1 : 211) {
    EXPECT_FALSE(ErrorMessage([&] { Tokenizer::FromJson(text.substr(0, size), "cut"); }).empty());
  }
}

struct LyingJson {
  const char* name;
  std::string model, rest, message;  // empty message: works
};
void PrintTo(const LyingJson& test, std::ostream* out) { *out << test.name; }

class LyingTokenizer : public testing::TestWithParam<LyingJson> {};

TEST_P(LyingTokenizer, IsRefusedOrWorks) {
  const LyingJson& test = GetParam();
  const std::string json = R"({"model": {)" + test.model + "}" + test.rest + "}";
  const std::string message = ErrorMessage([&] { Tokenizer::FromJson(json, "t.json").Encode("ab a"); });
  if (test.message.empty()) {
    EXPECT_EQ(message, "");
    Use([&] { return Tokenizer::FromJson(json, "t.json"); });
  } else {
    EXPECT_TRUE(message.starts_with("t.json")) << message;
    EXPECT_NE(message.find(test.message), std::string::npos) << message;
  }
}

std::string Bpe(std::string_view vocab, std::string_view merges) {
  return fmt::format(R"("type": "BPE", "vocab": {{{}}}, "merges": [{}])", vocab, merges);
}
std::string Unigram(std::string_view vocab, std::string_view unknown = "0") {
  return fmt::format(R"("type": "Unigram", "unk_id": {}, "vocab": [{}])", unknown, vocab);
}
std::string WordPiece(std::string_view vocab, std::string_view more = "") {
  return fmt::format(R"("type": "WordPiece", "unk_token": "?", "vocab": {{{}}}{})", vocab, more);
}
constexpr const char* kAb = R"("a": 0, "b": 1, "ab": 2)";

INSTANTIATE_TEST_SUITE_P(
    Files, LyingTokenizer,
    testing::Values(
        LyingJson{"HugeIds", Bpe(R"("a": 2147483646, "b": 0)", ""), "", ""},
        LyingJson{"IdsBeyond", Bpe(R"("a": 2147483647)", ""), "", "ids from 0"},
        LyingJson{"NegativeIds", Bpe(R"("a": -1)", ""), "", "ids from 0"},
        LyingJson{"Fractions", Bpe(R"("a": 1.5)", ""), "", "ids from 0"},
        LyingJson{"SameId", Bpe(R"("a": 1, "b": 1, "ab": 1)", R"("a b")"), "", ""},
        LyingJson{"Gaps", Bpe(R"("a": 7, "b": 70000, "ab": 1000000)", R"("a b")"), "", ""},
        LyingJson{"Cycle", Bpe(kAb, R"("a b", ["a", "b"], "a b")"), "", ""},
        LyingJson{"MergeWithoutToken", Bpe(kAb, R"("ab c")"), "", "needs the token \"c\""},
        LyingJson{"MergeWithoutResult", Bpe(kAb, R"("ab a")"), "", "needs the token \"aba\""},
        LyingJson{"MergeOfThree", Bpe(kAb, R"("a b b")"), "", "two tokens"},
        LyingJson{"NoUnknown", Bpe(kAb, "") + R"(, "unk_token": "?")", "", "not there either"},
        LyingJson{"Empty", Bpe("", ""), "", ""},
        LyingJson{"WordPieceWithoutUnknown", WordPiece(R"("a": 0)"), "", "not there either"},
        LyingJson{"WordPieceOfNothing", WordPiece(""), "", "not there either"},
        LyingJson{"WordPieceOfPrefixes", WordPiece(R"("?": 7, "##": 0, "": 1, "##a": 2, "a": 3, "##b": 3)"), "", ""},
        LyingJson{"WordPieceWithoutPrefix",
                  WordPiece(R"("?": 0, "a": 1, "b": 2)", R"(, "continuing_subword_prefix": "")"), "", ""},
        LyingJson{"WordPieceOfNoCharacters", WordPiece(R"("?": 0, "a": 1)", R"(, "max_input_chars_per_word": -5)"), "",
                  ""},
        LyingJson{"WordPieceIds", WordPiece(R"("?": -1)"), "", "ids from 0"},
        LyingJson{"NoScores", Unigram(R"(["<unk>"])"), "", "pieces with scores"},
        LyingJson{"HugeScore", Unigram(R"(["<unk>", 1e308], ["a", -1e308])"), "", ""},
        LyingJson{"UnknownOutside", Unigram(R"(["a", 0])", "5"), "", "unk_id"},
        LyingJson{"UnknownMissing", Unigram(R"(["a", 0])", "null"), "", "no unknown token"},
        LyingJson{"Twice", Unigram(R"(["<unk>", 0], ["a", -1], ["a", -2])"), "", ""},
        LyingJson{"EmptyPiece", Unigram(R"(["<unk>", 0], ["", -1])"), "", ""},
        LyingJson{"AddedTwice", Bpe(kAb, ""),
                  R"(, "added_tokens": [{"id": 9, "content": "b"}, {"id": 4, "content": "b", "special": true}])", ""},
        LyingJson{"AddedOfSpaces", Bpe(kAb, ""),
                  R"(, "added_tokens": [{"id": 9, "content": " ", "lstrip": true, "rstrip": true}])", ""},
        LyingJson{"NoPattern", Bpe(kAb, ""), R"(, "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(("}})",
                  "regular expression"},
        LyingJson{"Padding", Bpe(kAb, ""), R"(, "padding": {"strategy": {"Fixed": 99999999999}})", "padding"},
        LyingJson{"Base64", Bpe(kAb, ""), R"(, "normalizer": {"type": "Precompiled", "precompiled_charsmap": "%"})",
                  "base64"},
        LyingJson{"Charsmap", Bpe(kAb, ""),
                  R"(, "normalizer": {"type": "Precompiled", "precompiled_charsmap": "////////"})", "trie within"},
        LyingJson{"Replacement", Bpe(kAb, ""),
                  R"(, "normalizer": {"type": "Replace", "pattern": {"String": ""}, "content": "x"})", "Replace"}),
    [](const auto& test) { return test.param.name; });

// Words and tokens of any length: a search from each byte would take hours here.
TEST(Hostile, WordPieceTakesLinearTime) {
  constexpr size_t kLong = size_t{1} << 20;
  const std::string a(kLong, 'a');
  const std::string json = R"({"model": {"type": "WordPiece", "unk_token": "?", "max_input_chars_per_word": 100000000,)"
                           R"("vocab": {"?": 0, "a": 1, "##a": 2, "##aa": 3, "##)" +
                           a + R"(b": 4, ")" + a + R"(c": 5, "##ab": 6, "##)" + a.substr(kLong / 2) + R"(b": 7}}})";
  const Tokenizer tokenizer = Tokenizer::FromJson(json, "long");
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(tokenizer.Encode("x" + a), std::vector<int32_t>{0});
  EXPECT_EQ(tokenizer.Encode(a + "c"), std::vector<int32_t>{5});
  EXPECT_EQ(tokenizer.Encode(a + a + "b").size(), kLong + 1);  // "a", "##aa" …, "##ab"
  EXPECT_EQ(tokenizer.Encode("aaa" + a + "b"), (std::vector<int32_t>{1, 3, 4}));
  EXPECT_EQ(tokenizer.Encode(a + "x"), std::vector<int32_t>{0});
  std::string mixed;
  for (size_t i = 0; i < kLong; ++i) mixed += i % 1000 == 999 ? 'b' : 'a';
  EXPECT_LE(tokenizer.Encode(mixed).size(), kLong);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
}

TEST(Hostile, VocabTxt) {
  const auto message = [](const std::string& vocab, const std::string& config = "{}") {
    TemporaryFolder folder;
    WriteFile(folder / "vocab.txt", vocab);
    WriteFile(folder / "tokenizer_config.json", config);
    return ErrorMessage([&] {
      const Tokenizer tokenizer = Tokenizer::Open(folder.path());
      tokenizer.Decode(tokenizer.Encode("ab [MASK] \xff"), true);
    });
  };
  const std::string specials = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  EXPECT_EQ(message(specials + "a\n##b"), "");
  EXPECT_EQ(message(specials + "a\r\na\na\n\n\n##b\n" + std::string(1 << 20, 'a') + "\n"), "");
  EXPECT_EQ(message("a\n##b\n"), "");  // special tokens get the next ids, as in the original …
  EXPECT_NE(message("a\n").find("not there either"), std::string::npos);  // … and [UNK] does not become one
  EXPECT_NE(message("").find("a token a line"), std::string::npos);
  EXPECT_NE(message(specials + "a\xff\n").find("UTF-8, got line 6"), std::string::npos);
  EXPECT_NE(message(specials, R"({"tokenizer_class": "BertJapaneseTokenizer"})").find("BertJapanese"),
            std::string::npos);
  EXPECT_NE(message(specials, R"({"do_lower_case": "yes"})").find("do_lower_case"), std::string::npos);
  EXPECT_NE(message(specials, R"({"added_tokens_decoder": {"x": {"content": "a"}}})").find("expected ids"),
            std::string::npos);
  EXPECT_NE(message(specials, R"({"added_tokens_decoder": {"1": 5}})").find("expected a JSON object"),
            std::string::npos);
  EXPECT_EQ(message(specials, R"({"added_tokens_decoder": {"9": {"content": "ab"}, "7": {"content": ""}}})"), "");
}

TEST(Hostile, MarianFiles) {
  const std::string source = ReadFile(GoldenFolder() / "marian/source.spm");
  const auto message = [&](const std::string& model, const std::string& vocab) {
    TemporaryFolder folder;
    WriteFile(folder / "source.spm", model);
    WriteFile(folder / "vocab.json", vocab);
    return ErrorMessage([&] {
      const Tokenizer tokenizer = Tokenizer::Open(folder.path());
      tokenizer.Decode(tokenizer.Encode(">>x<< ab \xe7\x8c\xab </s>"), true);
    });
  };
  EXPECT_EQ(message(source, R"({"</s>": 0, "<unk>": 1, "<pad>": 2})"), "");
  EXPECT_EQ(message(source, R"({"</s>": 7, "<unk>": 7})"), "");
  EXPECT_NE(message(source, R"({"</s>": 0})").find("\"<unk>\" in vocab.json"), std::string::npos);
  EXPECT_NE(message(source, "[]").find("tokens and ids"), std::string::npos);
  EXPECT_NE(message(source, R"({"<unk>": -1})").find("ids from 0"), std::string::npos);
  EXPECT_NE(message(source.substr(0, 100), R"({"<unk>": 1})").find("SentencePiece model"), std::string::npos);
  EXPECT_NE(message("", R"({"<unk>": 1})").find("no pieces"), std::string::npos);
}

TEST(Hostile, OtherTokenizersOfSentencePiece) {
  TemporaryFolder folder;
  std::filesystem::copy(GoldenFolder() / "siglip_model/spiece.model", folder / "sentencepiece.bpe.model");
  WriteFile(folder / "tokenizer_config.json", R"({"tokenizer_class": "CamembertTokenizer"})");
  EXPECT_NE(ErrorMessage([&] { Tokenizer::Open(folder.path()); }).find("tokenizer.json"), std::string::npos);
  WriteFile(folder / "tokenizer_config.json", R"({"tokenizer_class": "T5Tokenizer", "extra_ids": 99999999999})");
  EXPECT_NE(ErrorMessage([&] { Tokenizer::Open(folder.path()); }).find("extra_ids"), std::string::npos);
}

TEST(Hostile, DeepSequences) {
  std::string json = R"({"type": "NFC"})";
  for (int i = 0; i < 200; ++i) json = R"({"type": "Sequence", "normalizers": [)" + json + "]}";
  json = R"({"model": {"type": "BPE", "vocab": {}, "merges": []}, "normalizer": )" + json + "}";
  EXPECT_NE(ErrorMessage([&] { Tokenizer::FromJson(json, "deep"); }).find("nested more than"), std::string::npos);
}

// A varint, a field with text, a piece of a model.
std::string Field(int number, std::string_view text) {
  std::string bytes(1, static_cast<char>(number << 3 | 2));
  for (size_t size = text.size();; size >>= 7) {
    bytes += static_cast<char>((size & 0x7f) | (size >= 0x80 ? 0x80 : 0));
    if (size < 0x80) break;
  }
  return bytes.append(text);
}
std::string Piece(std::string_view text, std::string_view score, char type) {
  return Field(1, Field(1, text) + "\x15" + std::string(score) + "\x18" + type);
}
constexpr std::string_view kMinusOne("\x00\x00\x80\xbf", 4), kNan("\x00\x00\xc0\x7f", 4);

TEST(Hostile, LyingModels) {
  const auto message = [](const std::string& bytes) {
    return ErrorMessage([&] { Tokenizer::FromSentencePiece(bytes, "m"); });
  };
  const std::string unknown = Piece("<unk>", kMinusOne, 2), a = Piece("a", kMinusOne, 1);
  EXPECT_EQ(message(unknown + a), "");
  EXPECT_NE(message("").find("no pieces"), std::string::npos);
  EXPECT_NE(message(a).find("expected one piece of type unknown"), std::string::npos);
  EXPECT_NE(message(unknown + a + a).find("there twice"), std::string::npos);
  EXPECT_NE(message(unknown + Piece("b", kNan, 1)).find("finite score"), std::string::npos);
  EXPECT_NE(message(unknown + Piece("", kMinusOne, 1)).find("is empty"), std::string::npos);
  EXPECT_NE(message(unknown + Piece("\xff", kMinusOne, 1)).find("not UTF-8"), std::string::npos);
  EXPECT_NE(message(unknown + Piece("b", kMinusOne, 9)).find("type from 1 to 6"), std::string::npos);
  EXPECT_NE(message(unknown + a + Field(2, std::string("\x18\x04", 2))).find("char (4)"), std::string::npos);
  EXPECT_NE(message(unknown + a + Field(2, std::string("\x98\x02\x01", 3))).find("256 byte pieces"), std::string::npos);
  EXPECT_NE(message(unknown + a + Field(3, Field(2, "abc"))).find("map of characters"), std::string::npos);
}

}  // namespace
}  // namespace qkv::text
