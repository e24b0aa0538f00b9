#include "qkv/model/checkpoint/kind.h"

#include <optional>
#include <system_error>

#include "qkv/io/fields.h"
#include "qkv/model/checkpoint/model_folder.h"
#include "qkv/model/checkpoint/opening.h"
#include "qkv/model/config/sequence_config.h"
#include "qkv/model/families/families.h"
#include "qkv/model/families/hf_caption.h"
#include "qkv/model/families/text_family.h"

namespace qkv::model {

ModelKind FindKind(const std::filesystem::path& path) {
  const std::optional<io::Json> config = ReadOptionalJson(ConfigFile(path));
  if (!config || !config->is_object()) return ModelKind::kImages;
  if (DescribesSequenceModel(*config)) {
    std::error_code ignored;  // whoever opens a missing path reports it
    return std::filesystem::is_directory(path, ignored) ? ModelKind::kSequences : ModelKind::kImages;
  }
  const io::Fields fields(*config, kConfigFile);
  if (FindTextFamily(fields) != nullptr) return ModelKind::kTexts;
  return IsHfCaption(fields) ? ModelKind::kCaptions : ModelKind::kImages;
}

void RequireFamily(const std::filesystem::path& path) {
  if (FindKind(path) != ModelKind::kImages) return;
  const std::filesystem::path file = ConfigFile(path);
  const std::optional<io::Json> config = ReadOptionalJson(file);
  if (config && config->is_object()) FindFamily(io::Fields(*config, file.string()));
}

}  // namespace qkv::model
