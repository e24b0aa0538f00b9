// qkv tokenize as its users run it.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/cli/program.h"
#include "tests/text/support.h"

namespace qkv {
namespace {

std::string Tokenizer(const std::string& name) { return (text::GoldenFolder() / name / "tokenizer.json").string(); }

class Tokenize : public testing::Test {
 protected:
  // The texts of the goldens, with a zero byte behind each, and the ids that the original gives them.
  void SetUp() override {
    const std::vector<std::string> texts = text::GoldenTexts();
    const io::Json ids = io::ReadJson(text::GoldenFolder() / "clip/ids.json");
    std::string file;
    for (size_t i = 0; i < texts.size(); ++i) {
      if (Contains(texts[i], std::string(1, '\0'))) continue;
      file += texts[i] + '\0';
      wanted_.push_back(ids[i]);
    }
    WriteFile(folder_ / "texts", file);
  }
  std::string Path(const std::string& name) const { return (folder_ / name).string(); }

  const TemporaryFolder folder_;
  std::vector<io::Json> wanted_;
};

TEST_F(Tokenize, GivesTheOriginalsIds) {
  const CommandOutput json = Qkv("tokenize -m " + Tokenizer("clip") + " --null --json " + Path("texts"));
  ASSERT_EQ(json.exit_code, 0) << json.err;
  const std::vector<io::Json> lines = JsonLines(json.out);
  ASSERT_EQ(lines.size(), wanted_.size());
  std::string plain;
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i]["ids"], wanted_[i]);
    EXPECT_EQ(lines[i]["tokens"].size(), wanted_[i].size());
    for (size_t k = 0; k < wanted_[i].size(); ++k) plain += (k > 0 ? " " : "") + wanted_[i][k].dump();
    plain += '\n';
  }
  for (const char* threads : {"1", "3"}) {
    EXPECT_EQ(Qkv("tokenize -m " + Tokenizer("clip") + " --null --threads " + threads + " " + Path("texts")).out,
              plain);
  }
  EXPECT_EQ(Qkv("tokenize -m " + Tokenizer("clip") + " --null", "cat " + Path("texts") + " |").out, plain);
}

TEST_F(Tokenize, CutsAndFills) {
  const CommandOutput full = Qkv("tokenize -m " + Tokenizer("clip"), "printf 'a cat\\r\\nand a dog\\n' |");
  ASSERT_EQ(full.exit_code, 0) << full.err;
  const CommandOutput filled =
      Qkv("tokenize --pad --max-length 30 -m " + Tokenizer("clip"), "printf 'a cat\\nand a dog' |");
  std::istringstream lines(filled.out);
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) EXPECT_EQ(std::ranges::count(line, ' '), 29) << line;
  EXPECT_EQ(count, 2);
  const CommandOutput cut = Qkv("tokenize --max-length 3 -m " + Tokenizer("clip"), "printf 'and a dog' |");
  EXPECT_EQ(std::ranges::count(cut.out, ' '), 2) << cut.out;
  const CommandOutput plain = Qkv("tokenize --plain -m " + Tokenizer("clip"), "printf 'a cat\\nand a dog' |");
  EXPECT_LT(plain.out.size(), full.out.size());
}

TEST_F(Tokenize, MarianHasTwoSides) {
  const std::string folder = (text::GoldenFolder() / "marian").string();
  std::string texts;
  const io::Json rows = io::ReadJson(text::GoldenFolder() / "marian/more.json");
  for (const io::Json& row : rows) texts += row["text"].get<std::string>() + '\0';
  WriteFile(folder_ / "marian", texts);
  for (const auto& [option, key] : {std::pair("", "ids"), std::pair("--target ", "target_ids")}) {
    const CommandOutput out =
        Qkv("tokenize --null --json " + std::string(option) + "-m " + folder + " " + Path("marian"));
    ASSERT_EQ(out.exit_code, 0) << out.err;
    const std::vector<io::Json> lines = JsonLines(out.out);
    ASSERT_EQ(lines.size(), rows.size());
    for (size_t i = 0; i < lines.size(); ++i) EXPECT_EQ(lines[i]["ids"], rows[i][key]) << option << rows[i]["text"];
  }
}

TEST_F(Tokenize, TakesTheNameOfAModelInTheHubsCache) {
  const std::filesystem::path root = folder_ / "models--openai--clip";
  std::filesystem::create_directories(root / "snapshots/aaaa");
  std::filesystem::create_directories(root / "refs");
  std::filesystem::copy(Tokenizer("clip"), root / "snapshots/aaaa/tokenizer.json");
  WriteFile(root / "refs/main", "aaaa");
  const std::string cache = "HF_HUB_CACHE=" + folder_.path().string();
  const CommandOutput named = Qkv("tokenize -m openai/clip", "printf '\\357\\273\\277a cat' | " + cache);
  EXPECT_EQ(named.exit_code, 0) << named.err;
  EXPECT_EQ(named.out, Qkv("tokenize -m " + Tokenizer("clip"), "printf 'a cat' |").out);
  const CommandOutput none = Qkv("tokenize -m openai/other", "printf x | " + cache);
  EXPECT_TRUE(Contains(none.err, "hf download openai/other")) << none.err;
}

TEST_F(Tokenize, SaysWhatIsMissing) {
  const CommandOutput none = Qkv("tokenize -m " + Path("nothing"), "printf x |");
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_TRUE(Contains(none.err, "nothing")) << none.err;
  const CommandOutput vision = Qkv("tokenize -m " + Golden("hf_vit"), "printf x |");
  EXPECT_EQ(vision.exit_code, 1);
  EXPECT_TRUE(Contains(vision.err, "tokenizer.json")) << vision.err;
  const CommandOutput file = Qkv("tokenize -m " + Tokenizer("clip") + " " + Path("missing"));
  EXPECT_EQ(file.exit_code, 1);
  EXPECT_TRUE(Contains(file.err, "missing")) << file.err;
}

}  // namespace
}  // namespace qkv
