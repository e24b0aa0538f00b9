#include "cli/man_page.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <vector>

#include "cli/help.h"

namespace qkv::cli {
namespace {

constexpr std::string_view kOwnGroup = "Options";  // CLI11's, of options that no group was given

std::string EscapeMarks(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '_' || c == '*' || c == '\\') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

// "*-o*, *--output* _FILE_": what is typed as it stands in bold, placeholders underlined.
std::string Heading(const CLI::Option& option) {
  std::string heading, word;
  const auto end_word = [&] {
    const bool placeholder = std::ranges::any_of(word, [](unsigned char c) { return std::isupper(c); });
    if (!word.empty()) heading += fmt::format("{0}{1}{0}", placeholder ? '_' : '*', EscapeMarks(word));
    word.clear();
  };
  for (const char c : OptionName(option)) {
    if (c != ' ' && c != '|') {
      word += c;
      continue;
    }
    const bool comma = word.ends_with(',') && c == ' ';
    if (comma) word.pop_back();
    end_word();
    heading += comma ? ", " : std::string(1, c);
  }
  end_word();
  return heading;
}

std::string Sentence(const std::string& text) { return EscapeMarks(text) + (text.ends_with('.') ? "" : "."); }

// The groups of `train` below its own options, which are the keys of config.yaml.
std::string ListKeys(const CLI::App& train) {
  std::string list;
  for (const std::string& group : train.get_groups()) {
    if (group.empty() || group == kOwnGroup) continue;
    list += fmt::format("## {}\n\n", group);
    for (const CLI::Option* option : train.get_options([&](const CLI::Option* o) { return o->get_group() == group; })) {
      list += fmt::format("{}\n\t{}\n\n", Heading(*option), Sentence(OptionDescription(*option)));
    }
  }
  return list;
}

// Entries by their heading; in each the names of the commands by what they say.
using Entries = std::map<std::string, std::vector<std::pair<std::string, std::string>>>;

void AddEntries(const CLI::App& command, const std::string& above, std::string_view page, Entries* entries) {
  for (const CLI::App* one : command.get_subcommands([](const CLI::App*) { return true; })) {
    const std::string name = above + one->get_name();
    AddEntries(*one, name + " ", page, entries);
    const bool trains = name == "train" || name == "ablate";
    for (const CLI::Option* option : one->get_options([](const CLI::Option* o) { return o->nonpositional(); })) {
      const std::string& group = option->get_group();
      if (group.empty() || (trains && group != kOwnGroup)) continue;
      const std::string heading = Heading(*option), text = Sentence(OptionDescription(*option));
      if (page.find(fmt::format("*--{}*", option->get_lnames().at(0))) != page.npos) continue;
      auto& said = (*entries)[heading];
      const auto same = std::ranges::find(said, text, [](const auto& pair) { return pair.second; });
      if (same == said.end()) {
        said.emplace_back(fmt::format("*{}*", name), text);
      } else {
        same->first += fmt::format(", *{}*", name);
      }
    }
  }
}

// Options that have no heading in the page.
std::string ListOtherOptions(const CLI::App& root, std::string_view page) {
  std::string headings;
  for (size_t at = page.find("\n*-"); at != page.npos; at = page.find("\n*-", at + 1)) {
    headings += page.substr(at, page.find('\n', at + 1) - at);
  }
  Entries entries;
  AddEntries(root, "", headings, &entries);
  std::string list;
  for (const auto& [heading, said] : entries) {
    list += heading + "\n";
    for (const auto& [commands, text] : said) list += fmt::format("\t{}: {}\n", commands, text);
    list += "\n";
  }
  return list;
}

}  // namespace

std::string FillManPage(const CLI::App& root, std::string_view page) {
  std::string filled(page);
  const auto fill = [&](std::string_view mark, const std::string& text) {
    const size_t at = filled.find(mark);
    if (at != filled.npos) filled.replace(at, mark.size(), text);
  };
  fill("@options@\n\n", ListOtherOptions(root, page));
  fill("@keys@\n\n", ListKeys(*root.get_subcommand("train")));
  return filled;
}

}  // namespace qkv::cli
