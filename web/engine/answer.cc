#include "web/engine/answer.h"

#include <memory>
#include <vector>

#include "qkv/core/error.h"
#include "qkv/explore/explorer.h"
#include "qkv/explore/fields.h"

namespace qkv::web {
namespace {

// Where the worker puts the files of models.
constexpr std::string_view kFolder = "/models/";

// {"models": [{"id", "title"}]}: models whose files are, or will be when they are asked for, in a folder of their id.
std::vector<explore::ModelEntry> EntriesOf(const io::Json& json) {
  std::vector<explore::ModelEntry> entries;
  const io::Json models = json.value("models", io::Json::array());
  Require(models.is_array(), "start: \"models\" is a list");
  for (const io::Json& model : models) {
    const std::string id = explore::TextField(model, "id");
    Require(!id.empty() && id.find('/') == id.npos && !id.starts_with('.'), "start: \"{}\" is no name of a folder", id);
    entries.push_back({id, std::string(kFolder) + id, explore::TextField(model, "title", id)});
  }
  return entries;
}

class Engine {
 public:
  explore::Packet Call(std::string_view name, const explore::Packet& request) {
    if (name == "add") {
      for (explore::ModelEntry& entry : EntriesOf(request.json)) explorer_.Add(std::move(entry));
      return {};
    }
    return explorer_.Call(name, request);
  }

 private:
  explore::Explorer explorer_{{.models = {{"digits", "", "Digits"}}}};
};

}  // namespace

std::string ErrorAnswer(std::string_view message) {
  explore::Packet answer;
  answer.json["error"] = {{"message", message}, {"type", "invalid_request"}};
  return explore::Encode(answer);
}

std::string Answer(std::string_view name, std::span<const std::byte> request) {
  static Engine engine;
  return explore::Encode(engine.Call(name, request.empty() ? explore::Packet() : explore::Decode(request)));
}

}  // namespace qkv::web
