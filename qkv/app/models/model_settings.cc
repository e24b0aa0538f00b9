#include "qkv/app/models/model_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "qkv/app/open/hub.h"
#include "qkv/app/open/kinds.h"
#include "qkv/app/open/open.h"
#include "qkv/app/texts/language.h"
#include "qkv/model/checkpoint/sequence_checkpoint.h"
#include "qkv/model/checkpoint/text_checkpoint.h"
#include "qkv/model/sequence/sequence_model.h"
#include "qkv/text/tokenizer.h"

namespace qkv::app {

std::vector<io::Setting> ReadSettings(const std::string& path, const model::ModelHints& given) {
  const ModelKind kind = KindOf(path);
  if (path.empty() || kind == ModelKind::kSequences) return {};
  std::vector<io::Setting> settings;
  bool reads_texts = true;
  if (kind == ModelKind::kTexts) {
    settings = model::TextCheckpoint::Open(FindModel(path)).description.settings;
  } else {
    const model::Checkpoint checkpoint = OpenCheckpoint({.path = path, .given = given});
    settings = checkpoint.description.settings;
    reads_texts = checkpoint.description.text || checkpoint.description.decoder;
  }
  if (reads_texts) io::Append(text::Tokenizer::Open(FolderOf(FindModel(path))).settings(), &settings);
  return settings;
}

std::vector<std::string> SettingsLines(const std::vector<io::Setting>& settings) {
  std::vector<std::string> lines;
  std::string_view file;
  size_t widest = 0;
  for (const io::Setting& setting : settings) widest = std::max(widest, setting.key.size());
  for (const io::Setting& setting : settings) {
    if (setting.file != file) lines.push_back(setting.file);
    file = setting.file;
    lines.push_back(fmt::format("  {:<13} {:<{}} {}", Name(setting.use), setting.key, widest, setting.value));
  }
  return lines;
}

io::Json SettingsJson(const std::vector<io::Setting>& settings) {
  io::Json list = io::Json::array();
  for (const io::Setting& s : settings) {
    list.push_back({{"file", s.file}, {"key", s.key}, {"value", s.value}, {"use", Name(s.use)}});
  }
  return list;
}

}  // namespace qkv::app
