#include "qkv/model/checkpoint/complete_config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string_view>
#include <vector>

#include "qkv/model/families/describe.h"
#include "qkv/model/families/families.h"
#include "qkv/model/families/known_models.h"
#include "qkv/model/families/timm_registry.h"

namespace qkv::model {
namespace {

constexpr const char* kArguments = "model_args";

// config.json of an architecture, by the table of known models or timm's registry.
ConfigFiles FilesOfArchitecture(const std::string& name) {
  ConfigFiles files;
  if (std::optional<KnownModel> known = FindKnownModel(name)) {
    Require(known->refused.empty(), "--architecture {}: {}", name, known->refused);
    files.config = std::move(known->config);
    files.preprocessor = std::move(known->preprocessor);
    return files;
  }
  TimmArchitecture registered;
  Require(FindTimmArchitecture(name, &registered),
          "--architecture {}: neither a name of timm's registry nor one of the known models: {}", name,
          fmt::join(KnownModelNames(), ", "));
  files.config = {{"architecture", name}, {"pretrained_cfg", registered.pretrained_cfg}};
  return files;
}

std::string BaseName(const io::Json& config) {
  const std::string name = io::Fields(config, "config.json").String("architecture", "");
  return name.substr(0, name.find('.'));
}

// The model's files override the registry's defaults.
void CompleteByArchitecture(const ModelHints& given, ConfigFiles* files) {
  ConfigFiles known = FilesOfArchitecture(given.architecture);
  const io::Json& stored = files->config;
  const bool hugging_face = known.config.contains("model_type");
  Require(stored.is_object() && stored.contains("model_type") == hugging_face &&
              (hugging_face ? stored["model_type"] == known.config["model_type"]
                            : BaseName(stored) == BaseName(known.config)),
          "--architecture {} contradicts the model's config.json, which says {}; leave it out", given.architecture,
          stored.value("architecture", stored.value("model_type", "another")));
  if (!hugging_face && !stored.contains("pretrained_cfg") && stored.contains("input_size")) {
    known.config.erase("pretrained_cfg");  // an old file, which has its keys at the top level
  }
  known.config.merge_patch(stored);
  files->config = std::move(known.config);
  if (!files->preprocessor) files->preprocessor = std::move(known.preprocessor);
}

// Files for tensors without any other information.
ConfigFiles FilesFromTensors(const io::TensorSet& tensors, const ModelHints& given) {
  Description description = DescribeFromTensors(tensors, given);
  Translation translation = Translate(description, description.config.family);
  ConfigFiles files;
  files.config = std::move(translation.config);
  if (!translation.preprocessor.is_null()) files.preprocessor = std::move(translation.preprocessor);
  files.assumptions = std::move(description.assumptions);
  if (!given.normalise()) {
    files.unknown_preprocess =
        "no file says how its images are normalised, and models of the same shape differ in it; give --mean and --std "
        "(0.5 and 0.5; or ImageNet's 0.485,0.456,0.406 and 0.229,0.224,0.225), or --architecture";
  }
  return files;
}

bool Contains(std::span<const std::string_view> keys, std::string_view key) {
  return std::ranges::find(keys, key) != keys.end();
}

void AddSettings(const FamilyRow& row, std::vector<std::string_view>* names) {
  names->insert(names->end(), row.settings.begin(), row.settings.end());
  names->insert(names->end(), row.preprocess_settings.begin(), row.preprocess_settings.end());
}

// Puts the caller's settings into config.json. Returns those of the preprocessing.
io::Json ApplySettings(const io::Json& settings, const FamilyRow& row, io::Json* config) {
  io::Json of_images = io::Json::object();
  for (const auto& [key, value] : settings.items()) {
    if (Contains(row.preprocess_settings, key)) {
      of_images[key] = value;
    } else if (Contains(row.settings, key)) {
      row.arguments(*config)[key] = value;
    } else if (Contains(kOwnKeys, key)) {
      (*config)[key] = value;
    } else {
      std::vector<std::string_view> known;
      AddSettings(row, &known);
      known.insert(known.end(), std::begin(kOwnKeys), std::end(kOwnKeys));
      Fail("--set {}: expected one of {}; change others in the model's config.json", key, fmt::join(known, ", "));
    }
  }
  return of_images;
}

// For tensors without a config.json: they give the number of classes and the size of images, which in a fine-tuned
// model may differ from its architecture's.
void FitToTensors(const io::TensorSet& tensors, const io::Json& settings, ConfigFiles* files) {
  if (!settings.contains("num_classes")) {
    const io::StoredTensor* head = tensors.Find("head.weight");
    const int64_t classes = head && head->shape.rank() > 0 ? head->shape[0] : 0;
    files->config["num_classes"] = files->config["pretrained_cfg"]["num_classes"] = classes;
  }
  const io::StoredTensor* table = tensors.Find("pos_embed");
  const VitConfig c = Describe(files->config, {}, tensors).config;
  if (settings.contains("img_size") || c.positions != Positions::kLearned || !table || table->shape.rank() != 3) return;
  const int64_t patches = table->shape[1] - c.position_prefix;
  const int64_t side = std::lround(std::sqrt(static_cast<double>(std::max<int64_t>(0, patches))));
  if (patches == c.patches() || side * side != patches) return;
  files->config[kArguments]["img_size"] = {side * c.patch_height, side * c.patch_width};
  files->config["pretrained_cfg"]["input_size"] = {c.channels, side * c.patch_height, side * c.patch_width};
  files->assumptions.push_back(fmt::format("images of {}x{}: its positions are those of {}x{} patches",
                                           side * c.patch_height, side * c.patch_width, side, side));
}

}  // namespace

ConfigFiles CompleteConfig(ConfigFiles files, const io::TensorSet& tensors, const ModelHints& given) {
  const bool bare = files.config.is_null(), named = !given.architecture.empty();
  if (bare) {
    files = named ? FilesOfArchitecture(given.architecture) : FilesFromTensors(tensors, given);
  } else if (named) {
    CompleteByArchitecture(given, &files);
  }
  files.stored = !bare && !given.configure();
  if (!given.configure()) return files;
  const FamilyRow& row = FindFamily(io::Fields(files.config, "config.json"));
  const io::Json of_images = ApplySettings(given.settings, row, &files.config);
  if (bare && named && !files.config.contains("model_type")) FitToTensors(tensors, given.settings, &files);
  if (of_images.empty() && given.mean.empty() && given.std.empty() && given.crop_pct == 0) return files;
  Require(row.change_preprocess != nullptr, "--mean, --std, --crop-pct: {}'s files say how images are prepared",
          Name(row.library));
  row.change_preprocess(Describe(files.config, files.preprocessor, tensors), of_images, given, &files);
  return files;
}

std::vector<std::string_view> SettingNames() {
  std::vector<std::string_view> names(std::begin(kOwnKeys), std::end(kOwnKeys));
  for (const FamilyRow* row : Families()) AddSettings(*row, &names);
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());  // Clang 14 lacks the one of ranges
  return names;
}

}  // namespace qkv::model
