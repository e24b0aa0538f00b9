// Where the annotations and images of a detection data set are: in COCO's own folders, or all in one folder.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

#include "qkv/app/detection/coco.h"

namespace qkv::app {

/// Finds the annotation file of a folder: "annotations/instances_NAME.json" or another file there,
/// "instances_NAME.json", "annotations.json", "*.coco.json", or the same in a folder for each split. `split`: a part of
/// the name ("val" for instances_val2017.json); if it is empty and there are several, "val". Nothing if there is no
/// such file. Throws Error that lists the files if none or several have the split's name. The path of a file is
/// returned as it is.
std::optional<std::filesystem::path> FindCocoAnnotations(const std::filesystem::path& path, std::string_view split);

/// Finds the folder of the images of an annotation file, which has its first image: the file's own, or "images" or NAME
/// in it or beside it. Throws Error that lists the folders if none has it.
std::filesystem::path FindCocoImages(const std::filesystem::path& annotations, const CocoDataset& dataset);

/// The file of an image in this folder. Throws Error if its name leads out of the folder: an untrusted file must not
/// choose what else is read.
std::filesystem::path CocoImagePath(const std::filesystem::path& folder, const CocoImage& image);

}  // namespace qkv::app
