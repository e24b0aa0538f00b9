// The keys of a training run as options, for `qkv train` and `qkv ablate`.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cli/arguments.h"
#include "qkv/train/run/config.h"

namespace qkv::cli {

/// Adds an option for each of train::Keys(), in its group. Values are stored in *settings, which must outlive the
/// command. hidden: keys that --help leaves out because the command refuses them, each with the reason.
void AddTrainKeys(Command command, train::Settings* settings, std::span<const std::string_view> hidden = {});

/// The settings of the file, if there is one, overridden by those of the command line.
train::Settings CollectSettings(const std::string& file, const train::Settings& command_line);

}  // namespace qkv::cli
