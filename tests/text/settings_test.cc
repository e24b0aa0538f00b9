// Settings beside a tokenizer's files: ids and texts are AutoTokenizer's, and what is not done is refused by name. The
// cases are made by tools/tokenizer_settings.py.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "qkv/core/text.h"
#include "qkv/text/tokenizer_settings.h"
#include "tests/support/errors.h"
#include "tests/text/support.h"

namespace qkv::text {
namespace {

std::vector<std::vector<int32_t>> Rows(const TokenBatch& batch) {
  std::vector<std::vector<int32_t>> rows;
  for (int64_t row = 0; row < batch.rows; ++row) {
    const auto begin = batch.ids.begin() + row * batch.columns;
    rows.emplace_back(begin, begin + batch.columns);
  }
  return rows;
}

void MakeFolder(const io::Json& test, const std::filesystem::path& folder) {
  for (const std::string file : test["files"]) {
    std::filesystem::copy(GoldenFolder() / test["base"] / file, folder / file);
  }
  for (const auto& [file, content] : test["beside"].items()) WriteFile(folder / file, content.get<std::string>());
}

TEST(Settings, IdsAndTextsAreAutoTokenizersOrRefusedByName) {
  const io::Json golden = io::ReadJson(SourceFolder() / "tests/text/golden/settings.json");
  const std::vector<std::string> texts = golden["texts"];
  const int64_t length = golden["length"];
  for (const io::Json& test : golden["cases"]) {
    SCOPED_TRACE(test["name"].get<std::string>());
    TemporaryFolder folder;
    MakeFolder(test, folder.path());
    if (test.contains("names")) {
      const std::string message = ErrorMessage([&] { Tokenizer::Open(folder.path()).Encode(texts[0]); });
      EXPECT_TRUE(std::ranges::any_of(test["names"], [&](const io::Json& name) {
        return message.find(name.get<std::string>()) != std::string::npos;
      })) << message;
      continue;
    }
    const io::Json& answer = golden["answers"][test["answer"].get<size_t>()];
    const Tokenizer tokenizer = Tokenizer::Open(folder.path());
    for (size_t i = 0; i < texts.size(); ++i) {
      const std::vector<int32_t> ids = answer["ids"][i];
      EXPECT_EQ(tokenizer.Encode(texts[i]), ids) << texts[i];
      EXPECT_EQ(tokenizer.Decode(ids), answer["decoded"][i]) << texts[i];
      if (!answer.contains("cut")) continue;
      EXPECT_EQ(tokenizer.Encode(texts[i], {.max_length = length}), answer["cut"][i].get<std::vector<int32_t>>());
    }
    if (!answer.contains("padded") || answer["padded"].is_null()) continue;
    EXPECT_EQ(Rows(tokenizer.EncodeBatch(texts, {.padding = Padding::kLongest})),
              answer["padded"].get<std::vector<std::vector<int32_t>>>());
  }
}

TEST(Settings, KeysAreListedOnce) {
  std::set<std::string_view> keys;
  for (const io::KnownKey& known : kTokenizerKeys) {
    EXPECT_TRUE(keys.insert(known.key).second) << known.key;
    EXPECT_TRUE(known.neutral.empty() || io::Json::accept(known.neutral)) << known.key;
  }
}

using Use = io::Setting::Use;

// A folder with bert's tokenizer.json, changed, and files beside it.
class SettledFolder {
 public:
  SettledFolder() : json_(io::ReadJson(GoldenFolder() / "bert/tokenizer.json")) {}

  io::Json& json() { return json_; }
  void Write(const std::string& file, const std::string& text) { WriteFile(folder_ / file, text); }
  Tokenizer Open() {
    WriteFile(folder_ / "tokenizer.json", json_.dump());
    return Tokenizer::Open(folder_.path());
  }
  std::string Refusal() {
    return ErrorMessage([&] { Open(); });
  }
  std::map<std::string, Use> Uses() {
    std::map<std::string, Use> uses;
    const Tokenizer tokenizer = Open();
    for (const io::Setting& setting : tokenizer.settings()) {
      EXPECT_TRUE(uses.emplace(setting.key, setting.use).second) << setting.key << " stands twice";
    }
    return uses;
  }

