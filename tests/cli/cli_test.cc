// The program from outside: what it prints where, and its exit codes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>
#include <thread>

#include "qkv/image/encode.h"
#include "qkv/io/json.h"
#include "qkv/io/npy.h"
#include "qkv/io/safetensors.h"
#include "qkv/simd/gemm/gemm.h"
#include "tests/cli/program.h"

namespace qkv {
namespace {

TEST(Program, HelpAndVersionSucceedOnStdout) {
  for (const char* arguments : {"--help", "--version", "classify --help", "run --help"}) {
    const CommandOutput said = Qkv(arguments);
    EXPECT_EQ(said.exit_code, 0) << arguments;
    EXPECT_FALSE(said.out.empty()) << arguments;
    EXPECT_TRUE(said.err.empty()) << said.err;
  }
}

TEST(Program, UsageErrorsExitWithTwo) {
  for (const char* arguments : {"", "fly", "classify", "classify --top 0 x.png", "classify --nonsense x.png", "verify",
                                "classify --threads 0 x.png", "embed --pool sum x.png"}) {
    const CommandOutput said = Qkv(arguments);
    EXPECT_EQ(said.exit_code, 2) << arguments << said.out << said.err;
    EXPECT_TRUE(said.out.empty()) << said.out;
  }
}

TEST(Program, OtherErrorsExitWithOneAndSayWhat) {
  const TemporaryFolder empty;
  const std::pair<std::string, std::string> cases[] = {
      {"classify /nonexistent.png", "/nonexistent.png"},
      {"classify -m /nonexistent " + Digits(), "/nonexistent"},
      {"classify " + empty.path().string(), "no images"},
      {"classify --size 28y28 " + Digits(), "--size"},
      {"classify --window 5 " + Digits(), "--window"},
      {"classify -m " + Golden("timm_features") + " " + Digits(), "no classifier"},
      {"run -m " + Golden("timm_vit") + " --output /tmp/x.safetensors", "--input"},
      {"run -m " + Golden("timm_vit") + " --hidden 9 --output /tmp/x.safetensors " + Digits(), "--hidden"},
      {"embed -o out.txt " + Digits(), ".npy"},
  };
  for (const auto& [arguments, named] : cases) {
    const CommandOutput said = Qkv(arguments);
    EXPECT_EQ(said.exit_code, 1) << arguments;
    EXPECT_TRUE(Contains(said.err, named)) << arguments << ": " << said.err;
    EXPECT_TRUE(said.out.empty()) << said.out;
  }
}

TEST(Classify, BuiltInModelReadsAllHandDrawnDigits) {
  const CommandOutput said = Qkv("classify --json " + Digits());
  EXPECT_EQ(said.exit_code, 0);
  EXPECT_TRUE(Contains(said.err, "built-in"));
  const auto lines = JsonLines(said.out);
  EXPECT_EQ(lines.size(), 20u);
  for (const io::Json& line : lines) {
    const std::string name = std::filesystem::path(line["path"].get<std::string>()).filename();
    EXPECT_EQ(line["top"][0]["label"], name.substr(0, 1)) << name;
    EXPECT_EQ(line["top"].size(), 5u);
    EXPECT_FALSE(line.contains("logits"));
  }
}

// auto: bfloat16 where the processor multiplies it, else float.
// Without -m the built-in classifier of digits would call a dog an 8.
TEST(Classify, APhotoIsNoDigit) {
  const TemporaryFolder folder, photos;
  const std::string photo = (photos / "photo.png").string();
  image::Image image{Tensor<uint8_t>({120, 200, 3})};
  for (int64_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = static_cast<uint8_t>(i * i / 7);
  WriteFile(photo, image::EncodePng(image));
  for (const std::string& command : {"classify " + Digits() + " ", "embed -o " + (folder / "x.npy").string() + " ",
                                     "run -o " + (folder / "x.safetensors").string() + " ", std::string("attend ")}) {
    const CommandOutput said = Qkv(command + photo);
    EXPECT_EQ(said.exit_code, 1) << command;
    EXPECT_TRUE(Contains(said.err, "a colour picture of 200x120")) << said.err;
    EXPECT_TRUE(Contains(said.err, "photo.png")) << said.err;
    EXPECT_TRUE(Contains(said.err, "hf download ")) << said.err;
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  EXPECT_EQ(Qkv("embed -o " + (folder / "digits.npy").string() + " " + Digits()).exit_code, 0);
  const CommandOutput found = Qkv("search " + (folder / "digits.npy").string() + " " + photo);
  EXPECT_EQ(found.exit_code, 1);
  EXPECT_TRUE(Contains(found.err, "is no digit")) << found.err;
  const CommandOutput named = Qkv("classify -m " + Golden("timm_vit") + " " + photo);
  EXPECT_EQ(named.exit_code, 0) << named.err;
}

TEST(Classify, ChoosesThePrecision) {
  const auto answer = [](const std::string& dtype, const std::string& environment) {
    const CommandOutput said = Qkv("classify --json --logits --dtype " + dtype + " " + Digits(), environment);
    EXPECT_EQ(said.exit_code, 0) << said.err;
    return said.out;
  };
  EXPECT_EQ(answer("auto", "QKV_ISA=baseline"), answer("fp32", "QKV_ISA=baseline"));
  const bool native = simd::Describe(simd::Precision::kBfloat16).native;
  EXPECT_EQ(answer("auto", ""), answer(native ? "bf16" : "fp32", ""));
}

TEST(Cache, AnswersAlikeAndSaysWhatIsWrong) {
  const TemporaryFolder folder;
  const std::string arguments = "classify --json --logits -m " + Golden("timm_vit") + " " + Digits() + "/3-white.png";
  const CommandOutput built = Qkv(arguments, "QKV_CACHE=");
  ASSERT_EQ(built.exit_code, 0) << built.err;
  const auto check = [&](const std::string& more, const std::string& before, const std::string& note) {
    const CommandOutput said = Qkv(arguments + more, before);
    EXPECT_EQ(said.exit_code, 0) << said.err;
    EXPECT_EQ(said.out, built.out);
    EXPECT_EQ(said.err.empty(), note.empty()) << said.err;
    EXPECT_TRUE(Contains(said.err, note)) << said.err;
  };
  const std::string own = "QKV_CACHE=" + (folder / "own").string(),
                    xdg = "QKV_CACHE= XDG_CACHE_HOME=" + (folder / "xdg").string();
  for (int i = 0; i < 2; ++i) {
    check("", own, "");
    check(" --cache", xdg, "");
  }
  check(" --cache", "QKV_CACHE= XDG_CACHE_HOME= HOME=", "no cache");
  for (const auto& kept : {folder / "own", folder / "xdg/qkv"}) {
    ASSERT_EQ(std::distance(std::filesystem::directory_iterator(kept), {}), 1);
    WriteFile(std::filesystem::directory_iterator(kept)->path(), "no cache");
  }
  check("", own, "not used");
  check("", own, "");
  check(" --cache", xdg, "not used");
  check("", "QKV_CACHE=/dev/null/x", "not kept");
  // Without being asked for, and for the model inside the program, there is no file.
  const std::string unused = (folder / "unused").string();
  EXPECT_EQ(Qkv(arguments, "QKV_CACHE= XDG_CACHE_HOME=" + unused).exit_code, 0);
  EXPECT_EQ(Qkv("classify " + Digits(), "QKV_CACHE=" + unused).exit_code, 0);
  EXPECT_FALSE(std::filesystem::exists(unused));
}

TEST(Cache, OfModelsOfTextsAnswersAlike) {
  const TemporaryFolder folder;
  WriteFile(folder / "texts.txt", "some words\n");
  const std::string words = (folder / "texts.txt").string(), cache = "QKV_CACHE=" + (folder / "cache").string();
  const std::string commands[] = {"embed -m " + Golden("tasks/bert") + " --text " + words,
                                  "generate -m " + Golden("tasks/gpt2") + " --prompt some --tokens 5",
                                  "translate -q -m " + Golden("tasks/marian") + " --tokens 5 " + words,
                                  "summarize -q -m " + Golden("tasks/t5") + " --tokens 5 " + words};
  for (const std::string& command : commands) {
    const CommandOutput built = Qkv(command, "QKV_CACHE=");
    ASSERT_EQ(built.exit_code, 0) << built.err;
    for (int i = 0; i < 2; ++i) {
      const CommandOutput said = Qkv(command + " --cache=verify", cache);
      EXPECT_EQ(said.out, built.out) << command;
      EXPECT_EQ(said.err, built.err) << command;
    }
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder / "cache"), {}), 4);
}

TEST(Classify, LogitsAndScoresAgree) {
  const CommandOutput said = Qkv("classify --json --logits --top 10 " + Digits() + "/3-white.png");
  const io::Json line = JsonLines(said.out).at(0);
  double sum = 0;
  for (const double logit : line["logits"]) sum += std::exp(logit);
  for (const io::Json& entry : line["top"]) {
    EXPECT_NEAR(entry["score"], std::exp(line["logits"][entry["index"].get<size_t>()].get<double>()) / sum, 1e-6);
  }
}

TEST(Classify, ResultsDoNotDependOnTheBatch) {
  const CommandOutput one = Qkv("classify --json --logits --batch 1 --threads 1 " + Digits());
  const CommandOutput many = Qkv("classify --json --logits --batch 7 " + Digits());
  EXPECT_EQ(one.out, many.out);
}

// Enough images for every thread to read and compute batches of its own, among them some that cannot be read.
TEST(Classify, ManyImagesKeepTheirOrderOnAnyNumberOfThreads) {
  const TemporaryFolder folder;
  int broken = 0;
  for (int i = 0; i < 100; ++i) {
    const std::string name = fmt::format("{:02}.png", i),
                      image = ReadFile(Digits() + fmt::format("/{}-white.png", i % 10));
    const bool cut = i % 13 == 5;
    broken += cut;
    WriteFile(folder / name, cut ? image.substr(0, 30) : image);
  }
  std::string first;
  for (const char* how : {"--threads 1 --batch 1", "--threads 2", "--threads 7 --batch 3", "--threads 40"}) {
    const CommandOutput said = Qkv(fmt::format("classify --json --logits {} {}", how, folder.path().string()));
    EXPECT_EQ(said.exit_code, 1);
    EXPECT_TRUE(Contains(said.err, fmt::format("{} of 100 files could not be read", broken))) << said.err;
    if (first.empty()) first = said.out;
    EXPECT_EQ(said.out, first) << how;
  }
  const auto lines = JsonLines(first);
  ASSERT_EQ(lines.size(), static_cast<size_t>(100 - broken));
  std::string last;
  for (const io::Json& line : lines) {
    const std::string name = std::filesystem::path(line["path"].get<std::string>()).filename();
    EXPECT_LT(last, name);
    last = name;
    EXPECT_EQ(line["top"][0]["label"], name.substr(1, 1)) << name;
  }
}

TEST(Classify, UnreadableFilesAreNamedAndTheRestIsDone) {
  const TemporaryFolder folder;
  const std::string image = ReadFile(Digits() + "/3-white.png");
  WriteFile(folder / "a.png", image);
  WriteFile(folder / "b.png", image.substr(0, image.size() / 2));
  WriteFile(folder / "c.png", "no image at all");
  WriteFile(folder / "d.png", image);
  WriteFile(folder / "notes.txt", "not looked at");
  const CommandOutput said = Qkv("classify --json " + folder.path().string());
  EXPECT_EQ(said.exit_code, 1);
  EXPECT_EQ(JsonLines(said.out).size(), 2u);
  EXPECT_TRUE(Contains(said.err, "b.png")) << said.err;
  EXPECT_TRUE(Contains(said.err, "c.png")) << said.err;
  EXPECT_TRUE(Contains(said.err, "2 of 4 files could not be read")) << said.err;
}

TEST(Classify, MissingFilesAndEmptyFoldersDoNotStopTheRest) {
  const TemporaryFolder empty;
  const CommandOutput said =
      Qkv("classify --json /nonexistent.png " + empty.path().string() + " " + Digits() + "/3-white.png");
  EXPECT_EQ(said.exit_code, 1);
  EXPECT_EQ(JsonLines(said.out).size(), 1u);
  EXPECT_TRUE(Contains(said.err, "/nonexistent.png") && Contains(said.err, "no images")) << said.err;
}

TEST(Classify, CountsFilesOfOtherTypes) {
  const TemporaryFolder folder;
  std::filesystem::copy_file(Digits() + "/8-black.png", folder / "8.png");
  for (const char* name : {"a.nii", "b.nii", "c.svs", "._8.png", "notes.txt"}) WriteFile(folder / name, "x");
  const CommandOutput said = Qkv("classify " + folder.path().string());
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_TRUE(Contains(said.err, "3 files of other types (.nii, .svs) were left out")) << said.err;
  std::filesystem::remove(folder / "8.png");
  const CommandOutput none = Qkv("classify " + folder.path().string());
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_TRUE(Contains(none.err, "no images in this folder")) << none.err;
  EXPECT_TRUE(Contains(none.err, "(.nii, .svs)")) << none.err;
}

TEST(Classify, NamesDicom) {
  const TemporaryFolder folder;
  WriteFile(folder / "ct.dcm", std::string("II*\0", 4) + std::string(124, '\0') + "DICM" + std::string(100, '\0'));
  const CommandOutput said = Qkv("classify " + (folder / "ct.dcm").string());
  EXPECT_EQ(said.exit_code, 1);
  EXPECT_TRUE(Contains(said.err, "DICOM")) << said.err;
}

TEST(Classify, WritesTables) {
  const TemporaryFolder folder;
  const std::string csv = (folder / "a.csv").string(), lines = (folder / "a.jsonl").string();
  const CommandOutput said = Qkv("classify --top 2 -o " + csv + " " + Digits());
  ASSERT_EQ(said.exit_code, 0) << said.err;
  EXPECT_EQ(said.out, "");
  std::istringstream rows(ReadFile(csv));
  std::string row;
  std::getline(rows, row);
  EXPECT_EQ(row, "path,class_1,score_1,class_2,score_2");
  int count = 0;
  for (; std::getline(rows, row); ++count) EXPECT_EQ(std::ranges::count(row, ','), 4) << row;
  EXPECT_EQ(count, 20);
  ASSERT_EQ(Qkv("classify --top 2 -o " + lines + " " + Digits()).exit_code, 0);
  EXPECT_EQ(ReadFile(lines), Qkv("classify --top 2 --json " + Digits()).out);
  ASSERT_EQ(Qkv("classify --logits -o " + lines + " " + Digits()).exit_code, 0);
  EXPECT_EQ(ReadFile(lines), Qkv("classify --logits --json " + Digits()).out);
  EXPECT_TRUE(Contains(Qkv("classify --logits -o " + csv + " " + Digits()).err, "--logits needs --json"));
  // More than there are classes.
  ASSERT_EQ(Qkv("classify --top 12 -o " + csv + " " + Digits()).exit_code, 0);
  const std::string text = ReadFile(csv);
  EXPECT_EQ(std::ranges::count(text, ','), 21 * 24);
  const CommandOutput wrong = Qkv("classify -o " + (folder / "a.txt").string() + " " + Digits());
  EXPECT_TRUE(Contains(wrong.err, ".csv or .jsonl")) << wrong.err;
  const CommandOutput unnamed = Qkv("classify --json -m " + Golden("timm_vit") + " " + Digits() + "/8-black.png");
  EXPECT_TRUE(Contains(unnamed.out, "\"label\":\"class ")) << unnamed.out;
}

TEST(Embed, WritesCsv) {
  const TemporaryFolder folder;
  const std::string csv = (folder / "a.csv").string(), image = Digits() + "/8-black.png";
  ASSERT_EQ(Qkv("embed -o " + csv + " " + image).exit_code, 0);
  const io::Json vector = JsonLines(Qkv("embed " + image).out)[0]["embedding"];
  std::istringstream rows(ReadFile(csv));
  std::string cell, row;
  std::getline(rows, row);
  EXPECT_TRUE(row.starts_with("path,x0,x1,")) << row;
  std::getline(rows, row);
  std::istringstream cells(row);
  std::getline(cells, cell, ',');
  EXPECT_EQ(cell, image);
  for (const io::Json& value : vector) {
    ASSERT_TRUE(std::getline(cells, cell, ','));
    EXPECT_EQ(std::stof(cell), value.get<float>());
  }
  const CommandOutput tokens = Qkv("embed --pool tokens -o " + csv + " " + image);
  EXPECT_EQ(tokens.exit_code, 1);
  EXPECT_TRUE(Contains(tokens.err, "--pool tokens")) << tokens.err;
}

// What a file has and the answer lacks is said.
TEST(Run, NamesWhatIsNoClassAndWhatIsNotRead) {
  const TemporaryFolder folder;
  const std::string out = (folder / "x.safetensors").string();
  const CommandOutput plain =
      Qkv("run -m " + Golden("hf_dinov2_model") + " -o " + out + " " + Digits() + "/8-black.png");
  ASSERT_EQ(plain.exit_code, 0) << plain.err;
  EXPECT_TRUE(Contains(plain.err, "pooled")) << plain.err;
  EXPECT_FALSE(Contains(plain.err, "logits")) << plain.err;
  EXPECT_FALSE(Contains(plain.err, "not read")) << plain.err;
  EXPECT_EQ(Qkv("verify -m " + Golden("hf_dinov2_model") + " " + out).exit_code, 0);

  const std::string model = (folder / "model").string();
  std::filesystem::create_directories(model);
  for (const char* command : {"run -o /dev/null", "embed"}) {
    const CommandOutput said =
        Qkv(fmt::format("{} -m {} {}/8-black.png", command, Golden("hf_mae_pretraining"), Digits()));
    EXPECT_TRUE(Contains(said.err, "of a head are not read")) << command << said.err;
  }
}

TEST(Classify, LostOutputIsAnError) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  const CommandOutput said = Qkv("classify " + Digits(), "", "/dev/full");
  EXPECT_EQ(said.exit_code, 1);
  EXPECT_TRUE(Contains(said.err, "No space left")) << said.err;
}

TEST(Classify, ReadsStdin) {
  const CommandOutput said = Qkv("classify --json -", "cat " + Digits() + "/7-black.png |");
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_EQ(JsonLines(said.out).at(0)["top"][0]["label"], "7");
}

TEST(Classify, OtherSizesInterpolatePositions) {
  const CommandOutput said = Qkv("classify -m " + Golden("timm_vit") + " --size 40x32 --json " + Digits());
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_EQ(JsonLines(said.out).size(), 20u);
  EXPECT_EQ(Qkv("classify -m " + Golden("timm_vit") + " --size 41x32 " + Digits()).exit_code, 1);
}

TEST(Info, SaysWhatWasUsedAndAssumed) {
  const TemporaryFolder folder;
  WriteFile(folder / "bare.safetensors", ReadFile(Golden("timm_vit") + "/model.safetensors"));
  const CommandOutput said = Qkv("info --heads 3 -m " + (folder / "bare.safetensors").string());
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_FALSE(Contains(said.err, "assumed")) << said.err;  // on stdout, once
  EXPECT_TRUE(Contains(said.out, "32 of 32 used")) << said.out;
  EXPECT_TRUE(Contains(said.out, "assumed")) << said.out;
  const io::Json json = JsonLines(Qkv("info --json").out).at(0);
  EXPECT_EQ(json["parameters"], 455050);
  EXPECT_EQ(json["tensors_used"], json["tensors"]);
}

TEST(Info, ListsSettingsAndRefusesUnknownOnes) {
  const TemporaryFolder folder;
  std::filesystem::copy(Golden("timm_vit"), folder / "m");
  const std::string model = " -m " + (folder / "m").string();
  const CommandOutput listed = Qkv("info --settings --strict" + model);
  EXPECT_EQ(listed.exit_code, 0) << listed.err;
  EXPECT_TRUE(Contains(listed.out, "config.json\n  used          architecture ")) << listed.out;
  EXPECT_TRUE(Contains(listed.out, "  of no effect  num_features ")) << listed.out;
  io::Json json = io::ReadJson(folder / "m/config.json");
  json["mystery\n"] = {1};
  WriteFile(folder / "m/config.json", json.dump());
  const io::Json settings = JsonLines(Qkv("info --settings --json" + model).out).at(0)["settings"];
  const io::Json unknown = {{"file", "config.json"}, {"key", "mystery\n"}, {"value", "[1]"}, {"use", "unknown"}};
  EXPECT_NE(std::ranges::find(settings, unknown), settings.end()) << settings;
  const CommandOutput refused = Qkv("info --strict" + model);
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_TRUE(Contains(refused.err, "\"mystery\\n\" of config.json")) << refused.err;
}

TEST(Info, ForcedInstructionSetTakesEffect) {
  EXPECT_TRUE(Contains(Qkv("info", "QKV_ISA=baseline").out, "baseline kernels"));
  const CommandOutput said = Qkv("info", "QKV_ISA=quantum");
  EXPECT_EQ(said.exit_code, 1);
  EXPECT_TRUE(Contains(said.err, "QKV_ISA")) << said.err;
}

TEST(Verify, AgreesWithTheGoldenAndFindsAChange) {
  const std::string golden = Golden("timm_vit");
  const CommandOutput good = Qkv("verify -m " + golden + " " + golden + "/expected.safetensors");
  EXPECT_EQ(good.exit_code, 0) << good.out << good.err;
  EXPECT_TRUE(Contains(good.err, "7 of 7 tensors agree")) << good.err;

  const TemporaryFolder folder;
  const auto file = io::SafeTensors::Open(golden + "/expected.safetensors");
  auto logits = io::Convert<float>(*file.Find("logits"));
  logits[0] += 0.01f;
  io::WriteSafeTensors(folder / "changed.safetensors", {*file.Find("pixels"), io::Stored<float>("logits", logits)});
  const CommandOutput bad = Qkv("verify -m " + golden + " " + (folder / "changed.safetensors").string());
  EXPECT_EQ(bad.exit_code, 1);
  EXPECT_TRUE(Contains(bad.out, "BEYOND")) << bad.out;
}

// What is not compared does not agree.
TEST(Verify, FailsForWhatCannotBeCompared) {
  const TemporaryFolder folder;
  const std::string golden = Golden("timm_vit"), changed = (folder / "changed.safetensors").string();
  const auto file = io::SafeTensors::Open(golden + "/expected.safetensors");
  const auto logits = io::Convert<float>(*file.Find("logits"));
  for (const float value : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()}) {
    Tensor<float> broken = logits.Clone();
    broken[1] = value;
    for (const bool both : {false, true}) {
      std::vector<io::StoredTensor> tensors = {*file.Find("pixels"), io::Stored<float>("logits", broken)};
      if (both) tensors.push_back(*file.Find("logits.float64"));
      io::WriteSafeTensors(changed, tensors);
      const CommandOutput said = Qkv("verify -m " + golden + " " + changed);
      EXPECT_EQ(said.exit_code, 1) << value;
      EXPECT_TRUE(Contains(said.out, "the reference holds")) << said.out;
      EXPECT_TRUE(Contains(said.err, "0 of 1 tensors agree")) << said.err;
    }
  }
  for (const char* unknown : {"attention.99", "logit", "hidden.3", "hidden.-1", "attention.0.float32"}) {
    io::WriteSafeTensors(changed, {*file.Find("pixels"), *file.Find("logits"), io::Stored<float>(unknown, logits)});
    const CommandOutput said = Qkv("verify -m " + golden + " " + changed);
    EXPECT_EQ(said.exit_code, 1) << unknown;
    EXPECT_TRUE(Contains(said.err, std::string("\"") + unknown + "\" is not compared")) << said.err;
    EXPECT_TRUE(Contains(said.err, "1 of 2 tensors agree")) << said.err;
  }
}

