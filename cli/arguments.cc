#include "cli/arguments.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <iostream>
#include <iterator>
#include <type_traits>
#include <utility>

#include "cli/complete.h"
#include "cli/help.h"
#include "cli/man_page.h"
#include "cli/output.h"
#include "qkv/core/error.h"

namespace qkv::cli {
namespace {

// Number of edits from one word to the other: letters inserted, left out, replaced, or two neighbours exchanged.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> edits(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      size_t& best = edits[i][j];
      if (i == 0 || j == 0) {
        best = i + j;
        continue;
      }
      best = std::min({edits[i - 1][j] + 1, edits[i][j - 1] + 1, edits[i - 1][j - 1] + (a[i - 1] != b[j - 1] ? 1 : 0)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        best = std::min(best, edits[i - 2][j - 2] + 1);
    }
  }
  return edits[a.size()][b.size()];
}

// "; did you mean --width?", or nothing if no word is near.
std::string Suggestion(std::string_view word, const std::vector<std::string>& known, std::string_view prefix = "") {
  constexpr size_t kLongestWord = 64;
  if (word.size() > kLongestWord) return "";
  size_t least = std::max<size_t>(1, word.size() / 3) + 1;
  std::string_view best;
  for (const std::string& name : known) {
    if (const size_t edits = EditDistance(word, name); edits < least) least = edits, best = name;
  }
  return best.empty() ? "" : fmt::format("; did you mean {}{}?", prefix, best);
}

// "qkv qk inspect"
std::string FullName(const CLI::App* command) {
  const CLI::App* parent = command->get_parent();
  return parent == nullptr ? command->get_name() : FullName(parent) + " " + command->get_name();
}

// Names the word that is no command or no option; empty if there is none. The parser says only that something is left
// over, or that a command is missing.
std::string UnknownWord(const CLI::App* command, int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--") return "";
    if (word.starts_with("--") ||
        (word.size() == 2 && word[0] == '-' && std::isalpha(static_cast<unsigned char>(word[1])))) {
      const std::string name = word.substr(0, word.find('='));
      if (command->get_option_no_throw(name) != nullptr) continue;
      std::vector<std::string> known;
      for (const CLI::Option* option : command->get_options()) {
        for (const std::string& one : option->get_lnames()) known.push_back(one);
      }
      return FormatShown("{}: there is no option {}{}", FullName(command), name,
                         EscapedText{name.starts_with("--") ? Suggestion(name.substr(2), known, "--") : ""});
    }
    const auto commands = command->get_subcommands([](const CLI::App*) { return true; });
    if (commands.empty()) continue;
    std::vector<std::string> known;
    for (const CLI::App* one : commands) known.push_back(one->get_name());
    if (const auto next = std::ranges::find(known, word); next != known.end()) {
      command = commands[static_cast<size_t>(next - known.begin())];
      continue;
    }
    return FormatShown("{}: there is no command \"{}\"{}", FullName(command), word,
                       EscapedText{Suggestion(word, known)});
  }
  return "";
}

// "qkv help classify" as "qkv classify --help", "qkv version" and "qkv -V" as "qkv --version".
std::vector<std::string> CanonicalArguments(int argc, char** argv) {
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  if (words.empty()) return words;
  if (words[0] == "version" || words[0] == "-V") words[0] = "--version";
  if (words[0] == "help") {
    words.erase(words.begin());
    words.emplace_back("--help");
  }
  return words;
}

// What scripts ask: "__complete WORD..." the shells' completions, "__man_page" the build, which gives the page's own
// text on standard input. Empty for other arguments.
std::optional<std::string> AnswerScript(const CLI::App& root, int argc, char** argv) {
  const std::string_view asked = argc > 1 ? argv[1] : "";
  if (asked == "__complete") return ListCandidates(root, std::vector<std::string>(argv + 2, argv + argc));
  if (asked == "__man_page") return FillManPage(root, std::string(std::istreambuf_iterator<char>(std::cin), {}));
  return std::nullopt;
}

// A check whose name the parser does not add to the placeholder in --help.
CLI::Validator Silent(CLI::Validator check) { return check.description(""); }

// Removes the name of an option that both the parser and a check put before the message.
std::string WithoutRepetition(std::string message) {
  const size_t end = message.find(": ");
  if (end == message.npos) return message;
  const std::string name = message.substr(0, end + 2);
  return message.compare(name.size(), name.size(), name) == 0 ? message.substr(name.size()) : message;
}

}  // namespace

Option Option::Required() const {
  option_->required();
  return *this;
}

Option Option::TypeName(std::string_view name) const {
  option_->type_name(std::string(name));
  return *this;
}

Option Option::Description(std::string_view text) const {
  option_->description(std::string(text));
  return *this;
}

Option Option::Group(std::string_view name) const {
  option_->group(std::string(name));
  return *this;
}

Option Option::ShowDefault() const {
  option_->capture_default_str();
  return *this;
}

