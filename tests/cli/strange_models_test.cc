// Models of strangers: what their files leave open, ask for too much of, or break; and what their names may do to the
// output.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "qkv/io/npy.h"
#include "qkv/model/config/sequence_config.h"
#include "qkv/model/layout/tensor_table.h"
#include "tests/cli/program.h"
#include "tests/support/checkpoints.h"

namespace qkv {
namespace {

namespace fs = std::filesystem;

class StrangeModels : public testing::Test {
 protected:
  std::string Path(const std::string& name) const { return (folder_ / name).string(); }
  // A copy of a golden model, whose config.json may be changed.
  std::string Copy(const std::string& golden, const std::function<void(io::Json& config)>& change = {}) const {
    fs::create_directories(folder_ / "model");
    for (const auto& entry : fs::directory_iterator(Golden(golden))) {
      fs::copy(entry.path(), folder_ / "model" / entry.path().filename(), fs::copy_options::overwrite_existing);
    }
    if (change) {
      io::Json config = io::ReadJson(folder_ / "model/config.json");
      change(config);
      WriteFile(folder_ / "model/config.json", config.dump());
    }
    return Path("model");
  }
  // A golden model with one huge weight.
  std::string Huge(const std::string& tensor, float weight) const {
    fs::create_directories(folder_ / "model");
    WriteChanged("timm_vit", folder_ / "model", [&](const std::string& name, Tensor<float>& values) {
      if (name == tensor) values[0] = weight;
    });
    return Path("model");
  }