TEST(Run, WritesWhatVerifyAcceptsFromImagesAndFromPixels) {
  const TemporaryFolder folder;
  const std::string model = Golden("timm_grey"), images = (folder / "images.safetensors").string(),
                    again = (folder / "again.safetensors").string();
  ASSERT_EQ(Qkv("run -m " + model + " --hidden all --attention all -o " + images + " " + Digits()).exit_code, 0);
  const CommandOutput said =
      Qkv("run -m " + model + " --hidden 0,2 --attention 1 --batch 3 --input " + images + " -o " + again);
  ASSERT_EQ(said.exit_code, 0) << said.err;
  const auto all = io::SafeTensors::Open(images), some = io::SafeTensors::Open(again);
  EXPECT_EQ(all.tensors().size(), 8u);
  EXPECT_EQ(some.tensors().size(), 6u);
  EXPECT_EQ(io::Json::parse(all.metadata().at("paths")).size(), 20u);
  for (const io::StoredTensor& tensor : some.tensors()) {
    const io::StoredTensor* other = all.Find(tensor.name);
    ASSERT_NE(other, nullptr);
    EXPECT_TRUE(std::equal(tensor.bytes.begin(), tensor.bytes.end(), other->bytes.begin(), other->bytes.end()))
        << tensor.name;
  }
}