 private:
  TemporaryFolder folder_;
  io::Json json_;
};

TEST(TokenizerSettings, EachKeyOfTheFilesIsSettledOnce) {
  SettledFolder folder;
  folder.json()["normalizer"]["mystery"] = 1;
  for (io::Json& token : folder.json()["added_tokens"]) token["colour"] = "red";
  folder.Write("tokenizer_config.json", R"({"do_lower_case": true, "verbose": false, "split_special_tokens": false,
      "src_lang": "eng", "pad_token": {"content": "[PAD]", "flavour": 1}, "image_token": 5,
      "extra_special_tokens": ["[A]", {"content": "[B]", "scent": 2}, {"content": "[C]", "scent": 3}]})");
  folder.Write("special_tokens_map.json", R"({"mask_token": "[MASK]", "season": "spring"})");
  std::map<std::string, Use> uses = folder.Uses();
  for (const char* key : {"do_lower_case", "pad_token.content", "mask_token", "model.vocab", "normalizer.type",
                          "normalizer.lowercase", "added_tokens.content", "extra_special_tokens.content"}) {
    EXPECT_EQ(uses.at(key), Use::kUsed) << key;
  }
  EXPECT_EQ(uses.at("split_special_tokens"), Use::kNeutral);
  EXPECT_EQ(uses.at("version"), Use::kNeutral);
  EXPECT_EQ(uses.at("verbose"), Use::kNoEffect);
  std::set<std::string> unknown;
  for (const auto& [key, use] : uses) {
    if (use == Use::kUnknown) unknown.insert(key);
  }
  EXPECT_EQ(unknown,
            (std::set<std::string>{"src_lang", "pad_token.flavour", "image_token", "extra_special_tokens.scent",
                                   "season", "normalizer.mystery", "added_tokens.colour"}));
}

// A class makes its own steps: those of the file say nothing, whatever they are.
TEST(TokenizerSettings, AClassDoesNotReadTheStepsOfTheFile) {
  SettledFolder folder;
  folder.Write("tokenizer_config.json", R"({"tokenizer_class": "BertTokenizer"})");
  std::map<std::string, Use> uses = folder.Uses();
  for (const char* key : {"normalizer", "pre_tokenizer", "decoder"}) EXPECT_EQ(uses.at(key), Use::kNoEffect) << key;
  EXPECT_EQ(uses.at("model.unk_token"), Use::kNoEffect);
  EXPECT_EQ(uses.at("model.vocab"), Use::kUsed);
  EXPECT_EQ(uses.at("added_tokens.content"), Use::kUsed);
}

// As the tokenizers library does, which takes unknown keys of steps, but none of the file.
TEST(TokenizerSettings, RefuseWhatTheOriginalRefuses) {
  const auto refusal = [](const char* key, const io::Json& value) {
    SettledFolder folder;
    folder.json()[key] = value;
    return folder.Refusal();
  };
  const io::Json truncation = {{"direction", "Right"}, {"max_length", 4}, {"strategy", "LongestFirst"}, {"stride", 0}};
  const io::Json padding = {{"strategy", "BatchLongest"}, {"direction", "Right"}, {"pad_id", 0}, {"pad_token", "a"}};
  const auto with = [](io::Json object, const char* key, const char* value) {
    object[key] = value;
    return object;
  };
  EXPECT_EQ(refusal("truncation", truncation), "");
  EXPECT_EQ(refusal("padding", padding), "");
  const auto names = [](const std::string& message, const std::string& key, const std::string& value) {
    return message.find("tokenizer.json") != std::string::npos && message.find(key) != std::string::npos &&
           message.find(value) != std::string::npos;
  };
  EXPECT_TRUE(names(refusal("version", "2.0"), "version", "2.0"));
  EXPECT_TRUE(names(refusal("mystery", 1), "mystery", "remove it"));
  EXPECT_TRUE(names(refusal("truncation", with(truncation, "direction", "Middle")), "direction", "Middle"));
  EXPECT_TRUE(names(refusal("truncation", with(truncation, "strategy", "OnlySecond")), "strategy", "OnlySecond"));
  EXPECT_TRUE(names(refusal("padding", with(padding, "direction", "Middle")), "direction", "Middle"));
  EXPECT_TRUE(names(refusal("padding", with(padding, "strategy", "Longest")), "strategy", "Longest"));
  EXPECT_TRUE(names(refusal("added_tokens", "none"), "added_tokens", "list"));
}

// A class without a padding token takes that of the file's padding, as transformers does, unless null is stated.
TEST(TokenizerSettings, PaddingOfTheFileNamesItsToken) {
  SettledFolder folder;
  folder.json()["padding"] = {
      {"strategy", "BatchLongest"}, {"direction", "Right"}, {"pad_id", 0}, {"pad_token", "<new>"}};
  const int64_t size = folder.Open().size();  // without settings: the file alone
  folder.Write("tokenizer_config.json", R"({"tokenizer_class": "PreTrainedTokenizerFast"})");
  const Tokenizer tokenizer = folder.Open();
  EXPECT_EQ(tokenizer.size(), size + 1);
  EXPECT_EQ(tokenizer.special().padding, tokenizer.IdOf("<new>"));
  folder.Write("tokenizer_config.json", R"({"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": null})");
  EXPECT_EQ(folder.Open().size(), size);
}

// Where transformers finds such a token depends on the order and the class.
TEST(TokenizerSettings, ATokenIsFoundInNormalizedTextOrNot) {
  SettledFolder folder;
  folder.Write("tokenizer_config.json", R"({"tokenizer_class": "BertTokenizer",
      "additional_special_tokens": [{"content": "<new>", "normalized": true}, "<new>"]})");
  EXPECT_NE(folder.Refusal().find("the token \"<new>\" is stated twice"), std::string::npos) << folder.Refusal();
}

