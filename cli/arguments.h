// The command line: commands, their options, and what is checked of them. CLI11 does the work; arguments.cc alone
// includes it, since its headers take longer to compile than a command does.
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

/// An option or a flag: a handle, as cheap to copy as a pointer. Methods return it, so that they can be chained.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option Required() const;
  /// What stands for a value in --help, such as "FILE".
  Option TypeName(std::string_view name) const;
  Option Description(std::string_view text) const;
  /// The heading in --help; an empty one hides the option.
  Option Group(std::string_view name) const;
  /// Shows the present value of the target as the default. Not for functions.
  Option ShowDefault() const;

  // What a value must be.
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
  /// check(text) says what is wrong with it, or nothing.
  Option Check(std::function<std::string(const std::string&)> check) const;

  // How many values there may be.
  Option TakeLast() const;                 // of several
  Option Repeatable() const;               // once for each value
  Option Separated(char delimiter) const;  // several in one word, and none in the words after it

  Option Excludes(Option other) const;
  Option Needs(Option other) const;

 private:
  CLI::Option* option_;
};

/// Where the value of an option goes: it must outlive the parsing. A function is called with the text.
using Target = std::variant<std::string*, int*, int64_t*, uint64_t*, double*, std::optional<double>*,
                            std::vector<std::string>*, std::function<void(const std::string&)>>;

/// A command, which has options or commands of its own: a handle, as cheap to copy as a pointer.
class Command {
 public:
  explicit Command(CLI::App* app) : app_(app) {}

  Command AddCommand(std::string_view name, std::string_view description) const;
  /// One of the commands must be given.
  void RequireCommand() const;
  /// Runs when the command was given, after all options are read.
  void Callback(std::function<void()> run) const;
  /// What --help says at the end.
  void Footer(std::string_view text) const;

  /// names: "-o,--output", or "PATH" of what has no dashes.
  Option AddOption(std::string_view names, Target target, std::string_view description) const;
  Option AddFlag(std::string_view names, bool* target, std::string_view description) const;
  /// A flag that may have one of these values, the first where none is given: --cache[=use|verify].
  Option AddFlag(std::string_view name, const std::vector<std::string>& values, std::string* target,
                 std::string_view description) const;
  /// names: "--shuffle,!--no-shuffle". use(count): how often it was given, negative for what stands after the "!".
  Option AddFlag(std::string_view names, std::function<void(int64_t)> use, std::string_view description) const;
  /// A number of bytes above 0, such as 1500 or 4GB.
  Option AddBytes(std::string_view names, std::function<void(uint64_t)> use, std::string_view description) const;

  /// One that was added before, such as "--batch".
  Option Find(std::string_view name) const;

 private:
  CLI::App* app_;
};

/// The whole command line.
class Program {
 public:
  Program(std::string_view name, std::string_view description, std::string_view version);
  ~Program();

  /// What all commands are added to.
  Command Root();
  /// Reads the arguments and runs the callbacks; what they throw passes through. Where there is nothing to run, prints
  /// why, and returns the exit status: 0 after --help and --version, 2 for wrong usage.
  std::optional<int> Parse(int argc, char** argv);

 private:
  std::unique_ptr<CLI::App> app_;
};

}  // namespace qkv::cli
