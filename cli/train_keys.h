// The keys of a training run on the command line: what `qkv train` and `qkv ablate` share.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cli/arguments.h"
#include "qkv/train/data/dataset.h"
#include "qkv/train/run/config.h"

namespace qkv::cli {

/// An option for each of train::Keys(), in its group. What is given lands in *settings, which must outlive the command.
/// hidden: keys that --help leaves out, since the command refuses them, with the reason.
void AddTrainKeys(Command command, train::Settings* settings, std::span<const std::string_view> hidden = {});

/// Those of the file, if there is one, and above them those of the command line.
train::Settings GivenSettings(const std::string& file, const train::Settings& command_line);

/// Where neither a preset nor a model is given: the preset that suits the first image that can be read; says so where
/// it `speaks`.
void ChoosePreset(const train::Dataset& dataset, bool speaks, train::Settings* given);
/// Where no preset is given: that of tasks, or of texts; a model that is trained on does not change it.
void ChoosePreset(const std::string& sequences, bool speaks, train::Settings* given);

}  // namespace qkv::cli
