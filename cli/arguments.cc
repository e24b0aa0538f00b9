#include "cli/arguments.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <type_traits>
#include <utility>

namespace qkv::cli {
namespace {

// Shows the values of a flag, such as `--cache[=use|verify]`, instead of CLI11's notation for its default:
// `--cache{use}`,
// `--no-flip{false}`.
class HelpFormatter : public CLI::Formatter {
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    std::string name = Formatter::make_option_name(option, is_positional);
    for (size_t at; (at = name.find('{')) != name.npos;) name.erase(at, name.find('}', at) + 1 - at);
    return ShowsValues(option) ? name + option->get_option_text() : name;
  }
  std::string make_option_opts(const CLI::Option* option) const override {
    return ShowsValues(option) ? std::string() : Formatter::make_option_opts(option);
  }
  static bool ShowsValues(const CLI::Option* option) { return option->get_option_text().starts_with("[="); }
};

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
  option_->check(CLI::Range(low, high));
  return *this;
}

Option Option::Range(double low, double high) const {
  option_->check(CLI::Range(low, high));
  return *this;
}

Option Option::NonNegative() const {
  option_->check(CLI::NonNegativeNumber);
  return *this;
}

Option Option::OneOf(const std::vector<std::string>& names) const {
  option_->check(CLI::IsMember(names));
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
  return Command(app_->add_subcommand(std::string(name), std::string(description)));
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
          return Option(app_->add_option_function<std::string>(name, to, text));
        }
      },
      target);
}

Option Command::AddFlag(std::string_view names, bool* target, std::string_view description) const {
  return Option(app_->add_flag(std::string(names), *target, std::string(description)));
}

Option Command::AddFlag(std::string_view name, const std::vector<std::string>& values, std::string* target,
                        std::string_view description) const {
  CLI::Option* option = app_->add_flag(fmt::format("{}{{{}}}", name, values.at(0)), *target, std::string(description));
  option->check(CLI::IsMember(values))->option_text(fmt::format("[={}]", fmt::join(values, "|")));
  return Option(option);
}

Option Command::AddFlag(std::string_view names, std::function<void(int64_t)> use, std::string_view description) const {
  return Option(app_->add_flag_function(std::string(names), std::move(use), std::string(description)));
}

Option Command::AddBytes(std::string_view names, std::function<void(uint64_t)> use,
                         std::string_view description) const {
  CLI::Option* option = app_->add_option_function<uint64_t>(std::string(names), use, std::string(description));
  option->transform(CLI::AsSizeValue(/*kb_is_1000=*/true))->check(CLI::PositiveNumber);
  return Option(option);
}

Option Command::Find(std::string_view name) const { return Option(app_->get_option(std::string(name))); }

Program::Program(std::string_view name, std::string_view description, std::string_view version)
    : app_(std::make_unique<CLI::App>(std::string(description), std::string(name))) {
  app_->formatter(std::make_shared<HelpFormatter>());
  app_->set_version_flag("--version", std::string(version));
}

Program::~Program() = default;

Command Program::Root() { return Command(app_.get()); }

std::optional<int> Program::Parse(int argc, char** argv) {
  try {
    app_->parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    // CLI11's own codes start at 100; help and version are successes.
    return app_->exit(error) == 0 ? 0 : 2;
  }
}

}  // namespace qkv::cli
