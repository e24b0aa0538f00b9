#include "cli/train_keys.h"

#include <fmt/format.h>

#include <algorithm>

#include "qkv/core/error.h"

namespace qkv::cli {
namespace {

// "N", "X", "HxW", …: the placeholder of a value.
std::string TypeName(const train::Key& key) {
  if (!key.choices.empty()) return std::string(key.choices);
  constexpr const char* kNames[] = {"", "N", "X", "PATH", "HxW", "X,…"};  // in the order of Key::member's types
  return key.name == "model" ? "MODEL" : kNames[key.member.index()];
}

// --NAME and --no-NAME
Option AddSwitch(Command command, const train::Key& key, train::Settings* settings) {
  const std::string name(key.name);
  return command.AddFlag(
      fmt::format("--{0},!--no-{0}", name),
      [settings, name](int64_t count) { (*settings)[name] = count > 0 ? "true" : "false"; }, key.help);
}

// --NAME VALUE. Keys live as long as the program.
Option AddKey(Command command, const train::Key& key, train::Settings* settings) {
  const std::string name(key.name);
  return command
      .AddOption((name == "model" ? "-m,--" : "--") + name,
                 [settings, name](const std::string& value) { (*settings)[name] = value; }, key.help)
      .TypeName(TypeName(key))
      .TakeLast()
      .Check([&key](const std::string& text) -> std::string {
        try {
          train::TrainConfig ignored;
          train::Set(key, text, /*where=*/"", &ignored);  // the parser of options puts the name in front
          return {};
        } catch (const Error& error) {
          return error.what();
        }
      });
}

}  // namespace

void AddTrainKeys(Command command, train::Settings* settings, std::span<const std::string_view> hidden) {
  for (const train::Key& key : train::Keys()) {
    const Option option = train::IsSwitch(key) ? AddSwitch(command, key, settings) : AddKey(command, key, settings);
    option.Group(std::ranges::find(hidden, key.name) == hidden.end() ? key.group : std::string_view());
  }
}

train::Settings CollectSettings(const std::string& file, const train::Settings& command_line) {
  return train::MergeSettings(file.empty() ? train::Settings() : train::ReadSettings(file), command_line);
}

}  // namespace qkv::cli
