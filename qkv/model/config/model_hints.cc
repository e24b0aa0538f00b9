#include "qkv/model/config/model_hints.h"

#include "qkv/core/error.h"

namespace qkv::model {

void AddSetting(std::string_view text, ModelHints* hints) {
  const size_t equals = text.find('=');
  Require(equals != text.npos && equals > 0, "--set: expected KEY=VALUE, got \"{}\"", text);
  const std::string key(text.substr(0, equals)), value(text.substr(equals + 1));
  Require(!hints->settings.contains(key), "--set: {} is given twice", key);
  io::Json parsed = io::Json::parse(value, nullptr, /*allow_exceptions=*/false);
  hints->settings[key] = parsed.is_discarded() ? io::Json(value) : std::move(parsed);
}

}  // namespace qkv::model
