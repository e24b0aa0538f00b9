// The keys of a training run on the command line: what `qkv train` and `qkv ablate` share.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "qkv/train/config.h"
#include "qkv/train/dataset.h"

namespace qkv::cli {

/// An option for each of train::Keys(), in its group. What is given lands in *settings, which must outlive the command.
void AddTrainKeys(CLI::App& command, train::Settings* settings);

/// Those of the file, if there is one, and above them those of the command line.
train::Settings GivenSettings(const std::string& file, const train::Settings& command_line);

/// Where neither a preset nor a model is given: the preset that suits the first image that can be read; says so where
/// it `speaks`.
void ChoosePreset(const train::Dataset& dataset, bool speaks, train::Settings* given);

}  // namespace qkv::cli