  const std::string photo_ = Digits() + "/7-black.png";
  const TemporaryFolder folder_;
};

int Count(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST_F(StrangeModels, HeadsAreGivenOrRefused) {
  for (const char* golden : {"hf_vit", "timm_vit"}) {
    const std::string model = Copy(golden), arguments = "classify --json -m " + model + " " + photo_;
    const CommandOutput whole = Qkv(arguments);
    ASSERT_EQ(whole.exit_code, 0) << whole.err;
    fs::remove(model + "/config.json");
    const CommandOutput bare = Qkv(arguments);
    EXPECT_EQ(bare.exit_code, 1);
    EXPECT_TRUE(Contains(bare.err, "--heads N")) << bare.err;
    EXPECT_EQ(bare.out, "");
    const CommandOutput unknown = Qkv(arguments + " --heads 3");
    EXPECT_EQ(unknown.exit_code, 1);
    EXPECT_TRUE(Contains(unknown.err, "--mean and --std")) << unknown.err;
    EXPECT_EQ(Qkv(arguments + " --heads 3 --mean 0.5 --std 0.5").exit_code, 0);
    const CommandOutput bytes = Qkv(arguments + " --heads 3 --mean 123,117,104 --std 58,57,57");
    EXPECT_EQ(bytes.exit_code, 1);
    EXPECT_TRUE(Contains(bytes.err, "--mean: 123") && Contains(bytes.err, "divide by 255")) << bytes.err;
    const CommandOutput written = Qkv("convert -m " + model + " --heads 3 --mean 0.5 --std 0.4 -o " + Path(golden));
    EXPECT_EQ(written.exit_code, 0);
    EXPECT_EQ(Count(written.err, "activation gelu"), 1) << written.err;
    const CommandOutput contradicted = Qkv("info --heads 2 -m " + Golden(golden));
    EXPECT_TRUE(Contains(contradicted.err, "contradicts")) << contradicted.err;
  }
  EXPECT_EQ(Qkv("classify --heads 3 " + photo_).exit_code, 1);
  EXPECT_EQ(Qkv("qk plan --width 64 --heads 2").exit_code, 0);
}

TEST_F(StrangeModels, PublishedModelsAreOpenedByNameAndConverted) {
  const std::string weights = Golden("known/virchow2") + "/pytorch_model.bin";
  const std::string given =
      " --architecture virchow2 --set embed_dim=24 --set depth=1 --set num_heads=3 --set img_size=42";
  const CommandOutput unknown = Qkv("embed -m " + weights + " " + photo_);
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_TRUE(Contains(unknown.err, "--architecture")) << unknown.err;
  const CommandOutput known = Qkv("embed --pool cls+mean -m " + weights + given + " " + photo_);
  ASSERT_EQ(known.exit_code, 0) << known.err;
  EXPECT_EQ(JsonLines(known.out)[0]["embedding"].size(), 48u);
  // What the authors take is the default, said once.
  const CommandOutput silent = Qkv("embed -m " + weights + given + " " + photo_);
  EXPECT_EQ(silent.out, known.out);
  EXPECT_EQ(Count(silent.err, "--pool cls+mean, as its authors"), 1) << silent.err;
  EXPECT_TRUE(Contains(Qkv("info -m " + weights + given).out, "vectors are cls+mean"));
  EXPECT_EQ(JsonLines(Qkv("embed --pool model -m " + weights + given + " " + photo_).out)[0]["embedding"].size(), 24u);
  ASSERT_EQ(Qkv("convert -m " + weights + given + " -o " + Path("out")).exit_code, 0);
  EXPECT_EQ(Qkv("embed --pool cls+mean -m " + Path("out") + " " + photo_).out, known.out);
}

TEST_F(StrangeModels, AssumptionsAreToldByEveryCommandOnce) {
  const std::string model = Copy("hf_vit");
  fs::remove(model + "/preprocessor_config.json");
  for (const std::string& command :
       {"classify " + photo_, "embed " + photo_, "attend -o " + Path("a.png") + " " + photo_,
        "run -o " + Path("a.safetensors") + " " + photo_, "convert -o " + Path("converted"), std::string("qk certify"),
        std::string("bench --seconds 0")}) {
    const size_t space = command.find(' ');
    const CommandOutput said =
        Qkv(command == "qk certify" ? "qk certify -m " + model
                                    : command.substr(0, space) + " -m " + model + command.substr(space));
    EXPECT_EQ(Count(said.err, "assumed: no preprocessor_config.json"), 1) << command << ": " << said.err;
  }
  EXPECT_EQ(Qkv("classify " + photo_).err.find("assumed"), std::string::npos);
  EXPECT_EQ(Qkv("classify -m " + Golden("timm_vit") + " " + photo_).err, "");
}

TEST_F(StrangeModels, WhatIsNotFiniteNamesImageAndBlock) {
  const std::string model = Huge("blocks.0.mlp.fc2.bias", 3e38f);
  const fs::path data = folder_ / "data/3";
  fs::create_directories(data);
  fs::copy_file(photo_, data / "7.png");
  for (const auto& [command, image] : {std::pair{"classify " + photo_, photo_},
                                       {"classify --json " + Digits(), Digits()},
                                       {"embed " + photo_, photo_},
                                       {"embed --pool tokens -o " + Path("e.npy") + " " + photo_, photo_},
                                       {"evaluate " + Path("data"), Path("data")},
                                       {"bench --seconds 0 --batch 1", "random input 0"},
                                       {"attend -o " + Path("a.npy") + " " + photo_, photo_}}) {
    const size_t space = command.find(' ');
    const CommandOutput said = Qkv(command.substr(0, space) + " -m " + model + command.substr(space));
    EXPECT_EQ(said.exit_code, 1) << command;
    EXPECT_TRUE(Contains(said.err, "block 1 of 0 to 1")) << command << ": " << said.err;
    EXPECT_TRUE(Contains(said.err, image)) << command << ": " << said.err;
    EXPECT_FALSE(Contains(said.out, "nan")) << command << ": " << said.out;
  }
  EXPECT_FALSE(fs::exists(folder_ / "e.npy"));
  EXPECT_FALSE(fs::exists(folder_ / "a.npy"));
  // What the model gives is what `run` is for.
  const CommandOutput run = Qkv("run --hidden all -m " + model + " -o " + Path("run.safetensors") + " " + photo_);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(Contains(run.err, "warning: \"logits\" holds NaN")) << run.err;
  EXPECT_FALSE(Contains(run.err, "warning: \"hidden.1\"")) << run.err;
}

// Before, LayerNorm made a row of zeros of it, and all images got the same answer.
TEST_F(StrangeModels, AHugeHiddenLayerIsNoAnswer) {
  const CommandOutput said = Qkv("classify -m " + Huge("blocks.0.mlp.fc1.bias", 1e30f) + " " + Digits());
  EXPECT_EQ(said.exit_code, 1);
  EXPECT_EQ(said.out, "");
}

// A label cannot end its line, nor move the cursor.
TEST_F(StrangeModels, LabelsAndNamesStayOnTheirLine) {
  const std::string label = "cat\n  99.90 %  dog\x1b[31m";
  const std::string model = Copy("timm_vit", [&](io::Json& config) {
    config["label_names"] = std::vector<std::string>(7, label);
    config["architecture"] = "vit_evil\x1b[2J\n99 %";
  });
  const fs::path data = folder_ / "data" / label.substr(0, 3);
  fs::create_directories(data);
  fs::copy_file(photo_, data / "7.png");
  for (const std::string& command : {"classify -m " + model + " " + photo_, "classify -m " + model + " " + Digits(),
                                     "info -m " + model, "bench --seconds 0 -m " + model, "qk plan -m " + model}) {
    const CommandOutput said = Qkv(command);
    EXPECT_FALSE(Contains(said.out + said.err, "\x1b")) << command << ": " << said.out << said.err;
    EXPECT_FALSE(Contains(said.out, "\n  99.90 %  dog")) << command << ": " << said.out;
  }
  EXPECT_TRUE(Contains(Qkv("classify -m " + model + " " + photo_).out, "cat\\x0a  99.90 %  dog\\x1b[31m"));
  // JSON has the label itself.
  const CommandOutput json = Qkv("classify --json -m " + model + " " + photo_);
  EXPECT_FALSE(Contains(json.out, "\x1b"));
  EXPECT_EQ(JsonLines(json.out).at(0)["top"][0]["label"], label);
}

// The names of the data set's classes, which are folders.
TEST_F(StrangeModels, EvaluateShowsClassesOnOneLine) {
  const std::string evil = "1\n2  100.00 %";
  const fs::path data = folder_ / "data" / evil;
  fs::create_directories(data);
  fs::copy_file(photo_, data / "7.png");
  const std::string model =
      Copy("timm_vit", [&](io::Json& config) { config["label_names"] = {evil, "b", "c", "d", "e", "f", "g"}; });
  const CommandOutput said = Qkv("evaluate -m " + model + " " + Path("data"));
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_FALSE(Contains(said.out, "\n2  100.00 %")) << said.out;
  EXPECT_TRUE(Contains(said.out, "1 2  100.00 %")) << said.out;
}

TEST_F(StrangeModels, EmbedListsEachNameOnOneLine) {
  fs::create_directories(folder_ / "in");
  const std::vector<std::string> names = {"a\nb.png", "back\\slash.png", "plain.png"};
  for (const std::string& name : names) fs::copy_file(photo_, folder_ / "in" / name);
  ASSERT_EQ(Qkv("embed -o " + Path("e.npy") + " " + Path("in")).exit_code, 0);
  EXPECT_EQ(io::ReadNpy<float>(folder_ / "e.npy").dim(0), 3);
  const std::string in = Path("in");
  EXPECT_EQ(ReadFile(folder_ / "e.paths.txt"),
            "\\" + in + "/a\\nb.png\n\\" + in + "/back\\\\slash.png\n" + in + "/plain.png\n");
}

TEST_F(StrangeModels, MaxMemoryIsALimit) {
  const CommandOutput refused = Qkv("classify --max-memory 100kB -m " + Golden("timm_vit") + " " + photo_);
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_TRUE(Contains(refused.err, "--max-memory")) << refused.err;
  EXPECT_EQ(Qkv("classify --max-memory 1GB -m " + Golden("timm_vit") + " " + photo_).exit_code, 0);
  EXPECT_EQ(Qkv("classify --max-memory lots " + photo_).exit_code, 2);
  EXPECT_EQ(Qkv("classify --max-memory 0 " + photo_).exit_code, 2);
}

TEST_F(StrangeModels, AFewKilobytesDoNotAskForMinutes) {
  const std::string model = Copy("timm_no_pos_embed", [](io::Json& config) {
    config["model_args"]["img_size"] = 8192;
    config["pretrained_cfg"]["input_size"] = {3, 8192, 8192};
  });
  for (const std::string& command :
       {"classify -m " + model + " " + photo_, "attend -o " + Path("a.png") + " -m " + model + " " + photo_,
        "embed -m " + model + " " + photo_, "bench -m " + model, "bench --layer -m " + model,
        "bench --attention -m " + model, "bench --stdin -m " + model + " </dev/null"}) {
    const CommandOutput said = Qkv(command, "ulimit -v 8000000; timeout 20");
    EXPECT_EQ(said.exit_code, 1) << command << ": " << said.err;
    EXPECT_TRUE(Contains(said.err, "may ask for")) << command << ": " << said.err;
  }
  EXPECT_EQ(Qkv("info -m " + model).exit_code, 0);
  EXPECT_EQ(Qkv("classify --size 32x32 -m " + model + " " + photo_).exit_code, 0);
}

TEST_F(StrangeModels, CacheTakesAValueOrNone) {
  const std::string arguments = "-m " + Golden("timm_vit") + " " + photo_, before = "QKV_CACHE=" + Path("cache");
  const CommandOutput first = Qkv("classify --cache " + arguments, before);  // the photo is no value of it
  EXPECT_EQ(first.exit_code, 0) << first.err;
  const CommandOutput verified = Qkv("classify --cache=verify " + arguments, before);
  EXPECT_EQ(verified.exit_code, 0) << verified.err;
  EXPECT_EQ(verified.err, "");
  EXPECT_EQ(verified.out, first.out);
  EXPECT_EQ(Qkv("classify --cache=maybe " + arguments, before).exit_code, 2);
}

// A text model with random weights.
void WriteTextModel(const fs::path& folder, float weight) {
  fs::create_directories(folder);
  model::SequenceConfig c;
  c.meaning = model::TokenMeaning::kByte, c.causal = true;
  c.length = 16, c.block.width = 16, c.depth = 2, c.block.attention.heads = 2, c.block.attention.head_width = 8;
  TensorSet tensors(model::TensorTable(c));
  tensors.at("blocks.0.mlp.fc2.bias")[0] = weight;
  tensors.Write(folder / "model.safetensors");
  WriteFile(folder / "config.json", model::ToJson(c).dump());
}

TEST_F(StrangeModels, APromptHasAnEnd) {
  WriteTextModel(folder_ / "text", 0.5f);
  const std::string arguments = "generate --tokens 3 --prompt - -m " + Path("text");
  const CommandOutput endless = Qkv(arguments + " </dev/zero", "ulimit -v 4000000; timeout 20");
  EXPECT_EQ(endless.exit_code, 1);
  EXPECT_TRUE(Contains(endless.err, "bytes; give its end alone")) << endless.err;
  const CommandOutput longer = Qkv(arguments, "head -c 1000 /dev/zero | tr '\\0' a |");
  EXPECT_EQ(longer.exit_code, 0) << longer.err;
  EXPECT_EQ(longer.out.size(), 1003u);
}

TEST_F(StrangeModels, ATextOfNoNumbersNamesTheBlock) {
  WriteTextModel(folder_ / "text", 3e38f);
  const CommandOutput said = Qkv("generate --prompt hello -m " + Path("text"));
  EXPECT_EQ(said.exit_code, 1);
  EXPECT_EQ(said.out, "hello");
  EXPECT_TRUE(Contains(said.err, "block 1 of 0 to 1")) << said.err;
}

}  // namespace
}  // namespace qkv
