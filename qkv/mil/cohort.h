// Slides with labels: the table of labels, bags of vectors, and their division into folds by patient. Not here: files
// of vectors, which a front end reads (slide/files/feature_file.h).
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/core/tensor.h"

namespace qkv::mil {

/// The vectors of one slide's tiles.
struct Bag {
  Tensor<float> features;                      // [tiles, D]
  std::vector<std::array<int64_t, 2>> coords;  // [tiles], x and y at level 0; empty if no model needs positions
  int64_t side = 0;                            // of a tile at level 0
};

enum class Split { kNone, kTrain, kValidation, kTest };

/// A row of the table of labels.
struct LabelledSlide {
  std::string slide, label, patient;  // patient: the slide's name if the table has none
  Split split = Split::kNone;         // kNone if the table has no such column
  int64_t line = 0;
};

/// Reads CSV or TSV with a header. Columns by name, in any case and order: slide (slide_id, wsi, filename, image, …),
/// label (class, target, …), and optionally patient (patient_id, case_id, …) and split (set, partition: train, val or
/// test); others are ignored. Throws Error with the line for a missing column or value, an unknown split, a slide that
/// occurs twice, a patient in two splits, and if some rows have a split and others none.
std::vector<LabelledSlide> ReadLabels(const std::filesystem::path& path);
/// The same for text; `where` is the prefix of errors.
std::vector<LabelledSlide> ParseLabels(std::string_view text, std::string_view where);

struct Cohort {
  struct Slide {
    std::string name, patient;
    int64_t label = 0;  // of classes
    Split split = Split::kNone;
  };
  std::vector<std::string> classes;
  std::vector<Slide> slides;
  std::function<Bag(int64_t slide)> load;  // called by one thread at a time, several times for each slide
};

/// Slides in the table's order, classes sorted: as numbers if all are, else by name. Throws Error for fewer than two
/// classes.
Cohort MakeCohort(const std::vector<LabelledSlide>& table, std::function<Bag(int64_t slide)> load);

/// Indices of slides; no patient is in two parts.
struct Fold {
  std::vector<int64_t> train, validation, test;
};

/// Cross-validation: patients of each class (that of most of their slides) are dealt to `folds` parts in a seeded
/// order. Fold i tests part i, validates on part i + 1, and trains on the others. With splits in the cohort: one fold
/// of these; without a test part the validation part is tested. Throws Error for fewer than 3 folds, a class with fewer
/// patients than folds, or a part without slides or without a class that training needs.
std::vector<Fold> MakeFolds(const Cohort& cohort, int64_t folds, uint64_t seed);

}  // namespace qkv::mil
