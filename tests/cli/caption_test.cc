// Models that write about images from the command line: caption, info, run and verify, and what other commands say.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/cli/program.h"

namespace qkv {
namespace {

namespace fs = std::filesystem;

std::string Task(const std::string& name) { return Golden("tasks/" + name); }
std::string Photo(const std::string& name) { return Golden("detector/photos/" + name); }

TEST(CaptionCommand, WritesALineForEachPhoto) {
  const TemporaryFolder folder;
  for (const char* task : {"vit_gpt2", "trocr"}) {
    const io::Json expected = io::ReadJson(fs::path(Task(task)) / "expected.json");
    const std::string model = "caption -q -m " + Task(task) + " ";
    const std::string first = Photo(expected["photos"][0].get<std::string>());
    const std::vector<io::Json> lines = JsonLines(Qkv(model + "--json " + Golden("detector/photos")).out);
    ASSERT_EQ(lines.size(), expected["photos"].size());
    for (const io::Json& line : lines) {
      const std::string name = fs::path(line["path"].get<std::string>()).filename();
      const auto at = std::ranges::find(expected["photos"], io::Json(name)) - expected["photos"].begin();
      EXPECT_EQ(line["text"], expected["greedy"][static_cast<size_t>(at)]) << name;
      EXPECT_LE(line["tokens"], 10);
    }
    const CommandOutput beams = Qkv(model + "--beams 3 --json " + first);
    EXPECT_EQ(JsonLines(beams.out)[0]["text"], expected["beam"][0]) << beams.err;
    const CommandOutput one = Qkv(model + first), several = Qkv(model + first + " " + first);
    EXPECT_EQ(one.exit_code, 0) << one.err;
    EXPECT_EQ(std::ranges::count(one.out, '\n'), 1);
    EXPECT_EQ(several.out, first + "  " + one.out + first + "  " + one.out);
    EXPECT_EQ(Qkv(model + "-", "cat " + first + " |").out, one.out);
    const std::string out = (folder / "out.txt").string();
    EXPECT_EQ(Qkv(model + first + " -o " + out).out, "");
    EXPECT_EQ(ReadFile(out), one.out);
    EXPECT_EQ(Qkv(model + "--dtype bf16 " + first).exit_code, 0);
    EXPECT_EQ(Qkv(model + "--dtype int8 --size 48 " + first).exit_code, 0);
    EXPECT_EQ(JsonLines(Qkv(model + "--tokens 3 --json " + first).out)[0]["tokens"], 3);
  }
}

TEST(CaptionCommand, BadImagesAreLeftOut) {
  const TemporaryFolder folder;
  WriteFile(folder / "broken.png", "no image");
  const std::string model = "caption -m " + Task("vit_gpt2") + " ", broken = (folder / "broken.png").string();
  const CommandOutput some = Qkv(model + broken + " " + Photo("12.png"));
  EXPECT_EQ(some.exit_code, 1);
  EXPECT_TRUE(Contains(some.err, "broken.png")) << some.err;
  EXPECT_TRUE(some.out.starts_with(Photo("12.png"))) << some.out;
  const std::string out = (folder / "out.txt").string();
  const CommandOutput none = Qkv(model + broken + " -o " + out);
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_FALSE(fs::exists(out));
  WriteFile(folder / "photo.png", ReadFile(Photo("12.png")));
  const std::string photo = (folder / "photo.png").string();
  EXPECT_EQ(Qkv(model + photo + " -o " + photo).exit_code, 1);
  EXPECT_EQ(ReadFile(photo), ReadFile(Photo("12.png"))) << "what is read is not written over";
}

TEST(CaptionCommand, ErrorsNameTheRightCommand) {
  const std::string photo = " " + Photo("12.png"), model = Task("vit_gpt2");
  EXPECT_TRUE(Contains(Qkv("caption -m " + Golden("hf_vit") + photo).err, "qkv classify"));
  EXPECT_TRUE(Contains(Qkv("caption -m " + Golden("hf_vit_model") + photo).err, "qkv embed"));
  EXPECT_TRUE(Contains(Qkv("caption -m " + Golden("hf_yolos") + photo).err, "qkv detect"));
  EXPECT_TRUE(Contains(Qkv("caption -m " + Task("marian") + photo).err, "is a text model"));
  EXPECT_EQ(Qkv("caption" + photo).exit_code, 2);
  for (const std::string command : {"classify -m " + model + photo, "embed -m " + model + photo,
                                    "translate -m " + model + " hello", "generate -m " + model + " --prompt a",
                                    "summarize -m " + model + " hello", "run -m " + model + photo + " -o /dev/null"}) {
    const CommandOutput refused = Qkv(command);
    EXPECT_EQ(refused.exit_code, 1) << command;
    EXPECT_TRUE(Contains(refused.err, "qkv caption")) << command << refused.err;
  }
  EXPECT_EQ(Qkv("embed --pool mean -m " + model + photo).exit_code, 0);
}

TEST(CaptionModels, AreDescribedRunAndVerified) {
  const TemporaryFolder folder;
  const std::string out = (folder / "out.safetensors").string();
  for (const char* name : {"vit_gpt2_projected", "deit_trocr"}) {
    const std::string golden = Golden("caption/" + std::string(name)), reference = golden + "/expected.safetensors";
    const CommandOutput info = Qkv("info -m " + golden);
    EXPECT_TRUE(Contains(info.out, "VisionEncoderDecoderModel")) << info.out << info.err;
    EXPECT_TRUE(Contains(info.out, "cross-attention"));
    EXPECT_EQ(io::Json::parse(Qkv("info --json -m " + golden).out)["decoder"]["cross_attention"], true);
    EXPECT_EQ(Qkv("run -m " + golden + " --input " + reference + " --attention 1 -o " + out).exit_code, 0);
    const auto tensors = io::SafeTensors::Open(out);
    for (const char* output :
         {"tokens", "encoder_tokens", "logits", "attention.1", "cross_attention.1", "encoder_attention.1"}) {
      EXPECT_NE(tensors.Find(output), nullptr) << output;
    }
    EXPECT_EQ(tensors.Find("attention.0"), nullptr);
    const CommandOutput verified = Qkv("verify -m " + golden + " " + reference);
    EXPECT_EQ(verified.exit_code, 0) << verified.out << verified.err;
    EXPECT_TRUE(Contains(verified.err, "9 of 9 tensors agree")) << verified.err;
    EXPECT_EQ(Qkv("verify --tolerance 0.1 --dtype bf16 -m " + golden + " " + reference).exit_code, 0);
  }
}

// The cache holds the encoder; conversion of types keeps the whole.
TEST(CaptionModels, AreCachedAndConverted) {
  const TemporaryFolder folder;
  const std::string model = Task("trocr"), photo = " " + Photo("12.png"), copy = (folder / "copy").string();
  const std::string text = Qkv("caption -m " + model + photo).out;
  const std::string cache = "QKV_CACHE=" + (folder / "cache").string();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(Qkv("caption -m " + model + photo, cache).out, text);
  const CommandOutput convert = Qkv("convert --dtype bf16 -m " + model + " -o " + copy);
  EXPECT_EQ(convert.exit_code, 0) << convert.err;
  const CommandOutput again = Qkv("caption -m " + copy + photo);
  EXPECT_EQ(again.exit_code, 0) << again.err;
}

}  // namespace
}  // namespace qkv
