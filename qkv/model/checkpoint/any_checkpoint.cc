#include "qkv/model/checkpoint/any_checkpoint.h"

#include <optional>
#include <system_error>
#include <utility>

#include "qkv/model/checkpoint/model_folder.h"
#include "qkv/model/checkpoint/open_once.h"
#include "qkv/model/checkpoint/opening.h"

namespace qkv::model {
namespace {

struct Opened {
  AnyCheckpoint checkpoint;
  std::shared_ptr<const io::TensorSet> tensors;
};

template <typename T>
Opened Keep(T checkpoint) {
  std::shared_ptr<const io::TensorSet> tensors = checkpoint.tensors;
  return {std::move(checkpoint), std::move(tensors)};
}

Opened OpenOnce(const std::filesystem::path& path, const ModelHints& given) {
  std::optional<io::Json> config = ReadOptionalJson(ConfigFile(path));
  std::error_code ignored;
  switch (config ? KindOf(*config, std::filesystem::is_directory(path, ignored)) : ModelKind::kImages) {
    case ModelKind::kTexts:
      return Keep(OpenTextsOnce(path, std::move(config)));
    case ModelKind::kSequences:
      return Keep(OpenSequencesOnce(path, std::move(config)));
    default:
      return Keep(OpenImagesOnce(path, std::move(config), given));
  }
}

}  // namespace

AnyCheckpoint OpenAnyCheckpoint(const std::filesystem::path& path, const ModelHints& given) {
  RequireModelExists(path);
  return OpenWhole(path, [&] { return OpenOnce(path, given); }).checkpoint;
}

ModelKind KindOf(const AnyCheckpoint& checkpoint) {
  if (std::holds_alternative<TextCheckpoint>(checkpoint)) return ModelKind::kTexts;
  if (std::holds_alternative<SequenceCheckpoint>(checkpoint)) return ModelKind::kSequences;
  return std::get<Checkpoint>(checkpoint).description.decoder ? ModelKind::kCaptions : ModelKind::kImages;
}

const io::TensorSet& TensorsOf(const AnyCheckpoint& checkpoint) {
  return std::visit([](const auto& opened) -> const io::TensorSet& { return *opened.tensors; }, checkpoint);
}

const std::string& SourceOf(const AnyCheckpoint& checkpoint) {
  return std::visit([](const auto& opened) -> const std::string& { return opened.source; }, checkpoint);
}

}  // namespace qkv::model
