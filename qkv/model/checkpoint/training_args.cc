#include "qkv/model/checkpoint/training_args.h"

#ifndef __EMSCRIPTEN__
#include <yaml-cpp/yaml.h>
#endif

#include <array>
#include <string_view>
#include <utility>

#include "qkv/core/error.h"
#include "qkv/core/file.h"
#include "qkv/io/fields.h"
#include "qkv/io/weights.h"
#include "qkv/model/families/timm_registry.h"

namespace qkv::model {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxYamlBytes = 1 << 20;
#ifdef __EMSCRIPTEN__
// A browser has no folder of a training run.
io::Json ReadArgsFile(const fs::path&) { return io::Json::object(); }
#else
constexpr int kMostNested = 3;
constexpr size_t kMostValues = 1 << 14;  // of 64 bytes; aliases can stand for more than the file holds

// A scalar as JSON has it, or as text; lists and dictionaries of them.
io::Json FromYaml(const YAML::Node& node, int depth, size_t* values) {
  *values += 1 + (node.IsScalar() ? node.Scalar().size() / 64 : 0);
  Require(*values <= kMostValues, "more than {} values", kMostValues);
  if (node.IsScalar()) {
    const std::string text = node.Scalar();
    const io::Json plain = io::Json::parse(text, nullptr, /*allow_exceptions=*/false);
    const bool quoted = node.Tag() == "!";
    return quoted || plain.is_discarded() || plain.is_structured() ? io::Json(text) : plain;
  }
  if (depth == 0 || !(node.IsSequence() || node.IsMap())) return nullptr;
  io::Json value = node.IsMap() ? io::Json::object() : io::Json::array();
  for (const auto& item : node) {
    if (node.IsMap()) {
      if (item.first.IsScalar()) value[item.first.Scalar()] = FromYaml(item.second, depth - 1, values);
    } else {
      value.push_back(FromYaml(item, depth - 1, values));
    }
  }
  return value;
}

io::Json ReadArgsFile(const fs::path& file) {
  if (!FileExists(file)) return io::Json::object();
  const std::string text = ReadFile(file);
  Require(text.size() <= kMaxYamlBytes, "{}: {} bytes, expected the arguments of a training script", file.string(),
          text.size());
  try {
    const YAML::Node root = YAML::Load(text);
    Require(root.IsMap(), "expected keys and values in YAML");
    size_t values = 0;
    return FromYaml(root, kMostNested, &values);
  } catch (const std::exception& error) {
    Fail("{}: {}", file.string(), EscapedText{error.what()});
  }
}
#endif

// The arguments of both places without those that are null or empty.
io::Json ReadArgs(const fs::path& folder, const io::TensorSet& tensors) {
  io::Json args = io::Json::object();
  const auto add = [&](const io::Json& more) {
    if (!more.is_object()) return;
    for (const auto& [key, value] : more.items()) {
      if (!value.is_null() && value != "" && !args.contains(key)) args[key] = value;
    }
  };
  if (const auto stored = tensors.metadata().find(io::kTrainingKey); stored != tensors.metadata().end()) {
    const io::Json training = io::ParseJson(stored->second, "the weights' file");
    add(training.value("args", io::Json()));
    if (training.contains("arch")) add({{"model", training["arch"]}});
  }
  add(ReadArgsFile(folder / kTrainingArgsFile));
  return args;
}

std::string ModelName(const io::Json& args) {
  if (!args.contains("model") || !args["model"].is_string()) return "";
  std::string name = args["model"].get<std::string>();
  for (const std::string_view hub : {"hf-hub:", "hf_hub:", "timm/"}) {
    if (name.starts_with(hub)) name.erase(0, hub.size());
  }
  return name;
}

std::vector<double> NumbersIn(const io::Json& value) {
  std::vector<double> numbers;
  for (const io::Json& item : value) {
    if (!item.is_number()) return {};
    numbers.push_back(item.get<double>());
  }
  return numbers;
}

}  // namespace

ModelHints CompleteByTraining(const fs::path& folder, const io::TensorSet& tensors, ModelHints given,
                              std::vector<std::string>* assumptions) {
  const io::Json args = ReadArgs(folder, tensors);
  const std::string model = ModelName(args);
  TimmArchitecture registered;
  // Other scripts store an "arch" or a "model" unknown to timm, and arguments with other meanings.
  if (!FindTimmArchitecture(model, &registered)) return given;
  std::string taken;
  const auto note = [&](const char* key) { taken += fmt::format(", {} {}", key, args[key].dump()); };
  if (given.architecture.empty()) {
    given.architecture = model;
    note("model");
  }
  const auto set = [&](const char* key, const std::string& as) {
    if (!args.contains(key) || given.settings.contains(as)) return;
    given.settings[as] = args[key];
    note(key);
  };
  set("gp", "global_pool");
  set("interpolation", "interpolation");
  set("crop_mode", "crop_mode");
  const io::Json more = args.value("model_kwargs", io::Json());
  // A table of positions determines the size that it is for, unless the model takes any.
  const auto is_dynamic = [](const io::Json& from) {
    return from.is_object() && from.contains("dynamic_img_size") && from["dynamic_img_size"] == true;
  };
  if (tensors.Find("pos_embed") == nullptr) {
    set("img_size", "img_size");
  } else if ((is_dynamic(registered.args) || is_dynamic(more)) && args.contains("img_size") &&
             args["img_size"].is_number_integer() && !given.settings.contains("input_size")) {
    given.settings["dynamic_img_size"] = true;
    given.settings["input_size"] = {args.value("in_chans", 3), args["img_size"], args["img_size"]};
    note("img_size");
  }
  if (more.is_object() && !more.empty()) {
    for (const auto& [key, value] : more.items()) {
      const bool of_training = key.find("drop") != key.npos || key.find("init") != key.npos;
      if (key == "init_values" || !of_training) given.settings.emplace(key, value);
    }
    note("model_kwargs");
  }
  for (const auto& [key, to] : {std::pair("mean", &given.mean), std::pair("std", &given.std)}) {
    if (!to->empty() || !args.contains(key) || !args[key].is_array()) continue;
    *to = NumbersIn(args[key]);
    note(key);
  }
  if (given.crop_pct == 0 && args.contains("crop_pct") && args["crop_pct"].is_number()) {
    given.crop_pct = args["crop_pct"].get<double>();
    note("crop_pct");
  }
  if (!taken.empty()) assumptions->push_back(fmt::format("as its training script was called: {}", taken.substr(2)));
  return given;
}

}  // namespace qkv::model
