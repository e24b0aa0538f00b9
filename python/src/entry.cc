#include "python/src/entry.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string_view>
#include <vector>

#include "python/src/objects.h"
#include "qkv/app/open/hub.h"
#include "qkv/model/checkpoint/complete_config.h"

namespace qkv::python {

app::ModelEntry EntryOf(const std::string& path, const nb::dict& hints) {
  app::ModelEntry entry{.path = app::FindModel(path).string()};
  for (const auto& [key, value] : hints) {
    const std::string name = nb::cast<std::string>(key);
    if (name == "heads") {
      entry.given.heads = ValueOf<int64_t>(value, "heads", "a whole number");
    } else if (name == "architecture") {
      entry.given.architecture = ValueOf<std::string>(value, "architecture", "a name");
    } else if (name == "state_dict") {
      entry.given.state_dict = ValueOf<std::string>(value, "state_dict", "a key");
    } else if (name == "mean") {
      entry.given.mean = ValueOf<std::vector<double>>(value, "mean", "numbers");
    } else if (name == "std") {
      entry.given.std = ValueOf<std::vector<double>>(value, "std", "numbers");
    } else if (name == "crop_pct") {
      entry.given.crop_pct = ValueOf<double>(value, "crop_pct", "a number");
    } else {
      entry.given.settings[name] = ToJson(value, name.c_str());
    }
  }
  return entry;
}

nb::list HintNames() {
  nb::list names;
  for (const char* name : {"heads", "architecture", "state_dict", "mean", "std", "crop_pct"})
    names.append(nb::str(name));
  for (const std::string_view name : model::SettingNames()) names.append(nb::str(name.data(), name.size()));
  return names;
}

}  // namespace qkv::python
