#include "cli/complete.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/help.h"
#include "qkv/model/families/known_models.h"

namespace qkv::cli {
namespace {

// A command line in front of the cursor.
struct BegunLine {
  const CLI::App* command;
  std::set<const CLI::Option*> given;
  const CLI::Option* open = nullptr;  // the next word is its value
  size_t positionals = 0;
  bool options = true;  // false behind "--"
};

BegunLine ReadLine(const CLI::App& root, std::span<const std::string> words) {
  BegunLine line{.command = &root, .given = {}};
  const CLI::Option* before = nullptr;  // that the last word is of
  for (const std::string& word : words) {
    const CLI::Option* const last = std::exchange(before, line.open);
    if (word == "=" && last != nullptr) {  // bash splits --name=value
      line.open = before = last;
    } else if (line.open != nullptr) {
      line.open = nullptr;
    } else if (line.options && word == "--") {
      line.options = false;
    } else if (line.options && word.size() > 1 && word[0] == '-') {
      const size_t equals = word.find('=');
      const CLI::Option* option = line.command->get_option_no_throw(word.substr(0, equals));
      if (option == nullptr) continue;
      line.given.insert(option);
      before = option;
      // --cache takes its value behind = alone.
      if (option->get_type_size() != 0 && equals == word.npos && option->get_option_text().empty()) line.open = option;
    } else if (const auto under =
                   line.command->get_subcommands([&](const CLI::App* one) { return one->check_name(word); });
               !under.empty()) {
      line.command = under.front();
    } else {
      ++line.positionals;
    }
  }
  return line;
}

std::vector<std::string> Split(std::string_view text, char delimiter) {
  std::vector<std::string> parts;
  for (size_t end; !text.empty(); text.remove_prefix(std::min(end + 1, text.size()))) {
    end = std::min(text.find(delimiter), text.size());
    parts.emplace_back(text.substr(0, end));
  }
  return parts;
}

// What may stand for a placeholder such as "FILE" or "fp32|bf16"; words with capitals are no values.
std::string ListValues(std::string_view placeholder, std::string_view before, std::string_view begun) {
  constexpr std::array<std::string_view, 10> kFileWords = {"FILE",  "PATH",  "MODEL", "DATA",    "IMAGE",
                                                           "PHOTO", "QUERY", "TEXTS", "VECTORS", "REFERENCE"};
  std::string list;
  for (const std::string& word : Split(placeholder, '|')) {
    if (word == "FOLDER" || word == "RUN") {
      list += ":folders\n";
    } else if (std::ranges::find(kFileWords, word) != kFileWords.end()) {
      list += ":files\n";
    } else if (word.starts_with(begun) && std::ranges::none_of(word, [](unsigned char c) { return std::isupper(c); })) {
      list += fmt::format("{}{}\n", before, word);
    }
  }
  return list;
}

std::string ListValuesOf(const CLI::Option& option, std::string_view before, std::string_view begun) {
  if (option.check_lname("architecture")) {
    return ListValues(fmt::format("{}", fmt::join(model::KnownModelNames(), "|")), before, begun);
  }
  std::string_view optional = option.get_option_text();  // "[=use|verify]"
  if (!optional.empty()) optional = optional.substr(2, optional.size() - 3);
  return ListValues(optional.empty() ? std::string_view(option.get_type_name()) : optional, before, begun);
}

// The first clause of a description.
std::string_view Meaning(std::string_view text) { return text.substr(0, std::min(text.find(';'), text.find(" ("))); }

std::string ListOptions(const BegunLine& line, std::string_view begun) {
  std::string list;
  for (const CLI::Option* option : line.command->get_options([](const CLI::Option* o) { return o->nonpositional(); })) {
    if (option->get_group().empty() || (line.given.contains(option) && !TakesSeveral(*option))) continue;
    std::vector<std::string> names;
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : names) {
      if (name.starts_with(begun)) list += fmt::format("{}\t{}\n", name, Meaning(option->get_description()));
    }
  }
  return list;
}

std::string ListCommands(const CLI::App& command, std::string_view begun) {
  std::string list;
  for (const CLI::App* one : command.get_subcommands([](const CLI::App*) { return true; })) {
    if (one->get_name().starts_with(begun)) list += fmt::format("{}\t{}\n", one->get_name(), one->get_description());
  }
  return list;
}

std::string ListArguments(const BegunLine& line, std::string_view begun) {
  const auto arguments = line.command->get_options([](const CLI::Option* o) { return o->get_positional(); });
  if (arguments.empty()) return "";
  const size_t last = arguments.size() - 1;
  if (line.positionals > last && !TakesSeveral(*arguments[last])) return "";
  const std::string name = arguments[std::min(line.positionals, last)]->get_name(/*positional=*/true);
  return ListValues(name == "TEXT" ? "FILE" : name, "", begun);  // words, or a file of texts
}

}  // namespace

std::string ListCandidates(const CLI::App& root, std::span<const std::string> words) {
  if (words.empty()) return "";
  std::string begun = words.back();
  words = words.first(words.size() - 1);
  // bash: --name = value
  const bool split = words.size() > 1 && words.back() == "=", cut = !words.empty() && begun == "=";
  if (split || cut) {
    const BegunLine line = ReadLine(root, words.first(words.size() - (split ? 2 : 1)));
    const CLI::Option* option = line.command->get_option_no_throw(words[words.size() - (split ? 2 : 1)]);
    return option == nullptr ? "" : ListValuesOf(*option, "", split ? begun : "");
  }
  const BegunLine line = ReadLine(root, words);
  if (line.open != nullptr) return ListValuesOf(*line.open, "", begun);
  if (line.options && begun.starts_with('-')) {
    const size_t equals = begun.find('=');
    if (equals == begun.npos) return ListOptions(line, begun);
    const CLI::Option* option = line.command->get_option_no_throw(begun.substr(0, equals));
    const std::string before = begun.substr(0, equals + 1);
    return option == nullptr ? "" : ListValuesOf(*option, before, begun.substr(equals + 1));
  }
  const std::string commands = ListCommands(*line.command, begun);
  return commands.empty() ? ListArguments(line, begun) : commands;
}

}  // namespace qkv::cli
