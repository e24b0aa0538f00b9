#include "qkv/model/checkpoint/checkpoint.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include "qkv/io/safetensors.h"
#include "qkv/io/weights.h"
#include "qkv/model/checkpoint/bind.h"
#include "qkv/model/checkpoint/complete_config.h"
#include "qkv/model/checkpoint/model_folder.h"
#include "qkv/model/checkpoint/open_once.h"
#include "qkv/model/checkpoint/opening.h"
#include "qkv/model/checkpoint/training_args.h"
#include "qkv/model/families/describe.h"
#include "qkv/model/families/hf_common.h"
#include "qkv/model/layout/bound_tensor.h"

namespace qkv::model {
namespace fs = std::filesystem;

namespace {

// Begins names of some libraries, too: stripped only where all have it.
constexpr std::string_view kEncoderPrefix[] = {"encoder."};
// EVA-CLIP's own files: an image encoder under this prefix beside a text encoder.
constexpr std::string_view kEvaClipPrefix[] = {"visual."};
constexpr const char* kEvaClipTensor = "visual.pos_embed";

// Ends of the name that every library gives the projection of patches.
constexpr std::string_view kPatches[] = {
    "patch_embed.proj.weight",           "patch_embeddings.projection.weight", "embeddings.patch_embeddings.weight",
    "embeddings.patch_embedding.weight", "to_patch_embedding.2.weight",        "conv1.weight"};

void BindAll(Checkpoint* checkpoint) {
  const Description& description = checkpoint->description;
  BoundTowers bound = BindTowers(description.config, description.text ? &*description.text : nullptr,
                                 description.decoder ? &*description.decoder : nullptr, *checkpoint->tensors);
  checkpoint->bound = std::move(bound.image);
  checkpoint->text = std::move(bound.text);
  checkpoint->decoder = std::move(bound.decoder);
}

// As in transformers: processor_config.json, which its version 5 writes, has priority over a left-over older file.
void ReadPreprocessor(const fs::path& folder, ConfigFiles* files) {
  const std::optional<io::Json> processor = ReadOptionalJson(folder / kProcessorFile);
  if (processor && processor->is_object() && processor->contains("image_processor") &&
      !(*processor)["image_processor"].is_null()) {
    files->preprocessor = (*processor)["image_processor"];
    files->names.preprocessor = fmt::format("{}: image_processor", kProcessorFile);
  } else {
    files->preprocessor = ReadOptionalJson(folder / kPreprocessorFile);
  }
}

}  // namespace

Checkpoint OpenImagesOnce(const fs::path& path, std::optional<io::Json> config, const ModelHints& given) {
  Checkpoint checkpoint;
  checkpoint.source = path.string();
  io::TensorSet tensors = io::OpenWeights(path, {given.state_dict});
  std::string stripped = tensors.StripPrefixes(kWrapperPrefixes, kPatches);
  if (const std::string encoder = tensors.StripPrefixes(kEncoderPrefix); !encoder.empty()) {
    stripped += encoder + tensors.StripPrefixes(kWrapperPrefixes, kPatches);
  }
  if (tensors.Find(kEvaClipTensor) != nullptr) stripped += tensors.StripPrefixes(kEvaClipPrefix, kPatches);
  checkpoint.tensors = std::make_shared<const io::TensorSet>(std::move(tensors));
  const fs::path folder = fs::is_directory(path) ? path : path.parent_path();
  try {
    RequirePlainWeights(*checkpoint.tensors);
    ConfigFiles files;
    ModelHints known = given;
    std::vector<std::string> of_training;
    if (config) {
      files.names.config = ConfigFile(path).filename().string();
      files.config = std::move(*config);
      ReadPreprocessor(folder, &files);
    } else {
      known = CompleteByTraining(folder, *checkpoint.tensors, given, &of_training);
    }
    files = CompleteConfig(std::move(files), *checkpoint.tensors, known);
    checkpoint.configuration = files.config.dump() + (files.preprocessor ? files.preprocessor->dump() : "");
    checkpoint.description = Describe(files.config, files.preprocessor, *checkpoint.tensors, files.names);
    if (std::optional<CaptionDecoder>& decoder = checkpoint.description.decoder) {
      if (const std::optional<io::Json> generation = ReadOptionalJson(folder / kGenerationFile)) {
        const io::Fields whole(files.config, kConfigFile), own(*generation, kGenerationFile);
        decoder->generation = ReadGenerationDefaults(whole, &own);
        io::Append(own.Settle({GenerationKeys(/*superseded=*/false), kHfKnownKeys}), &checkpoint.description.settings);
      }
    }
    RequireAgreement(checkpoint.description, given);
    checkpoint.description.unknown_preprocess = files.unknown_preprocess;
    checkpoint.description.assumptions.insert(checkpoint.description.assumptions.begin(), files.assumptions.begin(),
                                              files.assumptions.end());
    checkpoint.description.assumptions.insert(checkpoint.description.assumptions.begin(), of_training.begin(),
                                              of_training.end());
    checkpoint.files = std::move(files);
    BindAll(&checkpoint);
    std::vector<std::string>& assumptions = checkpoint.description.assumptions;
    if (std::string unknown = io::DescribeUnknown(checkpoint.description.settings); !unknown.empty()) {
      assumptions.push_back(std::move(unknown));
    }
    for (const std::string& remark : checkpoint.tensors->remarks()) {
      checkpoint.configuration += remark;  // other dictionaries of the file are other models, for the cache
      assumptions.push_back(remark.find("also has") == remark.npos ? remark : remark + "; --state-dict chooses");
    }
    if (!stripped.empty()) {
      assumptions.push_back(fmt::format("all tensors are named {}…, which a wrapper around the model added", stripped));
    }
  } catch (const Error& error) {
    const std::string message = error.what();
    if (message.find(folder.string()) != std::string::npos && !folder.empty()) throw;
    Fail("{}: {}", path.string(), EscapedText{message});
  }
  return checkpoint;
}

Checkpoint Checkpoint::Open(const fs::path& path, const ModelHints& given) {
  RequireModelExists(path);
  return OpenWhole(path, [&] { return OpenImagesOnce(path, ReadOptionalJson(ConfigFile(path)), given); });
}

Checkpoint Checkpoint::FromBytes(std::string_view config, std::span<const std::byte> weights, std::string_view where) {
  Checkpoint checkpoint;
  checkpoint.source = where;
  checkpoint.tensors = std::make_shared<const io::SafeTensors>(io::SafeTensors::FromBytes(weights, where));
  checkpoint.files = {.config = io::ParseJson(config, where), .stored = false};
  checkpoint.description = Describe(checkpoint.files.config, {}, *checkpoint.tensors);
  BindAll(&checkpoint);
  return checkpoint;
}

const BoundTensor* Checkpoint::Find(std::string_view canonical) const { return FindTensor(bound, canonical); }

}  // namespace qkv::model
