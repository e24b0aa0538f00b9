// qkv search from outside.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "qkv/image/image.h"
#include "qkv/io/npy.h"
#include "tests/cli/program.h"

namespace qkv {
namespace {

class SearchCommand : public testing::Test {
 protected:
  SearchCommand() { EXPECT_EQ(Qkv("embed -o " + vectors_ + " " + Digits()).exit_code, 0); }

  const TemporaryFolder folder_;
  const std::string vectors_ = (folder_ / "digits.npy").string(), four_ = Digits() + "/4-black.png",
                    seven_ = Digits() + "/7-white.png";
};

TEST_F(SearchCommand, FindsTheImageItself) {
  const CommandOutput said = Qkv("search --top 3 " + vectors_ + " " + four_);
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_TRUE(said.out.starts_with(" 1.0000  " + four_ + "\n")) << said.out;
  EXPECT_EQ(std::ranges::count(said.out, '\n'), 3);
  EXPECT_FALSE(Contains(said.err, "mean nothing")) << said.err;

  const auto answers = JsonLines(Qkv("search --json " + vectors_ + " " + four_ + " " + seven_).out);
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[1]["query"], seven_);
  EXPECT_EQ(answers[1]["results"].size(), 10u);
  EXPECT_EQ(answers[1]["results"][0]["path"], seven_);
  EXPECT_NEAR(answers[1]["results"][0]["score"], 1, 1e-6);
  EXPECT_EQ(answers[1]["results"][0]["row"], 15);
  float last = 1;
  for (const io::Json& result : answers[0]["results"]) {
    EXPECT_LE(result["score"].get<float>(), last);
    last = result["score"];
  }
  const CommandOutput several = Qkv("search --top 1 " + vectors_ + " " + four_ + " " + seven_);
  EXPECT_EQ(several.out, four_ + "\n   1.0000  " + four_ + "\n" + seven_ + "\n   1.0000  " + seven_ + "\n");
}

TEST_F(SearchCommand, EmbedsTheQueryAsTheFileSays) {
  const std::string file = (folder_ / "mean.safetensors").string();
  ASSERT_EQ(Qkv("embed --pool mean -o " + file + " " + Digits()).exit_code, 0);
  const CommandOutput said = Qkv("search --top 1 " + file + " " + four_);
  EXPECT_EQ(said.out, " 1.0000  " + four_ + "\n") << said.err;
  const CommandOutput other = Qkv("search --pool cls --top 1 " + file + " " + four_);
  EXPECT_TRUE(Contains(other.err, "was embedded with --pool mean")) << other.err;
}

TEST_F(SearchCommand, SaysThatTheModelIsAnother) {
  const CommandOutput wrong = Qkv("search -m " + Golden("timm_grey") + " " + vectors_ + " " + four_);
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_TRUE(Contains(wrong.err, "digits.npy has vectors of 96")) << wrong.err;
  EXPECT_TRUE(Contains(wrong.err, "scores across models mean nothing")) << wrong.err;
  std::filesystem::remove(folder_ / "digits.model.json");
  std::filesystem::remove(folder_ / "digits.paths.txt");
  const CommandOutput bare = Qkv("search --top 1 " + vectors_ + " " + four_);
  EXPECT_EQ(bare.exit_code, 0);
  EXPECT_EQ(bare.out, " 1.0000  row 8\n");
  EXPECT_TRUE(Contains(bare.err, "does not say which model")) << bare.err;
}

TEST_F(SearchCommand, ComparesHowTheVectorsWereMade) {
  const std::string file = (folder_ / "set.npy").string(), model = " -m " + Golden("hf_vit"),
                    set = " --mean 0.1 --std 0.9 --set hidden_act=relu";
  ASSERT_EQ(Qkv("embed" + model + set + " -o " + file + " " + Digits()).exit_code, 0);
  const CommandOutput other = Qkv("search" + model + " " + file + " " + four_);
  EXPECT_TRUE(Contains(other.err, "another configuration or preprocessing")) << other.err;
  const CommandOutput same = Qkv("search" + model + set + " " + file + " " + four_);
  EXPECT_FALSE(Contains(same.err, "another configuration")) << same.err;
  EXPECT_TRUE(same.out.starts_with(" 1.0000  ")) << same.out;
  const CommandOutput rounded = Qkv("search --dtype bf16" + model + set + " " + file + " " + four_);
  EXPECT_TRUE(Contains(rounded.err, "was embedded in fp32, the queries are in bf16")) << rounded.err;
  // Files of before have neither.
  WriteFile(folder_ / "set.model.json", R"({"model": "", "weights": "0", "pool": "model", "size": ""})");
  const CommandOutput old = Qkv("search" + model + " " + file + " " + four_);
  EXPECT_EQ(old.exit_code, 0) << old.err;
  EXPECT_FALSE(Contains(old.err, "another configuration")) << old.err;
}

TEST_F(SearchCommand, TakesTheModelThatTheFileNames) {
  const std::string file = (folder_ / "own.npy").string(), model = (folder_ / "model").string();
  std::filesystem::copy(Golden("hf_vit"), model);
  ASSERT_EQ(Qkv("embed -m " + model + " -o " + file + " " + Digits()).exit_code, 0);
  const CommandOutput said = Qkv("search --top 1 " + file + " " + four_);
  EXPECT_EQ(said.out, " 1.0000  " + four_ + "\n") << said.err;
  EXPECT_FALSE(Contains(said.err, "built-in")) << said.err;
  std::filesystem::remove_all(model);
  std::filesystem::copy(Golden("hf_vit_relu"), model);
  const CommandOutput changed = Qkv("search " + file + " " + four_);
  EXPECT_EQ(changed.exit_code, 1);
  EXPECT_TRUE(Contains(changed.err, "other weights now")) << changed.err;
  std::filesystem::remove_all(model);
  const CommandOutput gone = Qkv("search " + file + " " + four_);
  EXPECT_EQ(gone.exit_code, 1);
  EXPECT_TRUE(Contains(gone.err, "which is not there")) << gone.err;
}

TEST_F(SearchCommand, FindsDuplicates) {
  std::filesystem::copy(Digits(), folder_ / "own");
  std::filesystem::copy(four_, folder_ / "own/copy.png");
  std::filesystem::copy(four_, folder_ / "own/second.png");
  ASSERT_EQ(Qkv("embed -o " + vectors_ + " " + (folder_ / "own").string()).exit_code, 0);
  const std::string page = (folder_ / "sheet.html").string();
  const CommandOutput said = Qkv("search " + vectors_ + " --pairs --min 0.9999 --json --sheet " + page);
  ASSERT_EQ(said.exit_code, 0) << said.err;
  const std::vector<io::Json> groups = JsonLines(said.out);
  ASSERT_EQ(groups.size(), 1u) << said.out;
  EXPECT_TRUE(Contains(groups[0]["query"], "4-black.png")) << said.out;
  ASSERT_EQ(groups[0]["results"].size(), 2u);
  EXPECT_TRUE(Contains(groups[0]["results"][0]["path"], "copy.png")) << said.out;
  EXPECT_TRUE(Contains(ReadFile(page), "second.png"));
  const CommandOutput none = Qkv("search --pairs --min 1 " + vectors_ + " " + four_);
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_TRUE(Contains(none.err, "leave out")) << none.err;
  EXPECT_EQ(Qkv("search " + vectors_).exit_code, 1);
}

TEST_F(SearchCommand, LeavesOutTheQueryAndWhatIsFar) {
  const io::Json all = JsonLines(Qkv("search --json --top 5 " + vectors_ + " " + four_).out)[0]["results"];
  const io::Json others =
      JsonLines(Qkv("search --exclude-self --json --top 4 " + vectors_ + " " + four_).out)[0]["results"];
  ASSERT_EQ(others.size(), 4u);
  for (size_t i = 0; i < others.size(); ++i) EXPECT_EQ(others[i]["path"], all[i + 1]["path"]);
  const double least = (all[1]["score"].get<double>() + all[2]["score"].get<double>()) / 2;
  const CommandOutput near = Qkv(fmt::format("search --json --min {} {} {}", least, vectors_, four_));
  EXPECT_EQ(JsonLines(near.out)[0]["results"].size(), 2u) << near.err;
}

// Paths of images and of the model hold from any folder, also if all was moved.
TEST_F(SearchCommand, FindsItsFilesFromAnyFolder) {
  std::filesystem::create_directories(folder_ / "work/photos");
  std::filesystem::copy(four_, folder_ / "work/photos/4.png");
  std::filesystem::copy(Golden("hf_vit"), folder_ / "work/model");
  std::filesystem::create_directories(folder_ / "work/index");
  const std::string work = (folder_ / "work").string();
  ASSERT_EQ(Qkv("embed -m model -o index/x.npy photos", "cd " + work + " &&").exit_code, 0);
  const CommandOutput said = Qkv("search x.npy ../photos/4.png", "cd " + work + "/index &&");
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_TRUE(Contains(said.out, " 1.0000  ../photos/4.png")) << said.out;
  std::filesystem::rename(folder_ / "work", folder_ / "moved");
  const CommandOutput moved =
      Qkv("search moved/index/x.npy moved/photos/4.png", "cd " + folder_.path().string() + " &&");
  EXPECT_EQ(moved.exit_code, 0) << moved.err;
  EXPECT_TRUE(Contains(moved.out, " 1.0000  moved/photos/4.png")) << moved.out;
}

TEST_F(SearchCommand, DrawsSheets) {
  const std::string png = (folder_ / "sheet.png").string(), page = (folder_ / "sheet.html").string();
  ASSERT_EQ(Qkv("search --sheet " + png + " " + vectors_ + " " + four_ + " " + seven_).exit_code, 0);
  const image::Image sheet = image::DecodeFile(png);
  EXPECT_EQ(sheet.channels(), 3);
  EXPECT_GT(sheet.width(), 1000);
  // Of one query, half as high.
  ASSERT_EQ(Qkv("search --sheet " + png + " " + vectors_ + " " + four_).exit_code, 0);
  EXPECT_LT(image::DecodeFile(png).height(), sheet.height() * 2 / 3);
  // Images that were removed meanwhile leave their places empty.
  std::filesystem::copy(Digits(), folder_ / "own");
  std::filesystem::copy(folder_ / "own" / "4-white.png", folder_ / "own" / "removed.png");
  std::filesystem::remove(folder_ / "own" / "4-white.png");
  ASSERT_EQ(Qkv("embed -o " + vectors_ + " " + (folder_ / "own").string()).exit_code, 0);
  std::filesystem::remove(folder_ / "own" / "removed.png");
  const CommandOutput drawn = Qkv("search --top 20 --sheet " + page + " " + vectors_ + " " + four_);
  ASSERT_EQ(drawn.exit_code, 0);
  EXPECT_TRUE(Contains(drawn.err, "1 of 20 pictures are not there, first ")) << drawn.err;
  const std::string html = ReadFile(page);
  for (const char* part : {"data:image/webp;base64,", "<b>1.000</b>", "4-black.png", "no picture", "removed.png",
                           "of 20 images in digits.npy", "<footer>qkv "}) {
    EXPECT_TRUE(Contains(html, part)) << part;
  }
  const CommandOutput over = Qkv("search --sheet " + four_ + " " + vectors_ + " " + four_);
  EXPECT_TRUE(Contains(over.err, "which is read")) << over.err;
  EXPECT_EQ(Qkv("search --sheet x.jpg " + vectors_ + " " + four_).exit_code, 1);
}

TEST_F(SearchCommand, RefusesWhatIsNotThere) {
  const CommandOutput query = Qkv("search " + vectors_ + " /nonexistent.jpg");
  EXPECT_EQ(query.exit_code, 1);
  EXPECT_TRUE(Contains(query.err, "/nonexistent.jpg: no such file")) << query.err;
  EXPECT_TRUE(Contains(Qkv("search " + four_ + " " + four_).err, "that qkv embed wrote"));
  WriteFile(folder_ / "bad.png", "no image");
  const CommandOutput part = Qkv("search --top 1 " + vectors_ + " " + (folder_ / "bad.png").string() + " " + four_);
  EXPECT_EQ(part.exit_code, 1);
  EXPECT_TRUE(Contains(part.out, "1.0000")) << part.out;
}

}  // namespace
}  // namespace qkv