// transformers takes any key of it, and those of tokenizer_config.json are replaced.
TEST(TokenizerSettings, TheMapOfSpecialTokensMayHaveAnyKey) {
  const auto ids = [](const char* config, const char* map) {
    SettledFolder folder;
    folder.Write("tokenizer_config.json", config);
    folder.Write("special_tokens_map.json", map);
    return folder.Open().Encode("The House");
  };
  constexpr const char* kLower = R"({"tokenizer_class": "BertTokenizer", "do_lower_case": true})";
  constexpr const char* kCased = R"({"tokenizer_class": "BertTokenizer", "do_lower_case": false})";
  ASSERT_NE(ids(kLower, "{}"), ids(kCased, "{}"));
  EXPECT_EQ(ids(kLower, R"({"do_lower_case": false})"), ids(kCased, "{}"));
  EXPECT_EQ(ids(kCased, R"({"do_lower_case": true})"), ids(kLower, "{}"));
  EXPECT_NE(ErrorMessage([&] { ids(kCased, R"({"split_special_tokens": true})"); }).find("special_tokens_map.json"),
            std::string::npos);
}

// Quadratic work would take minutes here.
TEST(TokenizerSettings, ManyTokensAreAddedInTheOrderOfTheirFile) {
  constexpr int kMany = 60'000;
  std::string object, list;
  for (int i = kMany; i > 0; --i) {
    const char* const comma = i > 1 ? "," : "";
    object += fmt::format(R"("k{0}": "<o{0}>"{1})", i, comma), list += fmt::format(R"("<l{0}>"{1})", i, comma);
  }
  const TemporaryFolder folder;
  std::filesystem::copy(GoldenFolder() / "bert/tokenizer.json", folder / "tokenizer.json");
  const int64_t before = Tokenizer::Open(folder.path()).size();
  for (const std::string& extra : {"{" + object + "}", "[" + list + "]"}) {
    WriteFile(folder / "tokenizer_config.json",
              R"({"tokenizer_class": "BertTokenizer", "extra_special_tokens": )" + extra + "}");
    const Tokenizer tokenizer = Tokenizer::Open(folder.path());
    EXPECT_EQ(tokenizer.size(), before + kMany);
    EXPECT_TRUE(tokenizer.ReadableToken(static_cast<int32_t>(before)).ends_with(fmt::format("{}>", kMany)));
    EXPECT_TRUE(tokenizer.ReadableToken(static_cast<int32_t>(before + kMany - 1)).ends_with("1>"));
  }
}

}  // namespace
}  // namespace qkv::text
