// What may stand at the end of a command line, from the tree of commands: for the shells' scripts in cli/completions.
#pragma once

#include <span>
#include <string>

namespace CLI {
class App;
}  // namespace CLI

namespace qkv::cli {

/// Candidates for the last of `words`, a command line without the program's name up to the cursor; the last word may be
/// empty. A line each: the candidate, and behind a tab what it means; or ":files" or ":folders" where names of those
/// may stand. bash splits --name=value at the equals sign, which is then a word, and replaces the value alone.
std::string ListCandidates(const CLI::App& root, std::span<const std::string> words);

}  // namespace qkv::cli
