#include "qkv/app/models/model_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace qkv::app {

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
