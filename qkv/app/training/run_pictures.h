// The pictures in the folder of a run: curves of its log, and attention maps.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "qkv/app/training/maps.h"
#include "qkv/train/run/image_run.h"

namespace qkv::app {

/// The images whose attention the configuration asks to draw; none if it asks for none. Notes and errors as
/// ChooseMapImages.
std::optional<MapImages> MapImagesOf(const train::TrainConfig& config, const train::TrainingData& data, uint64_t seed,
                                     const Note& note);

/// The observer, which draws too: after each evaluation curves.svg and, of these images, maps/.
train::Observer WithPictures(train::Observer observer, const std::filesystem::path& folder,
                             std::optional<MapImages> maps);

}  // namespace qkv::app
