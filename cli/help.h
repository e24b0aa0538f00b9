// How options are named and described, in --help and in the man page. For files that include CLI11.
#pragma once

#include <memory>
#include <string>

namespace CLI {
class FormatterBase;
class Option;
}  // namespace CLI

namespace qkv::cli {

/// The layout of --help.
std::shared_ptr<CLI::FormatterBase> MakeHelpFormatter();

/// "-o, --output FILE"
std::string OptionName(const CLI::Option& option);
/// The description with its facts: "File to write (required)".
std::string OptionDescription(const CLI::Option& option);
/// True if one option, or the positional argument, takes any number of values.
bool TakesSeveral(const CLI::Option& option);

}  // namespace qkv::cli
