#include "qkv/app/training/data_kind.h"

#include <filesystem>
#include <string_view>

#include "qkv/image/image.h"
#include "qkv/train/sequences/pairs.h"
#include "qkv/train/sequences/sequences.h"

namespace qkv::app {
namespace {

// The preset for the size of the first readable image.
std::string_view PresetFor(const train::Split& images) {
  if (images.files.empty()) {
    const Shape& shape = images.pixels.shape();
    return train::PresetFor(shape[1], shape[2], static_cast<int>(shape[3]));
  }
  for (const std::filesystem::path& file : images.files) {
    try {
      const image::Image image = image::DecodeFile(file);
      return train::PresetFor(image.height(), image.width(), image.channels() <= 2 ? 1 : 3);
    } catch (const Error&) {  // reported later, with all others
    }
  }
  Fail("train: none of {} images can be read; the first is {}", images.files.size(), images.files[0].string());
}

}  // namespace

DataKind KindOf(const std::string& data, const train::Settings& settings) {
  const auto preset = settings.find("preset");
  const bool images = preset != settings.end() && !train::IsForSequences(preset->second);
  if (train::IsPairs(data) && !images) return DataKind::kPairs;
  return train::IsSequenceData(data) ? DataKind::kSequences : DataKind::kImages;
}

void ChoosePreset(const train::Dataset& dataset, const Note& note, train::Settings* settings) {
  if (settings->contains("preset") || settings->contains("model")) return;
  const std::string_view preset = PresetFor(dataset.splits.at(0));
  (*settings)["preset"] = preset;
  Notify(note, fmt::format("preset {} for images of this size; the key preset takes another", preset));
}

void ChoosePreset(const std::string& sequences, train::Settings* settings) {
  const bool task = train::ParseTask(sequences).has_value();
  settings->try_emplace("preset", task ? "seq-task" : train::IsPairs(sequences) ? "seq-pairs" : "seq-text");
}

}  // namespace qkv::app
