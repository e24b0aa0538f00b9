// qkv attend of texts from outside: which files it writes, what is in them, and what it refuses.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "qkv/image/image.h"
#include "qkv/io/npy.h"
#include "tests/cli/program.h"

namespace qkv {
namespace {

namespace fs = std::filesystem;

std::string Task(const std::string& name) { return Golden("tasks/" + name); }

TEST(AttendTexts, ShowWhatTranslateWrites) {
  const TemporaryFolder folder;
  const std::string model = "-m " + Task("marian") + " --tokens 10 'The house is green.' ";
  const std::string answer = Qkv("translate " + model).out;
  const CommandOutput picture = Qkv("attend --cross " + model + "-o " + (folder / "a.png").string());
  ASSERT_EQ(picture.exit_code, 0) << picture.err;
  EXPECT_TRUE(Contains(picture.err, "10 tokens written from 14: " + answer.substr(0, 20))) << picture.err;
  EXPECT_GT(image::DecodeFile(folder / "a.png").width(), 400);
  const CommandOutput json = Qkv("attend " + model + "--layer all --head all");
  const io::Json all = JsonLines(json.out).at(0);
  EXPECT_EQ(all["part"], "cross");
  EXPECT_EQ(all["target"].get<std::string>() + "\n", answer);
  ASSERT_EQ(Qkv("attend " + model + "--layer all --head all -o " + (folder / "a.npy").string()).exit_code, 0);
  const Tensor<float> npy = io::ReadNpy<float>(folder / "a.npy");
  EXPECT_EQ(npy.shape(), Shape({2, 3, 10, 14}));
  EXPECT_EQ(all["weights"][1][2][3][4].get<float>(), *npy.view().at(1, 2, 3, 4));
  EXPECT_EQ(io::ReadJson(folder / "a.tokens.json")["rows"], all["rows"]);
  const CommandOutput beams = Qkv("attend " + model + "--beams 3");
  EXPECT_EQ(JsonLines(beams.out).at(0)["target"].get<std::string>() + "\n", Qkv("translate --beams 3 " + model).out);
}

TEST(AttendTexts, HaveThreeParts) {
  const std::string marian = "attend -m " + Task("marian") + " 'The house is green.' --target 'una casa' ";
  EXPECT_EQ(JsonLines(Qkv(marian).out).at(0)["part"], "cross");
  const io::Json decoder = JsonLines(Qkv(marian + "--part decoder").out).at(0);
  EXPECT_EQ(decoder["columns"].size(), decoder["rows"].size());
  EXPECT_NE(decoder["columns"][0], decoder["rows"][0]) << "the start is read, and the first token is written";
  EXPECT_EQ(decoder["columns"][1], decoder["rows"][0]);
  const io::Json encoder =
      JsonLines(Qkv("attend --part encoder -m " + Task("marian") + " 'The house is green.'").out).at(0);
  EXPECT_EQ(encoder["rows"], encoder["columns"]);
  EXPECT_FALSE(encoder.contains("target"));
  EXPECT_EQ(JsonLines(Qkv("attend -m " + Task("bert") + " attention").out).at(0)["part"], "encoder");
  EXPECT_EQ(JsonLines(Qkv("attend -m " + Task("llama") + " attention").out).at(0)["part"], "decoder");
}

TEST(AttendTexts, TakeFilesAndStandardInput) {
  const TemporaryFolder folder;
  WriteFile(folder / "texts.txt", "attention\na dog\n");
  const std::string model = "attend -m " + Task("bert") + " ", file = (folder / "texts.txt").string();
  EXPECT_EQ(JsonLines(Qkv(model + file).out).size(), 2u);
  EXPECT_EQ(Qkv(model, "cat " + file + " |").out, Qkv(model + file).out);
  EXPECT_EQ(Qkv(model + "-", "cat " + file + " |").out, Qkv(model + file).out);
  EXPECT_EQ(Qkv(model + file + " -o " + (folder / "maps/").string()).exit_code, 0);
  EXPECT_TRUE(fs::exists(folder / "maps/1.png") && fs::exists(folder / "maps/2.png"));
  EXPECT_EQ(Qkv(model + file + " -o " + (folder / "m{}.html").string()).exit_code, 0);
  EXPECT_TRUE(fs::exists(folder / "m2.html"));
  EXPECT_TRUE(Contains(Qkv(model + file + " -o " + (folder / "m.png").string()).err, "one file, for 2 texts"));
  // One of them empty: the others are shown, and the exit status tells.
  WriteFile(folder / "texts.txt", "attention\n\na dog\n");
  const CommandOutput said = Qkv(model + file);
  EXPECT_EQ(said.exit_code, 1);
  EXPECT_EQ(JsonLines(said.out).size(), 2u);
  EXPECT_TRUE(Contains(said.err, "text 2: attend: the text is empty")) << said.err;
}

TEST(AttendTexts, TakeBytesThatAreNoText) {
  const TemporaryFolder folder;
  const std::string arguments = "attend -m " + Task("gpt2") + " \"$(printf 'a\\377\\303 b\\033[31m')\"";
  for (const char* name : {"a.png", "a.html", "a.npy", "a.safetensors", "a.json"}) {
    const CommandOutput said = Qkv(arguments + " -o " + (folder / name).string());
    EXPECT_EQ(said.exit_code, 0) << name << ": " << said.err;
    EXPECT_FALSE(Contains(said.err, "\x1b")) << name;
    const bool is_text = Contains(name, "html") || Contains(name, "json");
    EXPECT_FALSE(is_text && Contains(ReadFile(folder / name), "\x1b")) << name;
  }
}

TEST(AttendTexts, SayWhatTheyRefuse) {
  const TemporaryFolder folder;
  const std::string marian = "-m " + Task("marian") + " 'a dog' ", bert = "-m " + Task("bert") + " 'a dog' ";
  const std::string digit = " " + Digits() + "/3-white.png";
  WriteFile(folder / "a.txt", "a dog\n");
  WriteFile(folder / "a.tokens.json", "a dog\n");
  const std::pair<std::string, std::string> cases[] = {
      {bert + "--cross", "no cross-attention"},
      {bert + "--part decoder", "--part encoder"},
      {bert + "--target x", "--target"},
      {marian + "--rollout", "--rollout is for images"},
      {marian + "--query cls", "--query is for images"},
      {marian + "--side 100", "--side is for images"},
      {marian + "--size 32", "do not apply to a text model"},
      {marian + "--layer 5", "from 0 to 1"},
      {marian + "--head x", "--head"},
      {marian + "--target x --beams 3", "--beams"},
      {marian + "'a cat' --target x", "needs one text"},
      {marian + "-o " + (folder / "a.txt").string(), ".json"},
      {marian + "-o " + Task("marian") + "/config.json", "which is read"},
      {"-m " + Task("bert") + " " + (folder / "a.tokens.json").string() + " -o " + (folder / "a.npy").string(),
       "which is read"},
      {"-m " + Task("marian") + " ''", "the text is empty"},
      {"-m " + Task("marian") + " missing.txt", "no such file"},
      {"-m " + Task("marian") + " " + std::string(2000, 'a'), "give a shorter one"},
      {"-m " + Golden("timm_vit") + " --cross" + digit, "--cross is for texts"},
      {"-m " + Golden("timm_vit") + " --target x" + digit, "is an image model"},
      {"--cross" + digit, "without -m the built-in image model"},
  };
  for (const auto& [arguments, named] : cases) {
    const CommandOutput said = Qkv("attend " + arguments);
    EXPECT_EQ(said.exit_code, 1) << arguments;
    EXPECT_TRUE(Contains(said.err, named)) << arguments << ": " << said.err;
  }
  EXPECT_EQ(Qkv("attend --cross --part encoder " + marian).exit_code, 2);
  EXPECT_EQ(ReadFile(folder / "a.tokens.json"), "a dog\n");
}

}  // namespace
}  // namespace qkv
