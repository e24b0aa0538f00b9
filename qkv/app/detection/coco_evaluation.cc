#include "qkv/app/detection/coco_evaluation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <unordered_map>

#include "qkv/core/error.h"
#include "qkv/core/memory.h"
#include "qkv/core/parallel.h"
#include "qkv/core/work.h"

namespace qkv::app {
namespace {

constexpr size_t kThresholds = 10, kRecalls = 101, kAreas = 4;
// Best detections of an image and category that count.
constexpr std::array<size_t, 3> kMaxDetections = {1, 10, 100};

// Ranges of an object's area in pixels, both ends included: all, small, medium, large.
struct AreaRange {
  double least, greatest;
  bool Contains(double area) const { return !(area < least || area > greatest); }
};
constexpr double kSmall = 32 * 32, kMedium = 96 * 96, kHuge = 1e10;
constexpr std::array<AreaRange, kAreas> kAreaRanges = {{{0, kHuge}, {0, kSmall}, {kSmall, kMedium}, {kMedium, kHuge}}};

// Equal steps from `first` to `last`, rounded as in NumPy's linspace.
template <size_t n>
constexpr std::array<double, n> EqualSteps(double first, double last) {
  const double step = (last - first) / static_cast<double>(n - 1);
  std::array<double, n> steps{};
  for (size_t i = 0; i + 1 < n; ++i) steps[i] = static_cast<double>(i) * step + first;
  steps[n - 1] = last;
  return steps;
}
constexpr auto kIouThresholds = EqualSteps<kThresholds>(0.5, 0.95);
constexpr auto kRecallThresholds = EqualSteps<kRecalls>(0, 1);
constexpr size_t kIndexOf75 = 5;

// An annotation or detection, in the order in which they are processed.
struct Place {
  size_t category = 0, image = 0;  // by their ids
  size_t index = 0;                // in the data set or the detections
};

// A detection compared with the annotations of its image. Bit t of a mask: at threshold t.
struct MatchedDetection {
  double score = 0;
  size_t rank = 0;                          // among the detections of its image and category
  std::array<uint16_t, kAreas> right{};     // matches an annotation
  std::array<uint16_t, kAreas> mistaken{};  // matches none; neither: matches one that is ignored, or is of another area
};

// All scores of a category.
struct CategoryCurves {
  std::array<int64_t, kAreas> annotations{};                     // that are not ignored
  std::array<std::vector<double>, kAreas> precision;             // [threshold, recall]; empty if there are none
  std::array<std::array<double, kThresholds>, kAreas> recall{};  // with the most detections
  std::array<std::array<double, kThresholds>, kMaxDetections.size()> recall_of_best{};  // of any area
};

double IntersectionOverUnion(const image::Rect& detection, const CocoAnnotation& annotation) {
  const image::Rect& box = annotation.box;
  const double width =
      std::min(detection.left + detection.width, box.left + box.width) - std::max(detection.left, box.left);
  const double height =
      std::min(detection.top + detection.height, box.top + box.height) - std::max(detection.top, box.top);
  if (width <= 0 || height <= 0) return 0;
  const double common = width * height, area = detection.width * detection.height;
  // A part of a crowd is no worse for being small.
  return common / (annotation.crowd ? area : area + box.width * box.height - common);
}

// Matches the detections of one image and category, best first, each to the free annotation that it overlaps most.
class ImageMatcher {
 public:
  ImageMatcher(const CocoDataset& dataset, std::span<const CocoDetection> detections)
      : dataset_(dataset), detections_(detections) {}

  void Match(std::span<const Place> annotations, std::span<const Place> detections,
             std::vector<MatchedDetection>& matched, std::array<int64_t, kAreas>& counted) {
    annotations_ = annotations;
    taken_.assign(annotations.size(), {});
    for (const Place& place : annotations) {
      for (size_t a = 0; a < kAreas; ++a) counted[a] += !IsIgnored(dataset_.annotations[place.index], a);
    }
    order_.assign(detections.begin(), detections.end());
    std::ranges::stable_sort(order_, [&](const Place& a, const Place& b) {
      return detections_[a.index].score > detections_[b.index].score;
    });
    order_.resize(std::min(order_.size(), kMaxDetections.back()));
    for (size_t rank = 0; rank < order_.size(); ++rank) {
      const CocoDetection& detection = detections_[order_[rank].index];
      MatchedDetection result{.score = detection.score, .rank = rank};
      FindCandidates(detection);
      for (size_t a = 0; a < kAreas; ++a) MatchInRange(detection, a, result);
      matched.push_back(result);
    }
  }

 private:
  struct Candidate {
    size_t annotation = 0;  // in annotations_
    double overlap = 0;
  };

