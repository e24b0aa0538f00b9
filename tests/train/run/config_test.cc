// One table of keys: files, flags and documentation say the same, and what is wrong is named.
#include "qkv/train/run/config.h"

#include <gtest/gtest.h>

#include <set>

#include "qkv/core/file.h"
#include "qkv/model/layout/tensor_table.h"
#include "qkv/train/run/initial_model.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"

namespace qkv::train {
namespace {

Settings Read(const std::string& text) {
  const TemporaryFolder folder;
  WriteFile(folder / "run.yaml", text);
  return ReadSettings(folder / "run.yaml");
}

bool Contains(const std::string& message, const std::string& part) { return message.find(part) != std::string::npos; }

TEST(TrainConfig, GivenStandsAbovePreset) {
  const TrainConfig digits = Resolve({{"preset", "vit-digits"}});
  EXPECT_EQ(digits.image_size, (Extents{28, 28}));
  EXPECT_EQ(digits.channels, 1);
  const TrainConfig changed = Resolve({{"preset", "vit-digits"}, {"image-size", "32x20"}, {"lr", "3e-4"}});
  EXPECT_EQ(changed.image_size, (Extents{32, 20}));
  EXPECT_EQ(changed.lr, 3e-4);
  EXPECT_EQ(changed.patch_size, digits.patch_size);
}

TEST(TrainConfig, YamlAndJsonSayTheSame) {
  const Settings yaml = Read(
      "# a comment\n"
      "preset: vit-cifar\nlr: 3e-4\nqk_norm: yes\nimage-size: [32, 24]\nmean: [0.1, 0.2, 0.3]\nattention: 'low_rank'\n"
      "rank: 8\n");
  const Settings json = Read(
      "\t{\"preset\": \"vit-cifar\", \"lr\": 3e-4, \"qk-norm\": true,\n"
      "\t\"image_size\": [32, 24], \"mean\": [0.1, 0.2, 0.3], \"attention\": \"low_rank\", \"rank\": 8}");
  EXPECT_EQ(ToYaml(Resolve(yaml)), ToYaml(Resolve(json)));
  const TrainConfig config = Resolve(yaml);
  EXPECT_TRUE(config.qk_norm);
  EXPECT_EQ(config.image_size, (Extents{32, 24}));
  EXPECT_EQ(config.mean, (std::vector<double>{0.1, 0.2, 0.3}));
  EXPECT_TRUE(Read("").empty());
}

TEST(TrainConfig, ReadsWhatItWrites) {
  for (const Settings& given : {Settings{{"preset", "vit-small"}, {"lr", "0.1"}, {"drop-path", "0.3"}},
                                Settings{{"model", "a \"folder\": of mine"}, {"image-size", "96"}},
                                Settings{{"model", "vit"}, {"preset", "vit-cifar"}}}) {
    const TrainConfig config = Resolve(given);
    const std::string text = ToYaml(config);
    EXPECT_EQ(ToYaml(Resolve(Read(text))), text);
    RequireSameRun(config, Resolve(Read(text)));
  }
}

TEST(TrainConfig, UnknownKeysAreErrorsThatNameTheNearest) {
  EXPECT_TRUE(Contains(ErrorMessage([] { Read("wieght_decay: 0.1\n"); }), "\"weight-decay\""));
  EXPECT_TRUE(Contains(ErrorMessage([] { Read("lr: 1\nseeds: 3\n"); }), "line 2"));
  EXPECT_TRUE(Contains(ErrorMessage([] { Read("lr: 1\nseeds: 3\n"); }), "\"seed\""));
  EXPECT_TRUE(Contains(ErrorMessage([] { Read("{\"droppath\": 3}"); }), "\"drop-path\""));
  // Of a key of megabytes only the beginning is compared and shown.
  EXPECT_LT(ErrorMessage([] { Read("{\"" + std::string(size_t{1} << 20, 'l') + "\": 3}"); }).size(), 200);
}

TEST(TrainConfig, WrongFilesAndValuesAreNamed) {
  const std::pair<const char*, const char*> files[] = {
      {"lr: 1\nlr: 2\n", "twice"}, {"lr: {a: 1}\n", "plain value"}, {"- lr\n", "key: value"},
      {"lr: [1\n", "line"},        {"{\"lr\": {}}", "plain value"}, {"{\"lr\": null}", "plain value"},
      {"{\"lr\"", "JSON"}};
  for (const auto& [text, part] : files) {
    const std::string message = ErrorMessage([text = text] { Read(text); });
    EXPECT_TRUE(Contains(message, part)) << text << ": " << message;
  }
  const std::pair<Settings, const char*> values[] = {
      {{{"lr", "fast"}}, "lr: expected a number"},
      {{{"lr", "-1"}}, "from 1e-09 to 100"},
      {{{"lr", "nan"}}, "lr"},
      {{{"epochs", "1.5"}}, "epochs: expected a whole number"},
      {{{"epochs", "99999999999999999999"}}, "epochs"},
      {{{"image-size", "32x"}}, "a size such as"},
      {{{"mean", "0.5,"}}, "numbers separated by commas"},
      {{{"qk-norm", "maybe"}}, "true or false"},
      {{{"opt", "adam"}}, "adamw, sgd"},
      {{{"preset", "vit-huge"}}, "vit-small"},
      {{{"width", "100"}, {"heads", "3"}}, "no multiple of heads"},
      {{{"attention", "low_rank"}}, "needs a rank"},
      {{{"rank", "4"}}, "has no rank"},
      {{{"class-token", "no"}}, "pool"},
      {{{"channels", "2"}}, "channels"},
      {{{"mean", "1,2"}}, "1 or 3 numbers"},
      {{{"patch-size", "300"}}, "larger than image-size"},
      {{{"min-lr", "1"}}, "min-lr 1 is above"},
      {{{"model", "vit"}, {"width", "96"}}, "decided by model vit"},
  };
  for (const auto& [given, part] : values) {
    const std::string message = ErrorMessage([&, g = given] { Resolve(g); });
    EXPECT_TRUE(Contains(message, part)) << part << ": " << message;
  }
}

// A run's file has every key: what was emptied or cut off is not the defaults.
TEST(TrainConfig, ARunsFileIsWholeOrAnError) {
  for (const Settings& given : {Settings{{"preset", "vit-digits"}}, Settings{{"preset", "seq-text"}},
                                Settings{{"model", "some-vit"}, {"lr", "1e-5"}}}) {
    const std::string whole = ToYaml(Resolve(given));
    EXPECT_EQ(ToYaml(Resolve(ParseRunSettings(whole, "run"))), whole);
    const TemporaryFolder folder;
    WriteFile(folder / "config.yaml", whole);
    EXPECT_EQ(RunSettingsProblem(folder / "config.yaml"), "");
    EXPECT_EQ(ReadRunSettings(folder / "config.yaml"), ParseRunSettings(whole, "run"));
    for (size_t end = 0; end + 1 < whole.size(); ++end) {
      // Cut off within its last line's text, a line may still be one.
      if (whole.find('\n', end) == whole.size() - 1) break;
      EXPECT_NE(ErrorMessage([&] { ParseRunSettings(whole.substr(0, end), "run"); }), "") << end;
    }
    EXPECT_NE(ErrorMessage([&] { ParseRunSettings(whole.substr(2), "run"); }).find("run: expected a first line"),
              std::string::npos);
  }
  const TemporaryFolder folder;
  for (const char* text : {"", "lr: 1e-3\n"}) {
    WriteFile(folder / "config.yaml", text);
    EXPECT_NE(RunSettingsProblem(folder / "config.yaml"), "");
  }
}

TEST(TrainConfig, AResumedRunIsTheSame) {
  const Settings begun = {{"preset", "vit-digits"}};
  Settings later = begun;
  later["threads"] = "2";
  later["save-steps"] = "10";
  later["epochs"] = "60";
  RequireSameRun(Resolve(begun), Resolve(later));
  EXPECT_TRUE(Contains(ErrorMessage([&] {
                         RequireSameRun(Resolve(begun), Resolve(later), {{"steps", "epochs"}});
                       }),
                       "must be the one that was begun: epochs was 30, now 60"));
  later["lr"] = "0.01";
  EXPECT_TRUE(
      Contains(ErrorMessage([&] { RequireSameRun(Resolve(begun), Resolve(later)); }), "lr was 0.001, now 0.01"));
}

// What says when a run ends replaces what said so below.
TEST(TrainConfig, TheEndIsThatOfTheSettingsAbove) {
  const Settings steps = {{"steps", "100"}, {"epochs", "30"}}, minutes = {{"minutes", "5"}};
  EXPECT_EQ(Resolve(MergeSettings(steps, {{"epochs", "40"}})).steps, 0);
  EXPECT_EQ(Resolve(MergeSettings(minutes, {{"epochs", "40"}})).minutes, 0);
  EXPECT_EQ(Resolve(MergeSettings(minutes, {{"steps", "9"}})).minutes, 0);
  EXPECT_EQ(Resolve(MergeSettings(steps, minutes)).minutes, 5);
  EXPECT_EQ(Resolve(MergeSettings(steps, {{"lr", "1e-3"}})).steps, 100);
}

TEST(TrainConfig, EveryKeyIsDocumentedOnce) {
  const std::string page = ReadFile(SourceFolder() / "docs/training.md");
  std::set<std::string_view> names;
  for (const Key& key : Keys()) {
    EXPECT_TRUE(names.insert(key.name).second) << key.name;
    const std::string row = fmt::format("| `{}` | {} | {} |", key.name, FormatValue(key, TrainConfig()), key.help);
    EXPECT_TRUE(Contains(page, row)) << "docs/training.md lacks: " << row;
  }
}

TEST(Presets, AreModelsOfTheSizeThatIsPromised) {
  const auto parameters = [](const char* preset, int classes) {
    const TrainConfig config = Resolve({{"preset", preset}});
    return model::Parameters(
        NewModel(config, std::vector<std::string>(static_cast<size_t>(classes), "x")).description.config);
  };
  EXPECT_LE(parameters("vit-digits", 10), 500'000);
  EXPECT_LE(parameters("vit-cifar", 10), 3'000'000);
  EXPECT_EQ(parameters("vit-tiny", 1000), 5'717'416);    // timm's vit_tiny_patch16_224
  EXPECT_EQ(parameters("vit-small", 1000), 22'050'664);  // timm's vit_small_patch16_224
  EXPECT_EQ(PresetFor(28, 28, 1), "vit-digits");
  EXPECT_EQ(PresetFor(32, 32, 3), "vit-cifar");
  EXPECT_EQ(PresetFor(480, 640, 3), "vit-tiny");
}

}  // namespace
}  // namespace qkv::train
