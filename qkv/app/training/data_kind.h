// What kind of model data trains, and the preset that suits it.
#pragma once

#include <string>

#include "qkv/app/open/note.h"
#include "qkv/train/data/dataset.h"
#include "qkv/train/run/config.h"

namespace qkv::app {

enum class DataKind { kImages, kSequences, kPairs };

/// The kind of what a user names as training data. A preset of images among the settings decides for a table, which may
/// be one of paths or one of pairs.
DataKind KindOf(const std::string& data, const train::Settings& settings);

/// If neither a preset nor a model is given, chooses the preset for the size of the first readable image, and notes it.
void ChoosePreset(const train::Dataset& dataset, const Note& note, train::Settings* settings);
/// If no preset is given, chooses that of tasks, of texts or of pairs, also if a model is trained further.
void ChoosePreset(const std::string& sequences, train::Settings* settings);

}  // namespace qkv::app
