// The parts of the man page that say what --help says, from the tree of commands.
#pragma once

#include <string>
#include <string_view>

namespace CLI {
class App;
}  // namespace CLI

namespace qkv::cli {

/// The source of the man page (scdoc) from docs/qkv.1.scd, where a line "@options@" stands for all options that have no
/// heading there, and "@keys@" for the keys of training.
std::string FillManPage(const CLI::App& root, std::string_view page);

}  // namespace qkv::cli