TEST(Run, RefusesPixelsThatAreNotNumbers) {
  const TemporaryFolder folder;
  Tensor<float> pixels({1, 3, 24, 24});
  pixels[5] = std::nanf("");
  io::WriteSafeTensors(folder / "nan.safetensors", {io::Stored<float>("pixels", pixels)});
  const CommandOutput said = Qkv("run -m " + Golden("timm_vit") + " --input " + (folder / "nan.safetensors").string() +
                                 " -o " + (folder / "out.safetensors").string());
  EXPECT_EQ(said.exit_code, 1);
  EXPECT_TRUE(Contains(said.err, "NaN")) << said.err;
  EXPECT_FALSE(std::filesystem::exists(folder / "out.safetensors"));
}

TEST(Run, FullDiskIsAnError) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  const CommandOutput said = Qkv("run -m " + Golden("timm_grey") + " -o /dev/full " + Digits());
  EXPECT_EQ(said.exit_code, 1);
  EXPECT_TRUE(Contains(said.err, "No space left")) << said.err;
}

TEST(Embed, WritesNumPyWithNamesBesideAndSafetensors) {
  const TemporaryFolder folder;
  ASSERT_EQ(Qkv("embed -o " + (folder / "e.npy").string() + " " + Digits()).exit_code, 0);
  EXPECT_EQ(io::ReadNpy<float>(folder / "e.npy").shape(), Shape({20, 96}));
  EXPECT_TRUE(Contains(ReadFile(folder / "e.paths.txt"), "0-black.png\n"));
  ASSERT_EQ(Qkv("embed --pool tokens -o " + (folder / "e.safetensors").string() + " " + Digits()).exit_code, 0);
  EXPECT_EQ(io::SafeTensors::Open(folder / "e.safetensors").Find("embeddings")->shape, Shape({20, 50, 96}));
  const auto lines = JsonLines(Qkv("embed --pool mean " + Digits()).out);
  EXPECT_EQ(lines.at(0)["embedding"].size(), 96u);
}

}  // namespace
}  // namespace qkv
