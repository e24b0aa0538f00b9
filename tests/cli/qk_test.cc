// qkv qk merge, split, truncate and certify from outside.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/cli/program.h"

namespace qkv {
namespace {

namespace fs = std::filesystem;

TEST(QkMerge, VerifiesAgainstTheOriginalLibraryAndSaysWhatItCosts) {
  const TemporaryFolder folder;
  for (const char* golden : {"timm_vit", "vit_pytorch_vit", "vit_pytorch_simple", "hf_vit"}) {
    const std::string merged = folder / (std::string(golden) + "-merged"),
                      back = folder / (std::string(golden) + "-back");
    const CommandOutput said = Qkv("qk merge -m " + Golden(golden) + " -o " + merged);
    ASSERT_EQ(said.exit_code, 0) << said.err;
    EXPECT_TRUE(said.out.empty());
    EXPECT_TRUE(Contains(said.err, "parameters of queries and keys")) << said.err;
    EXPECT_TRUE(Contains(said.err, "merging does not pay here")) << said.err;
    ASSERT_EQ(Qkv("qk split -m " + merged + " -o " + back).exit_code, 0);
    for (const std::string& model : {merged, back}) {
      const CommandOutput verified =
          Qkv("verify --tolerance 1e-4 --json -m " + model + " " + Golden(golden) + "/expected.safetensors");
      EXPECT_EQ(verified.exit_code, 0) << verified.out;
      std::set<std::string> compared;
      for (const io::Json& line : JsonLines(verified.out)) compared.insert(line["tensor"]);
      EXPECT_TRUE(compared.contains("logits") && compared.contains("attention.0"));
    }
    EXPECT_TRUE(Contains(Qkv("info -m " + merged).out, "merged"));
  }
}

// What it replaces is one matrix a head where queries and keys share it.
TEST(QkMerge, SaysWhatItCostsASharedProjection) {
  const TemporaryFolder folder;
  const CommandOutput said = Qkv("qk merge -m " + Golden("timm_kind_shared") + " -o " + (folder / "out").string());
  ASSERT_EQ(said.exit_code, 0) << said.err;
  EXPECT_TRUE(Contains(said.err, "numbers in place of D x E")) << said.err;
  EXPECT_TRUE(Contains(said.err, "it is slower too")) << said.err;
  EXPECT_FALSE(Contains(said.err, "D/2")) << said.err;
}

TEST(QkMerge, TheReferenceModelsVerify) {
  const char* reference = ::getenv("QKV_REFERENCE");
  if (!reference) GTEST_SKIP() << "QKV_REFERENCE is not set";
  const TemporaryFolder folder;
  for (const char* name : {"digits-vit", "cifar10-vit"}) {
    const std::string model = std::string(reference) + "/" + name, merged = folder / name;
    ASSERT_EQ(Qkv("qk merge -m " + model + " -o " + merged).exit_code, 0);
    const CommandOutput said = Qkv("verify -m " + merged + " " + model + "/expected.safetensors");
    EXPECT_EQ(said.exit_code, 0) << said.out << said.err;
    EXPECT_TRUE(Contains(said.out, "attention.3"));
  }
}

TEST(QkMerge, TheBuiltInModelStillReadsDigits) {
  const TemporaryFolder folder;
  const std::string merged = folder / "merged";
  ASSERT_EQ(Qkv("qk merge -o " + merged).exit_code, 0);
  const auto lines = JsonLines(Qkv("classify --json -m " + merged + " " + Digits()).out);
  EXPECT_EQ(lines.size(), 20u);
  for (const io::Json& line : lines) {
    EXPECT_EQ(line["top"][0]["label"], fs::path(line["path"].get<std::string>()).filename().string().substr(0, 1));
  }
}

TEST(QkMerge, RefusesWithTheReason) {
  const TemporaryFolder folder;
  const CommandOutput said = Qkv("qk merge -m " + Golden("timm_qk_norm") + " -o " + (folder / "out").string());
  EXPECT_EQ(said.exit_code, 1);
  EXPECT_TRUE(Contains(said.err, "QK-norm")) << said.err;
  EXPECT_EQ(Qkv("qk merge").exit_code, 2);
  EXPECT_EQ(Qkv("qk split -m " + Golden("timm_vit") + " -o " + (folder / "out").string()).exit_code, 1);
  EXPECT_EQ(folder.Count(), 0);
}

TEST(QkRegauge, AnswersTheSame) {
  const TemporaryFolder folder;
  const std::string out = folder / "out";
  const CommandOutput said = Qkv("qk regauge -m " + Golden("timm_vit") + " --gauge orthonormal_keys -o " + out);
  ASSERT_EQ(said.exit_code, 0) << said.err;
  EXPECT_TRUE(Contains(said.err, "new tensors in fp32")) << said.err;
  const CommandOutput verified =
      Qkv("verify --tolerance 1e-4 -m " + out + " " + Golden("timm_vit") + "/expected.safetensors");
  EXPECT_EQ(verified.exit_code, 0) << verified.out;
  EXPECT_EQ(Qkv("qk regauge --gauge nice -o " + out).exit_code, 2);
  const CommandOutput refused = Qkv("qk regauge -m " + Golden("timm_qk_norm") + " -o " + (folder / "x").string());
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_TRUE(Contains(refused.err, "QK-norm")) << refused.err;
}

// A disk that is full after 4 kB, and a program that is killed there.
TEST(QkMerge, AppearsWholeOrNotAtAll) {
  const TemporaryFolder folder;
  const std::string arguments = "qk merge -m " + Golden("timm_vit") + " -o " + (folder / "out").string();
  const CommandOutput full = Qkv(arguments, "ulimit -f 4; trap '' XFSZ;");
  EXPECT_EQ(full.exit_code, 1);
  EXPECT_TRUE(Contains(full.err, "out")) << full.err;
  EXPECT_EQ(folder.Count(), 0);
  const CommandOutput killed = Qkv(arguments, "ulimit -f 4;");
  EXPECT_NE(killed.exit_code, 0);
  EXPECT_FALSE(fs::exists(folder / "out"));
  EXPECT_EQ(Qkv(arguments).exit_code, 0);
}

// DINOv2 as published has positions for a larger image than it is given.
TEST(QkMerge, CountsTheImageThatIsComputed) {
  const TemporaryFolder folder;
  const fs::path model = folder / "model";
  fs::create_directories(model);
  WriteChanged("hf_dinov2", model, [](const std::string&, Tensor<float>&) {});
  const CommandOutput stored = Qkv("qk merge -m " + model.string() + " -o " + (folder / "a").string());
  io::Json preprocessor = io::Json::parse(ReadFile(Golden("hf_dinov2") + "/preprocessor_config.json"));
  const int64_t patch = io::Json::parse(ReadFile(model / "config.json"))["patch_size"];
  preprocessor["crop_size"] = {{"height", 2 * patch}, {"width", 2 * patch}};
  WriteFile(model / "preprocessor_config.json", preprocessor.dump());
  const CommandOutput said = Qkv("qk merge -m " + model.string() + " -o " + (folder / "b").string());
  ASSERT_EQ(said.exit_code, 0) << said.err;
  EXPECT_TRUE(Contains(said.err, "an image of 5 tokens")) << said.err;
  EXPECT_FALSE(Contains(stored.err, "an image of 5 tokens")) << stored.err;
}

// Without a classifier the greatest feature is no class.
TEST(QkTruncate, SpeaksOfVectorsWhereThereAreNoClasses) {
  const TemporaryFolder folder;
  const std::string arguments = "qk truncate -m " + Golden("hf_dinov2_model") + " --rank 2 --images " + Digits() +
                                " -o " + (folder / "a").string();
  const CommandOutput said = Qkv(arguments);
  ASSERT_EQ(said.exit_code, 0) << said.err;
  EXPECT_TRUE(Contains(said.out, "cosine of the vectors")) << said.out;
  EXPECT_FALSE(Contains(said.out, "class")) << said.out;
  const CommandOutput json = Qkv(arguments + "2 --json");
  const io::Json last = JsonLines(json.out).back();
  EXPECT_TRUE(last.contains("vector_cosine") && !last.contains("top1_agreement")) << last;
}

TEST(QkTruncate, ReportsErrorsDriftAndAccuracy) {
  const TemporaryFolder folder;
  // A subfolder for each class.
  for (const auto& entry : fs::directory_iterator(Digits())) {
    const std::string name = entry.path().filename();
    if (name.size() < 2 || name[1] != '-') continue;
    fs::create_directories(folder / "images" / name.substr(0, 1));
    fs::copy(entry.path(), folder / "images" / name.substr(0, 1) / name);
  }
  const std::string images = (folder / "images").string();
  double agreement = 0;
  for (const int rank : {1, 16}) {
    const std::string out = folder / fmt::format("rank{}", rank);
    const CommandOutput said =
        Qkv(fmt::format("qk truncate --json -o {} --rank {} --data-optimal {} --images {}", out, rank, images, images));
    ASSERT_EQ(said.exit_code, 0) << said.err;
    const auto lines = JsonLines(said.out);
    const io::Json& last = lines.back();
    EXPECT_EQ(last["images"], 20);
    EXPECT_EQ(last["accuracy_before"], 1.0);
    EXPECT_GE(last["top1_agreement"].get<double>(), agreement);
    agreement = last["top1_agreement"];
    for (size_t i = 0; i + 1 < lines.size(); ++i) {
      EXPECT_GE(lines[i]["attention_mean"].get<double>(), 0);
      EXPECT_LE(lines[i]["attention_mean"].get<double>(), 1);
    }
    EXPECT_EQ(lines.size(), 1 + 4 * 4u);  // heads of the built-in model
    EXPECT_EQ(Qkv("info -m " + out).exit_code, 0);
  }
  EXPECT_EQ(agreement, 1.0);  // at full rank
  const CommandOutput text = Qkv("qk truncate -o " + (folder / "text").string() + " --rank 8 --images " + images);
  EXPECT_TRUE(Contains(text.out, "accuracy 100.00 % before")) << text.out;
  // Images that are in no class's folder have a drift, but no accuracy.
  const CommandOutput flat =
      Qkv("qk truncate --json -o " + (folder / "flat").string() + " --rank 8 --images " + Digits());
  EXPECT_FALSE(JsonLines(flat.out).back().contains("accuracy"));
  EXPECT_EQ(Qkv("qk truncate -o x").exit_code, 2);
  // What is measured on is looked at before anything is written.
  const std::string none = (folder / "none").string();
  EXPECT_EQ(Qkv("qk truncate --rank 4 -o " + (folder / "unseen").string() + " --images " + none).exit_code, 1);
  EXPECT_FALSE(std::filesystem::exists(folder / "unseen"));
  EXPECT_EQ(Qkv("qk truncate --rank 99 -o " + (folder / "x").string()).exit_code, 1);
  EXPECT_FALSE(fs::exists(folder / "x"));
}

TEST(QkCertify, GroupsForPeopleAndListsForPrograms) {
  const CommandOutput table = Qkv("qk certify -m " + Golden("timm_vit"));
  EXPECT_EQ(table.exit_code, 0) << table.err;
  EXPECT_TRUE(Contains(table.out, "exact after softmax only")) << table.out;
  EXPECT_TRUE(Contains(table.out, "bias of queries"));
  std::set<std::string> rewritings;
  const auto lines = JsonLines(Qkv("qk certify --json -m " + Golden("timm_vit")).out);
  for (const io::Json& line : lines) rewritings.insert(line["rewriting"]);
  EXPECT_EQ(rewritings.size(), 13u);
  EXPECT_GT(lines.size(), static_cast<size_t>(std::count(table.out.begin(), table.out.end(), '\n')));
  EXPECT_TRUE(Contains(Qkv("qk certify -m " + Golden("timm_qk_norm")).out, "QK-norm"));
}

TEST(QkCertify, SaysWhatElseWouldObstruct) {
  // What stands in the way of a rewriting of the first head.
  const auto obstructions = [](const std::string& with, const std::string& rewriting) {
    const CommandOutput said = Qkv("qk certify --json -m " + Golden("timm_vit") + " --with " + with);
    EXPECT_EQ(said.exit_code, 0) << said.err;
    for (const io::Json& line : JsonLines(said.out)) {
      if (line["rewriting"] == rewriting) return line["obstructions"];
    }
    return io::Json();
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(obstructions("rope", "split balanced"), Names{"RoPE"});
  EXPECT_EQ(obstructions("sink,rope=2", "merge with u"), (Names{"RoPE", "bias of keys", "attention sink"}));
  EXPECT_EQ(obstructions("soft-cap,added-keys,not-softmax", "drop the keys' bias"),
            (Names{"bias of keys", "soft-cap", "added keys", "no softmax"}));
  EXPECT_EQ(obstructions("dropout", "merge values and output"), (Names{"bias of values", "attention dropout"}));
  EXPECT_EQ(obstructions("rms-norm", "fold, centre"), Names{"RMSNorm keeps the mean"});
  EXPECT_EQ(obstructions("rms-norm", "fold, merge without bias"),
            Names{"bias of queries"});  // beta went with LayerNorm
  for (const char* wrong : {"sinks", "rope,,sink", "rope=3", "rope=", "sink=1"}) {
    const CommandOutput said = Qkv(fmt::format("qk certify --with {}", wrong));
    EXPECT_EQ(said.exit_code, 2) << wrong;
    EXPECT_TRUE(Contains(said.err, "rope[=N], rms-norm, sink")) << said.err;
  }
  EXPECT_EQ(Qkv("qk certify --with rope=4096").exit_code, 1);  // wider than the model's heads
  EXPECT_TRUE(Contains(Qkv("qk certify --help").out, "not-softmax"));
}

}  // namespace
}  // namespace qkv