Option Option::Range(int64_t low, int64_t high) const {
  option_->check(Silent(CLI::Range(low, high)));
  return *this;
}

Option Option::Range(double low, double high) const {
  option_->check(Silent(CLI::Range(low, high)));
  return *this;
}

Option Option::NonNegative() const {
  option_->check(Silent(CLI::NonNegativeNumber));
  return *this;
}

Option Option::OneOf(const std::vector<std::string>& names) const {
  option_->check(Silent(CLI::IsMember(names)))->type_name(fmt::format("{}", fmt::join(names, "|")));
  return *this;
}

Option Option::Check(std::function<std::string(const std::string&)> check) const {
  option_->check(std::move(check));
  return *this;
}

Option Option::TakeLast() const {
  option_->take_last();
  return *this;
}

Option Option::Repeatable() const {
  option_->take_all()->allow_extra_args(false);
  return *this;
}

Option Option::Separated(char delimiter) const {
  option_->delimiter(delimiter)->allow_extra_args(false);
  return *this;
}

Option Option::Excludes(Option other) const {
  option_->excludes(other.option_);
  return *this;
}

Option Option::Needs(Option other) const {
  option_->needs(other.option_);
  return *this;
}

Command Command::AddCommand(std::string_view name, std::string_view description) const {
  CLI::App* command = app_->add_subcommand(std::string(name), std::string(description));
  command->footer("");  // not that of the commands above it
  return Command(command);
}

void Command::RequireCommand() const { app_->require_subcommand(1); }

void Command::Callback(std::function<void()> run) const { app_->callback(std::move(run)); }

void Command::Footer(std::string_view text) const { app_->footer(std::string(text)); }

Option Command::AddOption(std::string_view names, Target target, std::string_view description) const {
  const std::string name(names), text(description);
  return std::visit(
      [&](auto& to) {
        if constexpr (std::is_pointer_v<std::remove_reference_t<decltype(to)>>) {
          return Option(app_->add_option(name, *to, text));
        } else {
          const auto each = [to](const std::vector<std::string>& values) {
            for (const std::string& value : values) to(value);
          };
          return Option(app_->add_option_function<std::vector<std::string>>(name, each, text)
                            ->expected(1)
                            ->allow_extra_args(false));
        }
      },
      target);
}

Option Command::AddFlag(std::string_view names, bool* target, std::string_view description) const {
  return Option(app_->add_flag(std::string(names), *target, std::string(description)));
}

Option Command::AddFlag(std::string_view name, const std::vector<std::string>& values,
                        std::function<void(const std::string&)> use, std::string_view description) const {
  CLI::Option* option = app_->add_flag(fmt::format("{}{{{}}}", name, values.at(0)));
  option->description(std::string(description))
      ->check(Silent(CLI::IsMember(values)))
      ->option_text(fmt::format("[={}]", fmt::join(values, "|")));
  option->each(std::move(use));
  return Option(option);
}

Option Command::AddFlag(std::string_view names, std::function<void(int64_t)> use, std::string_view description) const {
  return Option(app_->add_flag_function(std::string(names), std::move(use), std::string(description)));
}

Option Command::AddBytes(std::string_view names, std::function<void(uint64_t)> use,
                         std::string_view description) const {
  CLI::Option* option = app_->add_option_function<uint64_t>(std::string(names), use, std::string(description));
  option->transform(Silent(CLI::AsSizeValue(/*kb_is_1000=*/true)))->check(Silent(CLI::PositiveNumber));
  return Option(option);
}

Option Command::Find(std::string_view name) const { return Option(app_->get_option(std::string(name))); }

Program::Program(std::string_view name, std::string_view description, std::string_view version)
    : app_(std::make_unique<CLI::App>(std::string(description), std::string(name))) {
  app_->formatter(MakeHelpFormatter());
  app_->set_version_flag("--version", std::string(version));
}

Program::~Program() = default;

Command Program::Root() { return Command(app_.get()); }

std::optional<int> Program::Parse(int argc, char** argv) {
  if (const auto answer = AnswerScript(*app_, argc, argv)) {
    PrintRaw(*answer);
    FlushOutput();
    return 0;
  }
  try {
    std::vector<std::string> words = CanonicalArguments(argc, argv);
    std::ranges::reverse(words);  // as the parser takes them
    app_->parse(std::move(words));
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    // CLI11's own codes start at 100; help and version are successes.
    const bool asks = argc > 1 && std::string_view(argv[1]) == "help";
    const std::string unknown = UnknownWord(app_.get(), asks ? argc - 1 : argc, asks ? argv + 1 : argv);
    const bool is_success = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success);
    if (is_success && !(asks && !unknown.empty())) return app_->exit(error) == 0 ? 0 : 2;
    const std::string reason = unknown.empty() ? WithoutRepetition(error.what()) : unknown;
    PrintMessage("{}\nRun with --help for more information.\n", EscapedText{reason});
    return 2;
  }
}

}  // namespace qkv::cli
