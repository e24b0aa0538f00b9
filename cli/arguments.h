// The command line: commands, options and checks of their values, on top of CLI11. Commands do not include CLI11,
// whose headers take longer to compile than a command.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace qkv::cli {

/// An option or a flag: a handle that is as cheap to copy as a pointer. Methods return it and can be chained.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option Required() const;
  /// The placeholder of a value in --help, such as "FILE".
  Option TypeName(std::string_view name) const;
  Option Description(std::string_view text) const;
  /// The heading in --help; an empty one hides the option.
  Option Group(std::string_view name) const;
  /// Shows the current value of the target as the default. Not for functions.
  Option ShowDefault() const;

  // Checks of a value.
  Option Range(int low, int high) const { return Range(int64_t{low}, int64_t{high}); }
  Option Range(int64_t low, int64_t high) const;
  Option Range(double low, double high) const;
  Option NonNegative() const;
  Option OneOf(const std::vector<std::string>& names) const;
  template <typename Value>
  Option OneOf(const std::map<std::string, Value>& names) const {
    std::vector<std::string> keys;
    for (const auto& entry : names) keys.push_back(entry.first);
    return OneOf(keys);
  }
  /// check(text) returns the error, or an empty string.
  Option Check(std::function<std::string(const std::string&)> check) const;

  // Number of values.
  Option TakeLast() const;                 // the last of several
  Option Repeatable() const;               // given once for each value
  Option Separated(char delimiter) const;  // several in one argument; later arguments are not values

  Option Excludes(Option other) const;
  Option Needs(Option other) const;

 private:
  CLI::Option* option_;
};

/// Receives the value of an option; must outlive the parsing. A function is called with the text of each value.
using Target = std::variant<std::string*, int*, int64_t*, uint64_t*, double*, std::optional<double>*,
                            std::vector<std::string>*, std::function<void(const std::string&)>>;

/// A command with options or commands of its own: a handle that is as cheap to copy as a pointer.
class Command {
 public:
  explicit Command(CLI::App* app) : app_(app) {}

  Command AddCommand(std::string_view name, std::string_view description) const;
  /// Requires one of its commands.
  void RequireCommand() const;
  /// Called if the command is given, after all options are parsed.
  void Callback(std::function<void()> run) const;
  /// Text at the end of --help.
  void Footer(std::string_view text) const;

  /// names: "-o,--output", or "PATH" for a positional argument.
  Option AddOption(std::string_view names, Target target, std::string_view description) const;
  Option AddFlag(std::string_view names, bool* target, std::string_view description) const;
  /// A flag with an optional value, by default the first of these: --cache[=use|verify].
  Option AddFlag(std::string_view name, const std::vector<std::string>& values,
                 std::function<void(const std::string&)> use, std::string_view description) const;
  /// names: "--shuffle,!--no-shuffle". use(count) receives how often it was given, negative for the name after "!".
  Option AddFlag(std::string_view names, std::function<void(int64_t)> use, std::string_view description) const;
  /// A number of bytes above 0, such as 1500 or 4GB.
  Option AddBytes(std::string_view names, std::function<void(uint64_t)> use, std::string_view description) const;

  /// An option that was added before, such as "--batch".
  Option Find(std::string_view name) const;

 private:
  CLI::App* app_;
};

/// The whole command line.
class Program {
 public:
  Program(std::string_view name, std::string_view description, std::string_view version);
  ~Program();

  /// The command that all others are added to.
  Command Root();
  /// Parses the arguments and runs the callbacks; their exceptions pass through. If nothing is to be run, prints why
  /// and returns the exit status: 0 after --help and --version, 2 for wrong usage.
  std::optional<int> Parse(int argc, char** argv);

 private:
  std::unique_ptr<CLI::App> app_;
};

}  // namespace qkv::cli