  static bool IsIgnored(const CocoAnnotation& annotation, size_t area) {
    return annotation.crowd || !kAreaRanges[area].Contains(annotation.area);
  }
  const CocoAnnotation& AnnotationOf(const Candidate& candidate) const {
    return dataset_.annotations[annotations_[candidate.annotation].index];
  }

  // Annotations that may match at some threshold: few, so the loops over ranges and thresholds are short.
  void FindCandidates(const CocoDetection& detection) {
    candidates_.clear();
    for (size_t i = 0; i < annotations_.size(); ++i) {
      const double overlap = IntersectionOverUnion(detection.box, dataset_.annotations[annotations_[i].index]);
      if (!(overlap < kIouThresholds.front())) candidates_.push_back({i, overlap});
    }
  }

  void MatchInRange(const CocoDetection& detection, size_t area, MatchedDetection& result) {
    const bool of_this_area = kAreaRanges[area].Contains(detection.box.width * detection.box.height);
    for (size_t t = 0; t < kThresholds; ++t) {
      const auto bit = static_cast<uint16_t>(1u << t);
      const Candidate* match = FindMatch(area, bit, kIouThresholds[t], /*ignored=*/false);
      const bool ignored = match == nullptr;
      if (ignored) match = FindMatch(area, bit, kIouThresholds[t], /*ignored=*/true);
      if (match != nullptr) taken_[match->annotation][area] |= bit;
      // pycocotools stores the match as the annotation's id, and 0 for none.
      const bool found = match != nullptr && AnnotationOf(*match).id != 0;
      if (match != nullptr && ignored) continue;
      if (found) {
        result.right[area] |= bit;
      } else if (of_this_area) {
        result.mistaken[area] |= bit;
      }
    }
  }

  // The last of those that overlap most, among the ignored annotations or the others.
  const Candidate* FindMatch(size_t area, uint16_t bit, double threshold, bool ignored) const {
    const Candidate* match = nullptr;
    double least = threshold;
    for (const Candidate& candidate : candidates_) {
      const CocoAnnotation& annotation = AnnotationOf(candidate);
      const bool free = annotation.crowd || (taken_[candidate.annotation][area] & bit) == 0;
      if (!free || IsIgnored(annotation, area) != ignored || candidate.overlap < least) continue;
      least = candidate.overlap;
      match = &candidate;
    }
    return match;
  }

