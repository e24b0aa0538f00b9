// Configurations whose fields have the wrong type: every field of every golden model's files in turn. What is refused
// names the field, and no message is that of the JSON library.
#include "qkv/io/fields.h"

#include <gtest/gtest.h>

#include "qkv/io/weights.h"
#include "qkv/model/checkpoint/checkpoint.h"
#include "qkv/model/checkpoint/model_folder.h"
#include "qkv/model/config/sequence_config.h"
#include "qkv/model/families/describe.h"
#include "qkv/model/families/families.h"
#include "qkv/model/layout/cost.h"
#include "qkv/model/layout/translation.h"
#include "tests/support/errors.h"
#include "tests/support/goldens.h"
#include "tests/support/sequences.h"

namespace qkv::model {
namespace {

namespace fs = std::filesystem;

const std::vector<io::Json> kWrong = {nullptr,
                                      true,
                                      -1,
                                      1.5,
                                      1e300,
                                      "text",
                                      "",
                                      io::Json::array(),
                                      io::Json::object(),
                                      io::Json::array({"a", nullptr, 1}),
                                      {{"a", 1}}};

// Calls f for each place in a document: of members and of elements, at any depth.
template <typename F>
void ForEachPlace(const io::Json& json, const io::Json::json_pointer& at, const F& f) {
  if (!at.empty()) f(at);
  if (json.is_object()) {
    for (const auto& [key, value] : json.items()) ForEachPlace(value, at / key, f);
  } else if (json.is_array()) {
    for (size_t i = 0; i < json.size(); ++i) ForEachPlace(json[i], at / i, f);
  }
}

// f gets the document with each place changed to each wrong value, and may throw Error alone, in qkv's words.
template <typename F>
void ChangeEachField(const io::Json& json, const F& f) {
  ForEachPlace(json, io::Json::json_pointer(), [&](const io::Json::json_pointer& at) {
    for (const io::Json& wrong : kWrong) {
      io::Json changed = json;
      changed[at] = wrong;
      try {
        f(changed);
      } catch (const Error& error) {
        const std::string message = error.what();
        EXPECT_EQ(message.find("json.exception"), std::string::npos) << at << " = " << wrong << ": " << message;
      } catch (const std::exception& error) {
        ADD_FAILURE() << at << " = " << wrong << ": " << error.what();
      }
    }
  });
}

class WrongTypes : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Golden, WrongTypes, testing::ValuesIn(GoldenNames()),
                         [](const auto& golden) { return golden.param; });

// What may be described is translated too: to the layouts that `qkv convert` writes.
void Use(const io::Json& config, const std::optional<io::Json>& processor, const io::TensorSet& tensors) {
  const Description description = Describe(config, processor, tensors);
  Flops(description.config);
  PreprocessForSize(description, 48, 48);
  for (const Family library : {Family::kTimm, Family::kHuggingFace}) {
    ErrorMessage([&] { Translate(description, library); });
  }
}

TEST_P(WrongTypes, AreRefusedInOurWords) {
  const fs::path folder = GoldenFolder(GetParam());
  const io::TensorSet tensors = io::OpenWeights(folder);
  const io::Json config = io::ReadJson(ConfigFile(folder));
  std::optional<io::Json> processor;
  if (fs::exists(folder / "preprocessor_config.json")) processor = io::ReadJson(folder / "preprocessor_config.json");
  ChangeEachField(config, [&](const io::Json& changed) { Use(changed, processor, tensors); });
  if (!processor) return;
  ChangeEachField(*processor, [&](const io::Json& changed) { Use(config, changed, tensors); });
}

TEST(WrongTypesOfSequences, AreRefusedInOurWords) {
  for (const NamedSequence& named : NamedSequences()) {
    ChangeEachField(ToJson(named.config), [](const io::Json& changed) { ParseSequenceConfig(changed); });
  }
}

TEST(WrongTypesOfAnIndex, AreRefusedInOurWords) {
  const TemporaryFolder folder;
  for (const auto& entry : fs::directory_iterator(GoldenFolder("hf_vit_sharded"))) {
    fs::copy(entry.path(), folder / entry.path().filename());
  }
  const fs::path index = folder / "model.safetensors.index.json";
  ChangeEachField(io::ReadJson(index), [&](const io::Json& changed) {
    WriteFile(index, changed.dump());
    io::SafeTensors::Open(folder.path());
  });
}

TEST(WrongTypes, NameTheField) {
  const io::Json config = io::ReadJson(GoldenFolder("hf_vit") / "config.json");
  const auto tensors = io::SafeTensors::Open(GoldenFolder("hf_vit"));
  for (const char* key : {"hidden_size", "num_hidden_layers", "layer_norm_eps", "hidden_act", "qkv_bias"}) {
    io::Json changed = config;
    changed[key] = io::Json::array();
    const std::string message = ErrorMessage([&] { Describe(changed, {}, tensors); });
    EXPECT_NE(message.find(fmt::format("\"{}\" is array", key)), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace qkv::model
