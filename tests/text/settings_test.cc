// Settings beside a tokenizer's files: ids and texts are AutoTokenizer's, and what is not done is refused by name. The
// cases are made by tools/tokenizer_settings.py.
#include <gtest/gtest.h>

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
  const io::Json golden = io::ReadJson(GoldenFolder() / "settings.json");
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
  for (const NeutralKey& neutral : kNeutralTokenizerKeys) {
    EXPECT_EQ(std::ranges::find(kTokenizerKeysOfNoEffect, neutral.key), std::end(kTokenizerKeysOfNoEffect));
    EXPECT_TRUE(io::Json::accept(neutral.value)) << neutral.key;
  }
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
