// Slides with labels for training: a table of labels, and vectors in a folder of HDF5 files, which TRIDENT, CLAM and
// qkv slide embed write.
#pragma once

#include <cstdint>
#include <filesystem>

#include "qkv/mil/cohort.h"
#include "qkv/slide/files/feature_file.h"

namespace qkv::app {

/// The side of a tile at level 0, in pixels: TRIDENT's attribute patch_size_level0, CLAM's patch_size and downsample,
/// or else the least distance of two tiles in a row or column; 0 if nothing says it.
int64_t SideAtLevel0(const slide::FeatureFile& file);

/// The table's slides (mil::ReadLabels) with their files FOLDER/NAME.h5, where NAME may have lost the ending of a slide
/// (".svs"). Files are read when they are loaded. Throws Error as ReadLabels and MakeCohort, and with the line for a
/// slide without a file.
mil::Cohort OpenCohort(const std::filesystem::path& folder, const std::filesystem::path& labels);

}  // namespace qkv::app
