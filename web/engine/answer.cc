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

bool IsName(std::string_view text) { return !text.empty() && text.find('/') == text.npos && !text.starts_with('.'); }

// {"models": [{"id", "title", "file"}]}: models whose files are in a folder of their id; `file`: the weights among
// them, if they have none of the usual names.
std::vector<explore::ModelEntry> EntriesOf(const io::Json& json) {
  std::vector<explore::ModelEntry> entries;
  const io::Json models = json.value("models", io::Json::array());
  Require(models.is_array(), "add: \"models\" is a list");
  for (const io::Json& model : models) {
    const std::string id = explore::TextField(model, "id"), file = explore::TextField(model, "file", "");
    Require(IsName(id), "add: \"{}\" is no name of a folder", id);
    Require(file.empty() || IsName(file), "add: \"{}\" is no name of a file", file);
    const std::string path = std::string(kFolder) + id + (file.empty() ? "" : "/" + file);
    entries.push_back({id, path, explore::TextField(model, "title", id)});
  }
  return entries;
}

// Opens its files by themselves, so that one that cannot be opened is never offered. Throws Error.
void RequireOpens(const explore::ModelEntry& entry) {
  const explore::Packet answer = explore::Explorer({.models = {entry}}).Call("models", explore::Packet());
  const io::Json& facts = answer.json.at("models").at(0);
  if (facts.contains("error")) throw Error(facts.at("error").get<std::string>());
}

class Engine {
 public:
  explore::Packet Call(std::string_view name, const explore::Packet& request) {
    if (name == "add") {
      for (explore::ModelEntry& entry : EntriesOf(request.json)) {
        RequireOpens(entry);
        explorer_.Add(std::move(entry));
      }
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
