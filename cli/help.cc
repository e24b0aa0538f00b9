#include "cli/help.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/wrap.h"

namespace qkv::cli {
namespace {

std::string Placeholder(const std::string& type) {
  return type == "INT" || type == "UINT" ? "N" : type == "FLOAT" ? "X" : type;
}

// The --help of a command: its own options first, wrapped, worded as in the man page rather than by the parser.
class HelpFormatter : public CLI::FormatterBase {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode /*mode*/) const override {
    const size_t columns = TerminalColumns();
    std::string help = Wrap(app->get_description(), columns) + "\n" + Wrap(Usage(app, name), columns, kIndent) + "\n";
    const auto add = [&](const std::string& title, const auto& entries) {
      if (!entries.empty()) help += fmt::format("\n{}:\n", title);
      for (const auto& [left, right] : entries) help += Entry(left, right, columns);
    };
    add("Arguments", Entries(app, [](const CLI::Option* o) { return o->get_positional() && !o->get_group().empty(); }));
    for (const std::string& group : app->get_groups()) {
      if (group.empty()) continue;
      add(group, Entries(app, [&](const CLI::Option* o) { return o->nonpositional() && o->get_group() == group; }));
    }
    std::vector<std::pair<std::string, std::string>> commands;
    for (const CLI::App* one : app->get_subcommands([](const CLI::App*) { return true; })) {
      commands.emplace_back(one->get_name(), one->get_description());
    }
    add("Subcommands", commands);
    return help + Footer(app->get_footer(), columns);
  }

 private:
  static constexpr size_t kIndent = 2, kColumn = 30;  // of names, and of descriptions

  static std::string Entry(const std::string& left, const std::string& right, size_t columns) {
    std::string text = std::string(kIndent, ' ') + Wrap(left, columns, kIndent + 6, kIndent);
    const size_t width = CountColumns(std::string_view(text).substr(text.rfind('\n') + 1));
    if (text.find('\n') == text.npos && width + 2 <= kColumn) {
      text.append(kColumn - width, ' ');
    } else {
      text += '\n' + std::string(kColumn, ' ');
    }
    return text + Wrap(right, columns, kColumn, kColumn) + "\n";
  }

  // Names and descriptions of the options that `belongs` takes; --quiet and --help, which most commands have, are last.
  template <typename Belongs>
  static std::vector<std::pair<std::string, std::string>> Entries(const CLI::App* app, Belongs belongs) {
    std::vector<const CLI::Option*> options = app->get_options(belongs);
    std::stable_partition(options.begin(), options.end(),
                          [](const CLI::Option* o) { return !o->check_lname("quiet") && !o->check_lname("help"); });
    std::vector<std::pair<std::string, std::string>> entries;
    for (const CLI::Option* option : options) entries.emplace_back(OptionName(*option), OptionDescription(*option));
    return entries;
  }

  static std::string Usage(const CLI::App* app, const std::string& name) {
    std::string usage = fmt::format("Usage: {} [OPTIONS]", name);
    for (const CLI::Option* option : app->get_options([](const CLI::Option* o) { return o->get_positional(); })) {
      usage += fmt::format(fmt::runtime(option->get_required() ? " {}" : " [{}]"), OptionName(*option));
    }
    return app->get_require_subcommand_min() > 0 ? usage + " SUBCOMMAND" : usage;
  }

  // An indented line is a command to copy or a term, and is not broken; what follows two spaces describes it.
  static std::string FooterLine(std::string_view line, size_t columns) {
    if (!line.starts_with(' ')) return Wrap(line, columns);
    const size_t end = line.find("  ", line.find_first_not_of(' '));
    if (end == line.npos) return std::string(line);
    const size_t at = line.find_first_not_of(' ', end), column = CountColumns(line.substr(0, at));
    constexpr size_t kNarrow = 25, kBelow = 6;
    if (column + kNarrow <= columns)
      return std::string(line.substr(0, at)) + Wrap(line.substr(at), columns, column, column);
    return std::string(line.substr(0, end)) + "\n" + std::string(kBelow, ' ') +
           Wrap(line.substr(at), columns, kBelow, kBelow);
  }

  static std::string Footer(std::string_view text, size_t columns) {
    std::string footer;
    while (!text.empty()) {
      const size_t end = std::min(text.find('\n'), text.size());
      footer += FooterLine(text.substr(0, end), columns) + "\n";
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    return footer.empty() ? footer : "\n" + footer;
  }
};

}  // namespace

bool TakesSeveral(const CLI::Option& option) {
  const bool repeats =
      option.get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll && option.get_expected_max() > 0;
  return (repeats || option.get_expected_max() >= CLI::detail::expected_max_vector_size) &&
         option.get_delimiter() == '\0';
}

std::string OptionName(const CLI::Option& option) {
  std::string name = option.get_name(option.get_positional(), option.nonpositional());
  for (size_t at; (at = name.find('{')) != name.npos;) name.erase(at, name.find('}', at) + 1 - at);  // --no-flip{false}
  for (size_t at = name.find(','); at != name.npos; at = name.find(',', at + 1)) name.insert(at + 1, " ");
  if (const std::string text = option.get_option_text(); !text.empty()) return name + text;  // --cache[=use|verify]
  const std::string type = option.nonpositional() ? Placeholder(option.get_type_name()) : "";
  if (option.get_type_size() != 0 && !type.empty()) name += " " + type;
  return TakesSeveral(option) ? name + "..." : name;
}

std::string OptionDescription(const CLI::Option& option) {
  const std::string text = option.get_description();
  const auto named = [](const std::set<CLI::Option*>& others) {
    std::vector<std::string> names;
    for (const CLI::Option* other : others) names.push_back(other->get_name());
    std::ranges::sort(names);
    return fmt::format("{}", fmt::join(names, ", "));
  };
  std::vector<std::string> facts;
  if (option.get_required() && option.nonpositional()) facts.emplace_back("required");
  if (!option.get_default_str().empty() && option.get_option_text().empty()) {
    facts.push_back("default: " + option.get_default_str());
  }
  if (!option.get_needs().empty()) facts.push_back("only with " + named(option.get_needs()));
  if (!option.get_excludes().empty()) facts.push_back("not with " + named(option.get_excludes()));
  return facts.empty() ? text : fmt::format("{} ({})", text, fmt::join(facts, "; "));
}

std::shared_ptr<CLI::FormatterBase> MakeHelpFormatter() { return std::make_shared<HelpFormatter>(); }

}  // namespace qkv::cli