  const CocoDataset& dataset_;
  const std::span<const CocoDetection> detections_;
  std::span<const Place> annotations_;
  std::vector<std::array<uint16_t, kAreas>> taken_;  // of annotations_: bit t at threshold t
  std::vector<Place> order_;
  std::vector<Candidate> candidates_;
};

// The recall of the first detections; precision [recall] if it is not null.
double TraceCurve(std::span<const MatchedDetection> detections, size_t max_rank, size_t area, size_t threshold,
                  int64_t annotations, std::span<double> precision_at) {
  constexpr double kEpsilon = 0x1p-52;  // pycocotools has it in the quotient; it changes the last digits
  std::vector<double> recall, precision;
  double right = 0, mistaken = 0;
  for (const MatchedDetection& detection : detections) {
    if (detection.rank >= max_rank) continue;
    right += detection.right[area] >> threshold & 1;
    mistaken += detection.mistaken[area] >> threshold & 1;
    if (precision_at.empty()) continue;
    recall.push_back(right / static_cast<double>(annotations));
    precision.push_back(right / (mistaken + right + kEpsilon));
  }
  // The best precision at this recall or a higher one.
  for (size_t i = precision.size(); i-- > 1;) precision[i - 1] = std::max(precision[i - 1], precision[i]);
  size_t at = 0;
  for (size_t r = 0; r < precision_at.size(); ++r) {
    while (at < recall.size() && recall[at] < kRecallThresholds[r]) ++at;
    precision_at[r] = at < precision.size() ? precision[at] : 0;
  }
  return right / static_cast<double>(annotations);
}

// detections: of all images, in their order.
void TraceCurves(std::vector<MatchedDetection>& detections, CategoryCurves& curves) {
  std::ranges::stable_sort(detections, [](const auto& a, const auto& b) { return a.score > b.score; });
  for (size_t a = 0; a < kAreas; ++a) {
    if (curves.annotations[a] == 0) continue;
    curves.precision[a].resize(kThresholds * kRecalls);
    for (size_t t = 0; t < kThresholds; ++t) {
      curves.recall[a][t] = TraceCurve(detections, kMaxDetections.back(), a, t, curves.annotations[a],
                                       std::span(curves.precision[a]).subspan(t * kRecalls, kRecalls));
    }
  }
  if (curves.annotations[0] == 0) return;
  for (size_t m = 0; m < kMaxDetections.size(); ++m) {
    for (size_t t = 0; t < kThresholds; ++t) {
      curves.recall_of_best[m][t] = TraceCurve(detections, kMaxDetections[m], 0, t, curves.annotations[0], {});
    }
  }
}

// Compares places by category and image.
bool Precedes(const Place& a, const Place& b) {
  return a.category != b.category ? a.category < b.category : a.image < b.image;
}

// The places of one category.
std::span<const Place> OfCategory(const std::vector<Place>& places, size_t category) {
  return {std::ranges::lower_bound(places, category, {}, &Place::category),
          std::ranges::upper_bound(places, category, {}, &Place::category)};
}

// The places of one image at the front, which are removed.
std::span<const Place> TakeImage(std::span<const Place>& places, size_t image) {
  size_t count = 0;
  while (count < places.size() && places[count].image == image) ++count;
  const std::span<const Place> taken = places.first(count);
  places = places.subspan(count);
  return taken;
}

CategoryCurves EvaluateCategory(const CocoDataset& dataset, std::span<const CocoDetection> all_detections,
                                std::span<const Place> annotations, std::span<const Place> detections) {
  CategoryCurves curves;
  ImageMatcher matcher(dataset, all_detections);
  std::vector<MatchedDetection> matched;
  while (!annotations.empty() || !detections.empty()) {
    const size_t image = std::min(annotations.empty() ? SIZE_MAX : annotations[0].image,
                                  detections.empty() ? SIZE_MAX : detections[0].image);
    const std::span<const Place> of_image = TakeImage(annotations, image);
    matcher.Match(of_image, TakeImage(detections, image), matched, curves.annotations);
  }
  TraceCurves(matched, curves);
  return curves;
}

// Sums as NumPy does, in halves and with eight partial sums, so that means have its last digits.
double PairwiseSum(std::span<const double> values) {
  constexpr size_t kWays = 8, kBlock = 128;
  const size_t n = values.size();
  if (n > kBlock) {
    const size_t half = n / 2 - n / 2 % kWays;
    return PairwiseSum(values.first(half)) + PairwiseSum(values.subspan(half));
  }
  double sum = 0;
  size_t i = 0;
  if (n >= kWays) {
    std::array<double, kWays> s;
    std::copy_n(values.begin(), kWays, s.begin());
    for (i = kWays; i + kWays <= n; i += kWays) {
      for (size_t j = 0; j < kWays; ++j) s[j] += values[i + j];
    }
    sum = ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
  }
  for (; i < n; ++i) sum += values[i];
  return sum;
}

double Mean(std::span<const double> values) {
  return values.empty() ? -1 : PairwiseSum(values) / static_cast<double>(values.size());
}

// The mean of the precisions of all categories, ordered by threshold, recall, category. A file may have any number of
// categories without objects.
double MeanPrecision(const std::vector<CategoryCurves>& curves, size_t area, size_t first, size_t thresholds) {
  std::vector<const double*> precisions;
  Spend(std::ssize(curves));
  for (const CategoryCurves& category : curves) {
    if (!category.precision[area].empty()) precisions.push_back(category.precision[area].data());
  }
  std::vector<double> values;
  for (size_t i = first * kRecalls; i < (first + thresholds) * kRecalls; ++i) {
    Spend(std::ssize(precisions));
    for (const double* precision : precisions) values.push_back(precision[i]);
  }
  return Mean(values);
}

template <typename GetRecall>
double MeanRecall(const std::vector<CategoryCurves>& curves, size_t area, const GetRecall& get) {
  std::vector<double> values;
  for (size_t t = 0; t < kThresholds; ++t) {
    for (const CategoryCurves& category : curves) {
      if (category.annotations[area] > 0) values.push_back(get(category)[t]);
    }
  }
  return Mean(values);
}

CocoScores Summarise(const std::vector<CategoryCurves>& curves) {
  const auto ap = [&](size_t area) { return MeanPrecision(curves, area, 0, kThresholds); };
  const auto ar = [&](size_t area) {
    return MeanRecall(curves, area, [&](const CategoryCurves& c) { return c.recall[area]; });
  };
  const auto ar_of_best = [&](size_t m) {
    return MeanRecall(curves, 0, [&](const CategoryCurves& c) { return c.recall_of_best[m]; });
  };
  return {.ap = ap(0),
          .ap50 = MeanPrecision(curves, 0, 0, 1),
          .ap75 = MeanPrecision(curves, 0, kIndexOf75, 1),
          .ap_small = ap(1),
          .ap_medium = ap(2),
          .ap_large = ap(3),
          .ar1 = ar_of_best(0),
          .ar10 = ar_of_best(1),
          .ar100 = ar_of_best(2),
          .ar_small = ar(1),
          .ar_medium = ar(2),
          .ar_large = ar(3)};
}

using IdIndex = std::unordered_map<int64_t, size_t>;

template <typename T>
IdIndex IndexById(const std::vector<T>& records) {
  std::vector<int64_t> ids;
  for (const T& record : records) ids.push_back(record.id);
  std::ranges::sort(ids);
  IdIndex index;
  for (size_t i = 0; i < ids.size(); ++i) index.emplace(ids[i], i);
  return index;
}

// The places of records whose image and category are known, sorted.
template <typename T>
std::vector<Place> SortPlaces(std::span<const T> records, const IdIndex& images, const IdIndex& categories) {
  std::vector<Place> places;
  for (size_t i = 0; i < records.size(); ++i) {
    const auto category = categories.find(records[i].category_id);
    const auto image = images.find(records[i].image_id);
    if (category != categories.end() && image != images.end()) places.push_back({category->second, image->second, i});
  }
  std::ranges::stable_sort(places, Precedes);
  return places;
}

}  // namespace

CocoEvaluation EvaluateCoco(const CocoDataset& dataset, std::span<const CocoDetection> detections) {
  const IdIndex images = IndexById(dataset.images), ids = IndexById(dataset.categories);
  for (const CocoDetection& detection : detections) {
    Require(images.contains(detection.image_id), "detections: image {} is not in the data set", detection.image_id);
    Require(!std::isnan(detection.score), "detections: a score of image {} is NaN", detection.image_id);
  }
  const std::vector<Place> truth = SortPlaces(std::span(dataset.annotations), images, ids);
  const std::vector<Place> found = SortPlaces(detections, images, ids);
  CocoEvaluation evaluation;
  evaluation.images = std::ssize(dataset.images);
  evaluation.annotations = std::ssize(truth);
  evaluation.detections = std::ssize(found);
  evaluation.unused_annotations = std::ssize(dataset.annotations) - std::ssize(truth);
  evaluation.unused_detections = std::ssize(detections) - std::ssize(found);
  // Memory: the curves, and a copy of one of the four areas in another order.
  const auto K = static_cast<double>(std::min(dataset.categories.size(), truth.size()));
  RequireMemory(K * (kAreas + 1) * kThresholds * kRecalls * sizeof(double), "evaluate: precisions of all categories");

  std::vector<CategoryCurves> curves(ids.size());
  ParallelTasks(std::ssize(curves), [&](int64_t task, int) {
    const auto k = static_cast<size_t>(task);
    curves[k] = EvaluateCategory(dataset, detections, OfCategory(truth, k), OfCategory(found, k));
  });
  evaluation.scores = Summarise(curves);
  evaluation.categories.resize(curves.size());
  for (const CocoCategory& category : dataset.categories) {
    const size_t k = ids.at(category.id);
    const std::vector<CategoryCurves> alone = {std::move(curves[k])};
    evaluation.categories[k] = {
        .category = category,
        .annotations = std::ranges::count_if(
            OfCategory(truth, k), [&](const Place& place) { return !dataset.annotations[place.index].crowd; }),
        .ap = MeanPrecision(alone, 0, 0, kThresholds),
        .ap50 = MeanPrecision(alone, 0, 0, 1),
        .ar100 = MeanRecall(alone, 0, [](const CategoryCurves& c) { return c.recall[0]; })};
  }
  return evaluation;
}

io::Json ToJson(const CocoEvaluation& evaluation) {
  const auto share = [](double score) { return score < 0 ? io::Json(nullptr) : io::Json(score); };
  const CocoScores& scores = evaluation.scores;
  io::Json json = {{"ap", share(scores.ap)},
                   {"ap50", share(scores.ap50)},
                   {"ap75", share(scores.ap75)},
                   {"ap_small", share(scores.ap_small)},
                   {"ap_medium", share(scores.ap_medium)},
                   {"ap_large", share(scores.ap_large)},
                   {"ar1", share(scores.ar1)},
                   {"ar10", share(scores.ar10)},
                   {"ar100", share(scores.ar100)},
                   {"ar_small", share(scores.ar_small)},
                   {"ar_medium", share(scores.ar_medium)},
                   {"ar_large", share(scores.ar_large)},
                   {"images", evaluation.images},
                   {"annotations", evaluation.annotations},
                   {"detections", evaluation.detections},
                   {"unused_annotations", evaluation.unused_annotations},
                   {"unused_detections", evaluation.unused_detections},
                   {"categories", io::Json::array()}};
  for (const CocoCategoryScore& category : evaluation.categories) {
    json["categories"].push_back({{"id", category.category.id},
                                  {"name", category.category.name},
                                  {"annotations", category.annotations},
                                  {"ap", share(category.ap)},
                                  {"ap50", share(category.ap50)},
                                  {"ar100", share(category.ar100)}});
  }
  return json;
}

}  // namespace qkv::app
