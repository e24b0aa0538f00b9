#include "qkv/app/slides/slide_state.h"

#include <algorithm>
#include <cmath>

#include "qkv/core/file.h"
#include "qkv/io/fields.h"

namespace qkv::app {
namespace {

std::optional<double> OptionalNumber(const io::Fields& fields, std::string_view key) {
  return fields.Has(key) ? std::optional(fields.Number(key, 0)) : std::nullopt;
}

std::map<std::string, double> Numbers(const io::Json& object, const std::string& where) {
  std::map<std::string, double> numbers;
  const io::Fields fields(object, where);
  for (const auto& [key, value] : object.items()) numbers[key] = fields.Number(key, 0);
  return numbers;
}

}  // namespace

io::Json ToJson(const SlideState& state) {
  io::Json json = {{"name", state.name}, {"path", state.path}};
  if (!state.error.empty()) json["error"] = state.error;
  if (!state.format.empty()) {
    json["format"] = state.format;
    json["reader"] = state.reader;
    json["width"] = state.width;
    json["height"] = state.height;
    json["tissue"] = state.tissue;
    json["tiles"] = state.tiles;
    json["damaged"] = state.damaged;
  }
  if (state.mpp) json["mpp"] = *state.mpp;
  if (state.magnification) json["magnification"] = *state.magnification;
  if (!state.problems.empty()) json["problems"] = state.problems;
  for (const auto& [step, seconds] : state.seconds) json["seconds"][step] = std::round(seconds * 1000) / 1000;
  if (!state.encoder.empty()) json["encoder"] = state.encoder;
  if (!state.answers.empty()) json["answers"] = state.answers;
  return json;
}

SlideState ParseSlideState(const io::Json& json, const std::string& where) {
  const io::Fields fields(json, where);
  SlideState state{.name = fields.String("name", ""),
                   .path = fields.String("path", ""),
                   .error = fields.String("error", ""),
                   .format = fields.String("format", ""),
                   .reader = fields.String("reader", ""),
                   .width = fields.Int("width", 0),
                   .height = fields.Int("height", 0),
                   .mpp = OptionalNumber(fields, "mpp"),
                   .magnification = OptionalNumber(fields, "magnification"),
                   .tissue = fields.Number("tissue", 0),
                   .tiles = fields.Int("tiles", 0),
                   .damaged = fields.Int("damaged", 0),
                   .encoder = fields.String("encoder", "")};
  Require(!state.name.empty(), "{}: expected what a slide is called (\"name\")", where);
  if (json.contains("problems")) {
    const io::Json& problems = json["problems"];
    Require(problems.is_array() && std::ranges::all_of(problems, [](const io::Json& text) { return text.is_string(); }),
            "{}: expected a list of texts in \"problems\"", where);
    state.problems = problems.get<std::vector<std::string>>();
  }
  if (json.contains("seconds")) state.seconds = Numbers(json["seconds"], where);
  if (json.contains("answers")) {
    Require(json["answers"].is_object(), "{}: expected an object in \"answers\"", where);
    for (const auto& [head, classes] : json["answers"].items()) state.answers[head] = Numbers(classes, where);
  }
  return state;
}

void SaveState(const SlideFolder& folder, const SlideState& state) {
  const std::filesystem::path file = folder.State(state.name);
  SlideFolder::Prepare(file);
  WriteFile(file, ToJson(state).dump(1, ' ', false, io::Json::error_handler_t::replace) + "\n");
}

SlideState ReadState(const SlideFolder& folder, const std::string& name) {
  const std::filesystem::path file = folder.State(name);
  return FileExists(file) ? ParseSlideState(io::ReadJson(file), file.string()) : SlideState();
}

std::vector<SlideState> ReadStates(const SlideFolder& folder) {
  std::vector<SlideState> states;
  if (!std::filesystem::is_directory(folder.States())) return states;
  for (const auto& entry : std::filesystem::directory_iterator(folder.States())) {
    if (entry.path().extension() != ".json") continue;
    states.push_back(ParseSlideState(io::ReadJson(entry.path()), entry.path().string()));
  }
  std::ranges::sort(states, {}, &SlideState::name);
  return states;
}

}  // namespace qkv::app
