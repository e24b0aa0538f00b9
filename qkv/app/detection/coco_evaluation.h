// The numbers of COCO's detection challenge for boxes, equal to those of pycocotools.
// https://cocodataset.org/#detection-eval
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "qkv/app/detection/coco.h"
#include "qkv/io/json.h"

namespace qkv::app {

/// Shares, 0 … 1; −1 if there is nothing to average: no annotation, or none of that size. Small objects have an area of
/// up to 32², large ones of at least 96² pixels.
struct CocoScores {
  // Average precision: the mean of the precision at 101 recalls, of the categories, and of the thresholds of
  // intersection over union: 0.50, 0.55, … 0.95, or one of them.
  double ap = -1, ap50 = -1, ap75 = -1;
  double ap_small = -1, ap_medium = -1, ap_large = -1;
  // Average recall with the 1, 10 or 100 best detections of each image and category.
  double ar1 = -1, ar10 = -1, ar100 = -1;
  double ar_small = -1, ar_medium = -1, ar_large = -1;
};

struct CocoCategoryScore {
  CocoCategory category;
  int64_t annotations = 0;                // without crowds
  double ap = -1, ap50 = -1, ar100 = -1;  // as in CocoScores, of this category alone
};

struct CocoEvaluation {
  CocoScores scores;
  std::vector<CocoCategoryScore> categories;  // in the order of their ids
  int64_t images = 0, annotations = 0, detections = 0;
  int64_t unused_annotations = 0;  // of images or categories that are missing in the data set
  int64_t unused_detections = 0;   // of categories that are missing in the data set
};

/// Compares detections with the annotations of their images; images without detections count too. As in pycocotools,
/// detections of equal scores keep their order (of images by id), and a detection that matches an annotation whose id
/// is 0 counts as wrong. Throws Error if a detection is of an unknown image, if a score is NaN, and if the categories
/// would take more than MemoryLimit().
CocoEvaluation EvaluateCoco(const CocoDataset& dataset, std::span<const CocoDetection> detections);

/// {"ap", "ap50", "ap75", "ap_small", "ap_medium", "ap_large", "ar1", "ar10", "ar100", "ar_small", "ar_medium",
/// "ar_large", "images", "annotations", "detections", "unused_annotations", "unused_detections", "categories": [{"id",
/// "name", "annotations", "ap", "ap50", "ar100"}]}; null for a score of −1.
io::Json ToJson(const CocoEvaluation& evaluation);

}  // namespace qkv::app
