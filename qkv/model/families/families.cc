#include "qkv/model/families/families.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "qkv/core/error.h"
#include "qkv/model/families/text_family.h"
#include "qkv/model/layout/tensor_names.h"

namespace qkv::model {
namespace {

// The first match applies. vit-pytorch precedes timm: both have the key "architecture". Beit and Eva precede timm's
// other models, and BEiT, EoMT, CLIP, SigLIP, DINOv3 and YOLOS the rows that do not check for their features.
constexpr const FamilyRow* kFamilies[] = {&kVitPytorch, &kTimmBeit, &kTimmEva,  &kTimmVit,  &kHfBeit,
                                          &kHfCaption,  &kHfEomt,   &kHfDinov3, &kHfYolos,  &kHfVitRelatives,
                                          &kHfClip,     &kHfSiglip, &kHfVit,    &kHfDinov2, &kOpenClip};

constexpr Library kLibraries[] = {{Family::kTimm, "timm", "timm"},
                                  {Family::kHuggingFace, "Hugging Face", "hf"},
                                  {Family::kVitPytorch, "vit-pytorch", "vit-pytorch"},
                                  {Family::kOpenClip, "open_clip", "open-clip", /*written=*/false}};

std::vector<std::string_view> ModelTypes() {
  std::vector<std::string_view> types;
  for (const FamilyRow* row : kFamilies) types.insert(types.end(), row->model_types.begin(), row->model_types.end());
  return types;
}

// Text models have a vocabulary, and nothing of images.
bool LooksLikeText(const io::Fields& config) {
  const auto has = [&](const char* key) { return config.Has(key); };
  constexpr const char* kOfImages[] = {"vision_config", "image_size", "patch_size", "num_channels", "encoder"};
  return has("vocab_size") && std::ranges::none_of(kOfImages, has);
}

[[noreturn]] void RefuseModelType(const io::Fields& config) {
  const bool text = LooksLikeText(config);
  Fail("config.json: model_type \"{}\" is not supported; supported {} models: {}", config.String("model_type", ""),
       text ? "text" : "image", text ? TextModelTypes() : fmt::format("{}", fmt::join(ModelTypes(), ", ")));
}

const FamilyRow* FindRow(const auto& fits) {
  const auto row = std::ranges::find_if(kFamilies, [&](const FamilyRow* family) { return fits(*family); });
  return row == std::end(kFamilies) ? nullptr : *row;
}

}  // namespace

std::span<const Library> Libraries() { return kLibraries; }

std::span<const FamilyRow* const> Families() { return kFamilies; }

std::string_view Name(Family family) { return std::ranges::find(kLibraries, family, &Library::family)->name; }

const FamilyRow& FindFamily(const VitConfig& config) { return FindFamily(config, config.family); }

const FamilyRow& FindFamily(const VitConfig& config, Family library) {
  const FamilyRow* row =
      FindRow([&](const FamilyRow& family) { return family.library == library && family.holds(config); });
  Require(row != nullptr, "families: no row of {} holds {}", Name(library), config.architecture);
  return *row;
}

const FamilyRow& FindFamily(const io::Fields& config) {
  if (const FamilyRow* row = FindRow([&](const FamilyRow& family) { return family.recognises(config); })) return *row;
  if (config.Has("model_type")) RefuseModelType(config);
  Fail(
      "config.json: of no family that qkv knows: it has neither \"architecture\" (timm) nor \"model_type\" (Hugging "
      "Face) nor \"library_name\": \"vit-pytorch\" nor \"model_cfg\" (open_clip)");
}

const FamilyRow& FindFamily(const io::TensorSet& tensors) {
  if (const FamilyRow* row = FindRow([&](const FamilyRow& family) { return family.recognises_tensors(tensors); })) {
    return *row;
  }
  Fail(
      "checkpoint: its tensors are of no layout that qkv knows (timm, Hugging Face, vit-pytorch, open_clip); the first "
      "is "
      "\"{}\"",
      tensors.tensors().empty() ? "" : tensors.tensors()[0].name);
}

const Layout& GetLayout(const VitConfig& config) { return FindFamily(config).layout(config); }

Translation Translate(const Description& description, Family library) {
  return FindFamily(description.config, library).translate(description);
}

}  // namespace qkv::model
