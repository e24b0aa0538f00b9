#include "qkv/model/checkpoint/kind.h"

#include <optional>
#include <system_error>

#include "qkv/io/fields.h"
#include "qkv/model/checkpoint/model_folder.h"
#include "qkv/model/checkpoint/opening.h"
#include "qkv/model/config/sequence_config.h"
#include "qkv/model/families/hf_caption.h"
#include "qkv/model/families/text_family.h"

namespace qkv::model {

std::string_view Describe(ModelKind kind) {
  switch (kind) {
    case ModelKind::kImages:
      return "an image model";
    case ModelKind::kCaptions:
      return "an image encoder with a decoder of texts";
    case ModelKind::kTexts:
      return "a text model";
    case ModelKind::kSequences:
      return "a sequence model of qkv train";
  }
  return "";
}

ModelKind KindOf(const io::Json& config, bool is_folder) {
  if (!config.is_object()) return ModelKind::kImages;
  if (DescribesSequenceModel(config)) return is_folder ? ModelKind::kSequences : ModelKind::kImages;
  const io::Fields fields(config, kConfigFile);
  if (FindTextFamily(fields) != nullptr) return ModelKind::kTexts;
  return IsHfCaption(fields) ? ModelKind::kCaptions : ModelKind::kImages;
}

ModelKind FindKind(const std::filesystem::path& path) {
  const std::optional<io::Json> config = ReadOptionalJson(ConfigFile(path));
  std::error_code ignored;  // whoever opens a missing path reports it
  return config ? KindOf(*config, std::filesystem::is_directory(path, ignored)) : ModelKind::kImages;
}

}  // namespace qkv::model
