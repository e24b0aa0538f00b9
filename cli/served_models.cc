#include "cli/served_models.h"

#include <filesystem>

#include "qkv/app/open/hub.h"
#include "qkv/app/open/parse.h"

namespace qkv::cli {

void AddServedModels(Command command, std::vector<std::string>* models, const std::string& help) {
  command.AddOption("-m,--model", models, help).Repeatable().TypeName("MODEL");
}

server::ModelEntry ParseServedModel(const std::string& text, const std::string& dtype) {
  server::ModelEntry entry;
  const size_t equals = text.find('=');
  const bool named = equals != text.npos && text.find('/') > equals;
  entry.path = named ? text.substr(equals + 1) : text;
  entry.id = named ? text.substr(0, equals) : app::IdOfPath(text);
  if (!dtype.empty()) entry.build.precision = app::ParsePrecision(dtype, "--dtype");
  std::error_code ignored;
  const std::filesystem::path found = app::FindModel(entry.path);
  if (found.empty()) entry.path.clear();  // the built-in model
  Require(found.empty() || std::filesystem::exists(found, ignored),
          "-m {}: no such file or folder, nor an id in the hub's cache", text);
  app::DescribeModel(entry);  // reports a broken model now, not at its first request
  return entry;
}

}  // namespace qkv::cli
