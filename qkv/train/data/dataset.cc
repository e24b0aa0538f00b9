#include "qkv/train/data/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <numeric>

#include "qkv/core/hash.h"
#include "qkv/core/rng.h"
#include "qkv/train/data/dataset_formats.h"

namespace qkv::train {
namespace {

namespace fs = std::filesystem;

// The first few names, quoted, for a message.
std::string JoinNames(const std::vector<std::string>& names) {
  constexpr size_t kShown = 5;
  std::string text;
  for (size_t i = 0; i < std::min(kShown, names.size()); ++i) {
    text += fmt::format("{}\"{}\"", text.empty() ? "" : ", ", names[i]);
  }
  if (names.size() > kShown) text += fmt::format(" and {} more", names.size() - kShown);
  return text;
}

std::vector<int64_t> CountLabels(const Split& split, size_t classes) {
  std::vector<int64_t> counts(classes);
  for (const int64_t label : split.labels) ++counts[static_cast<size_t>(label)];
  return counts;
}

std::vector<std::string> ClassesWithout(const std::vector<std::string>& classes, const Split& split) {
  const std::vector<int64_t> counts = CountLabels(split, classes.size());
  std::vector<std::string> names;
  for (size_t i = 0; i < classes.size(); ++i) {
    if (counts[i] == 0) names.push_back(classes[i]);
  }
  return names;
}

Split Select(const Split& split, const std::vector<size_t>& chosen, std::string name) {
  Split part{.name = std::move(name)};
  for (const size_t i : chosen) {
    part.labels.push_back(split.labels[i]);
    if (!split.files.empty()) part.files.push_back(split.files[i]);
  }
  if (split.files.empty()) {
    const View<const uint8_t> from = split.pixels;
    const int64_t bytes = from.stride(0);
    part.pixels = Tensor<uint8_t>::Uninitialised({part.size(), from.dim(1), from.dim(2), from.dim(3)});
    for (size_t i = 0; i < chosen.size(); ++i) {
      std::copy_n(from.row(static_cast<int64_t>(chosen[i])), bytes, part.pixels.view().row(static_cast<int64_t>(i)));
    }
  }
  return part;
}

// Holds out a share of each class, at least one image if the class has two.
void HoldOut(const Split& all, size_t classes, double share, uint64_t seed, TrainingData* data) {
  std::vector<std::vector<size_t>> members(classes);
  for (size_t i = 0; i < all.labels.size(); ++i) members[static_cast<size_t>(all.labels[i])].push_back(i);
  std::vector<size_t> train, held;
  for (size_t label = 0; label < classes; ++label) {
    std::vector<size_t>& of = members[label];
    Rng rng(MixSeed(seed, label));
    for (size_t i = of.size(); i > 1; --i) std::swap(of[i - 1], of[rng.Next() % i]);
    const auto wanted = static_cast<size_t>(std::llround(share * static_cast<double>(of.size())));
    const size_t count = of.size() < 2 ? 0 : std::clamp<size_t>(wanted, 1, of.size() - 1);
    held.insert(held.end(), of.begin(), of.begin() + static_cast<std::ptrdiff_t>(count));
    train.insert(train.end(), of.begin() + static_cast<std::ptrdiff_t>(count), of.end());
  }
  Require(!held.empty(), "no class has two images: there is nothing to validate on");
  std::ranges::sort(train);
  std::ranges::sort(held);
  data->train = Select(all, train, "train");
  data->validation = Select(all, held, "val");
  data->notes.push_back(fmt::format("there is no validation split: {} of {} images were drawn to be one (seed {})",
                                    held.size(), all.size(), seed));
}

}  // namespace

std::string Split::SampleName(int64_t i) const {
  return files.empty() ? fmt::format("{} image {}", name, i) : files[static_cast<size_t>(i)].string();
}

const Split* Dataset::Find(std::string_view name) const {
  const auto at = std::ranges::find(splits, name, &Split::name);
  return at == splits.end() ? nullptr : &*at;
}

void SortClasses(std::vector<std::string>& names) {
  const bool numbers = std::ranges::all_of(names, [](const std::string& name) {
    return !name.empty() && name.size() < 19 && std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
  });
  std::ranges::sort(names, [&](const std::string& a, const std::string& b) {
    if (!numbers) return a < b;
    const int64_t x = std::stoll(a), y = std::stoll(b);
    return x != y ? x < y : a < b;
  });
  names.erase(std::unique(names.begin(), names.end()), names.end());
}

int64_t FindLabel(const std::vector<std::string>& classes, std::string_view name) {
  return std::ranges::find(classes, name) - classes.begin();
}

std::string_view SplitNamed(std::string_view name) {
  std::string lower(name);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (lower == "train" || lower == "training") return "train";
  if (lower == "val" || lower == "valid" || lower == "validation") return "val";
  if (lower == "test" || lower == "testing") return "test";
  return {};
}

Dataset OpenDataset(const fs::path& path) {
  std::error_code error;
  const bool there = fs::exists(path, error);
  Require(there, "there is no {}{}{}", path.string(), error ? ": " : "", error ? error.message() : "");
  for (const auto open : {OpenCifar, OpenMnist, OpenCsv, OpenImageFolder}) {
    std::optional<Dataset> dataset = open(path);
    if (!dataset) continue;
    std::erase_if(dataset->splits, [](const Split& split) { return split.size() == 0; });
    Require(!dataset->splits.empty(), "{}: an {} without images", path.string(), dataset->format);
    return *std::move(dataset);
  }
  Fail(
      "{}: no data set: expected a folder with train/CLASS/… or CLASS/…, CIFAR's binary files or MNIST's IDX files, "
      "an archive of CIFAR's, or a .csv of paths and labels",
      path.string());
}

std::string Summary(const Dataset& dataset) {
  std::string parts;
  for (const Split& split : dataset.splits) {
    parts += fmt::format("{}{} ({} images)", parts.empty() ? "" : ", ", split.name, split.size());
  }
  return fmt::format("{}: {}, {} classes", dataset.format, parts, dataset.classes.size());
}

TrainingData ForTraining(Dataset dataset, double validation_share, uint64_t seed) {
  const std::vector<std::string>& classes = dataset.classes;
  Require(!classes.empty() && !dataset.splits.empty(), "a data set without images: there is nothing to learn from");
  Require(classes.size() != 1, "all images are of one class, \"{}\": there is nothing to learn from fewer than two",
          classes[0]);
  const auto find = [&](std::string_view name) { return const_cast<Split*>(dataset.Find(name)); };
  Split* train = find("train") ? find("train") : find("all");
  Require(train != nullptr, "there is no training split, only \"{}\"", dataset.splits[0].name);
  const std::vector<std::string> empty = ClassesWithout(classes, *train);
  Require(empty.empty(), "no training images of class {}", JoinNames(empty));

  TrainingData data;
  if (Split* held = find("val") ? find("val") : find("test")) {
    if (held->name == "test") {
      data.notes.push_back(
          "there is no validation split: the best model is chosen by the test split, so its accuracy there is no "
          "estimate for new images; a folder val/ would be taken instead");
    }
    data.train = std::move(*train);
    data.validation = std::move(*held);
    const std::vector<std::string> missing = ClassesWithout(classes, data.validation);
    if (!missing.empty()) data.notes.push_back(fmt::format("no validation images of class {}", JoinNames(missing)));
  } else {
    Require(validation_share > 0 && validation_share < 1,
            "there is neither a val nor a test split, and none is to be held out: expected a share between 0 and 1, "
            "got {}",
            validation_share);
    HoldOut(*train, classes.size(), validation_share, seed, &data);
  }
  data.classes = std::move(dataset.classes);
  return data;
}

uint64_t Fingerprint(const TrainingData& data) {
  Fnv1a hash;
  const auto add = [&](std::string_view text) { hash.Add(text).AddByte(0); };  // "a", "bc" differs from "ab", "c"
  for (const std::string& name : data.classes) add(name);
  for (const Split* split : {&data.train, &data.validation}) {
    for (int64_t i = 0; i < split->size(); ++i) {
      // Relative names: the data set's folder may have moved.
      const std::filesystem::path path = split->SampleName(i);
      add(path.filename().native());
      add(std::to_string(split->labels[static_cast<size_t>(i)]));
    }
    add("");
  }
  return hash.value();
}

const Split& ForEvaluation(const Dataset& dataset, std::string_view name) {
  std::vector<std::string> names;
  for (const Split& split : dataset.splits) names.push_back(split.name);
  if (!name.empty()) {
    const Split* split = dataset.Find(name);
    Require(split != nullptr, "there is no split \"{}\", only {}", name, JoinNames(names));
    return *split;
  }
  for (const char* wanted : {"test", "val", "all"}) {
    if (const Split* split = dataset.Find(wanted)) return *split;
  }
  Fail("there is neither a test nor a val split, only {}: name the one that is meant", JoinNames(names));
}

}  // namespace qkv::train
