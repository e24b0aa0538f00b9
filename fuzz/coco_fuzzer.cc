// Annotations, and results behind the first zero byte: each is read or refused with an Error, results are written and
// read to the same, and scores of the two are shares.
#include <cstdlib>
#include <string_view>

#include "qkv/app/detection/coco.h"
#include "qkv/app/detection/coco_evaluation.h"
#include "qkv/app/open/json_line.h"
#include "qkv/core/error.h"

namespace {

using namespace qkv;
using namespace qkv::app;

void Check(bool ok) {
  if (!ok) std::abort();
}

void CheckShare(double score) { Check(score == -1 || (score >= 0 && score <= 1 + 1e-9)); }

void CheckRoundTrip(const std::vector<CocoDetection>& detections) {
  io::Json list = io::Json::array();
  for (const CocoDetection& detection : detections) list.push_back(ToJson(detection));
  const std::vector<CocoDetection> again = ParseCocoDetections(JsonLine(list), "again");
  Check(again.size() == detections.size());
  for (size_t i = 0; i < again.size(); ++i) Check(ToJson(again[i]) == list[i]);
}

template <typename T, typename F>
T Try(const F& f) {
  try {
    return f();
  } catch (const Error&) {  // what a bad file should do
    return {};
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const size_t end = std::min(bytes.find('\0'), size);
  const auto dataset = Try<CocoDataset>([&] { return ParseCoco(bytes.substr(0, end), "annotations"); });
  auto detections = Try<std::vector<CocoDetection>>(
      [&] { return ParseCocoDetections(bytes.substr(std::min(end + 1, size)), "results"); });
  Check(dataset.annotations.size() + dataset.images.size() <= size);
  CheckRoundTrip(detections);
  // Unknown images are an Error, which would hide the rest.
  std::erase_if(detections, [&](const CocoDetection& detection) {
    return std::ranges::none_of(dataset.images, [&](const CocoImage& image) { return image.id == detection.image_id; });
  });
  const CocoEvaluation evaluation = EvaluateCoco(dataset, detections);
  CheckShare(evaluation.scores.ap), CheckShare(evaluation.scores.ap50), CheckShare(evaluation.scores.ap_small);
  CheckShare(evaluation.scores.ar1), CheckShare(evaluation.scores.ar100), CheckShare(evaluation.scores.ar_large);
  for (const CocoCategoryScore& category : evaluation.categories) CheckShare(category.ap);
  return 0;
}
