#include "qkv/app/detection/segmentation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <mutex>
#include <utility>

#include "qkv/core/error.h"
#include "qkv/core/memory.h"
#include "qkv/core/name_table.h"
#include "qkv/core/parallel.h"
#include "qkv/core/work.h"
#include "qkv/image/runs.h"
#include "qkv/simd/gemm/matmul.h"
#include "qkv/simd/rows/elementwise.h"

namespace qkv::app {
namespace {

constexpr std::pair<SegmentTask, std::string_view> kSegmentTasks[] = {
    {SegmentTask::kSemantic, "semantic"}, {SegmentTask::kInstance, "instance"}, {SegmentTask::kPanoptic, "panoptic"}};

// Rows of the photo that a thread computes at a time.
constexpr int64_t kRowsOfPiece = 8;
// Below this logit a probability is less than kTiny.
constexpr float kLowLogit = -8, kTiny = 3.36e-4f;

float Sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

// A query that may become a segment.
struct Candidate {
  int64_t token = 0, index = 0;
  float score = 0;
};

void RequireSegmentationMemory(SegmentTask task, const MaskOutputs& outputs, const MaskGeometry& g) {
  RequireMemory(SegmentationBytes(task, g, outputs.classes.dim(0), outputs.classes.dim(1) - 1),
                fmt::format("segment: the {} map of {} x {} pixels", Name(task), g.width, g.height));
}

void CheckOutputs(const MaskOutputs& outputs, const MaskGeometry& g) {
  Require(outputs.classes.rank() == 2 && outputs.classes.dim(1) > 1 && outputs.classes.dense() &&
              outputs.masks.shape() == Shape({outputs.classes.dim(0), g.mask_height, g.mask_width}) &&
              outputs.masks.dense(),
          "segment: expected classes [Q, C + 1] and masks [Q, {}, {}], got {} and {}", g.mask_height, g.mask_width,
          outputs.classes.shape(), outputs.masks.shape());
}

// softmax(classes): [Q, C + 1]
Tensor<float> Probabilities(View<const float> classes) {
  auto probabilities = Tensor<float>::Uninitialised(classes.shape());
  std::copy_n(classes.data(), classes.size(), probabilities.data());
  for (int64_t q = 0; q < classes.dim(0); ++q) simd::Softmax(probabilities.view().row(q), classes.dim(1));
  return probabilities;
}

// with_none: "no object" competes, and its queries are left out.
std::vector<Candidate> FindCandidates(View<const float> classes, bool with_none) {
  const Tensor<float> probabilities = Probabilities(classes);
  const int64_t C = classes.dim(1) - 1;
  std::vector<Candidate> candidates;
  for (int64_t q = 0; q < classes.dim(0); ++q) {
    const float* const row = probabilities.view().row(q);
    const int64_t best = std::max_element(row, row + C + (with_none ? 1 : 0)) - row;
    if (best < C) candidates.push_back({q, best, row[best]});
  }
  return candidates;
}

// Calls f(begin, end) for pieces of rows, on all cores.
template <typename F>
void ForRows(int64_t height, const F& f) {
  ParallelFor(height, kRowsOfPiece, f);
}

// Memory for a row of an instance, see FillMask.
constexpr double kBytesOfRow = sizeof(std::pair<int64_t, double>);
// Steps, for Spend, of interpolating a pixel of a mask and computing its probability.
constexpr int64_t kStepsOfMask = 2;

// Areas and boxes of ids 0 … count − 1 in a map.
struct Extents {
  std::vector<int64_t> areas;
  std::vector<PixelBox> boxes;
};

Extents Measure(View<const int32_t> ids, int64_t count) {
  const int64_t height = ids.dim(0), width = ids.dim(1);
  const PixelBox none{height, width, 0, 0};
  Extents all{std::vector<int64_t>(static_cast<size_t>(count)),
              std::vector<PixelBox>(static_cast<size_t>(count), none)};
  for (int64_t y = 0; y < height; ++y) {
    const int32_t* const row = ids.row(y);
    for (int64_t begin = 0, x = 1; x <= width; ++x) {
      if (x < width && row[x] == row[begin] && x - begin < image::kRunPixels) continue;
      Spend(x - begin);
      const auto id = static_cast<size_t>(row[begin]);
      PixelBox& box = all.boxes[id];
      all.areas[id] += x - begin;
      box.top = std::min(box.top, y), box.bottom = y + 1;
      box.left = std::min(box.left, begin), box.right = std::max(box.right, x);
      begin = x;
    }
  }
  return all;
}

// Areas, boxes and masks of segments that do not overlap. Those without a pixel are removed.
void Complete(Segmentation* segmentation, int64_t greatest_id) {
  const Extents extents = Measure(segmentation->ids, greatest_id + 1);
  std::erase_if(segmentation->segments,
                [&](const Segment& segment) { return extents.areas[static_cast<size_t>(segment.id)] == 0; });
  ParallelTasks(std::ssize(segmentation->segments), [&](int64_t i, int) {
    Segment& segment = segmentation->segments[static_cast<size_t>(i)];
    segment.area = extents.areas[static_cast<size_t>(segment.id)];
    segment.box = extents.boxes[static_cast<size_t>(segment.id)];
    segment.mask = EncodeMask<int32_t>(segmentation->ids, static_cast<int32_t>(segment.id), segment.box);
  });
}

// ---------------------------------------------------------------------------------------------------------------------
// Panoptic

// Pixels of each candidate: whose mask is the best there, which mask is at least probable, and both.
struct Areas {
  explicit Areas(size_t count) : best(count), probable(count), both(count) {}
  void Add(const Areas& other) {
    for (size_t k = 0; k < best.size(); ++k) {
      best[k] += other.best[k], probable[k] += other.probable[k], both[k] += other.both[k];
    }
  }
  std::vector<int64_t> best, probable, both;
};

// Writes into each pixel the index of the best candidate, and 1 more if its probability is below the threshold: 2 · k
// or 2 · k + 1.
Areas FindBest(const MaskOutputs& outputs, std::span<const Candidate> candidates, const MaskUpsampler& upsampler,
               double threshold, View<int32_t> best_of) {
  const auto least = static_cast<float>(threshold);
  const bool skips = least > kTiny;
  Areas areas(candidates.size());
  std::mutex adding;
  ForRows(best_of.dim(0), [&](int64_t begin, int64_t end) {
    Areas mine(candidates.size());
    MaskUpsampler::Scratch scratch;
    std::vector<float> logits, value;
    for (int64_t y = begin; y < end; ++y) {
      image::ForEachRun(best_of.dim(1), [&](int64_t left, int64_t right) {
        const auto width = static_cast<size_t>(right - left);
        int32_t* const to = best_of.row(y) + left;
        logits.resize(width);
        value.assign(width, -1.0f);
        const float* const logit = logits.data();
        float* const best = value.data();
        for (size_t k = 0; k < candidates.size(); ++k) {
          const float score = candidates[k].score;
          Spend(kStepsOfMask * (right - left));
          upsampler.PhotoRow(outputs.masks[candidates[k].token], y, left, scratch, logits);
          for (size_t x = 0; x < width; ++x) {
            if (skips && logit[x] < kLowLogit && best[x] >= score * kTiny) continue;
            const float probability = Sigmoid(logit[x]);
            const bool probable = probability >= least;
            mine.probable[k] += probable;
            if (!(score * probability > best[x])) continue;
            best[x] = score * probability;
            to[x] = static_cast<int32_t>(2 * k + (probable ? 0 : 1));
          }
        }
        for (size_t x = 0; x < width; ++x) {
          const auto k = static_cast<size_t>(to[x] / 2);
          ++mine.best[k], mine.both[k] += to[x] % 2 == 0;
        }
      });
    }
    const std::lock_guard lock(adding);
    areas.Add(mine);
  });
  return areas;
}

bool IsValid(const Areas& areas, size_t k, double overlap) {
  if (areas.best[k] == 0 || areas.probable[k] == 0 || areas.both[k] == 0) return false;
  // In float, as torch divides whole numbers.
  const float share = static_cast<float>(areas.best[k]) / static_cast<float>(areas.probable[k]);
  return static_cast<double>(share) > overlap;
}

Segmentation FindPanoptic(const MaskOutputs& outputs, const MaskGeometry& geometry, const SegmentRules& rules) {
  std::vector<Candidate> candidates = FindCandidates(outputs.classes, /*with_none=*/true);
  std::erase_if(candidates, [&](const Candidate& c) { return !(static_cast<double>(c.score) > rules.threshold); });
  Segmentation result{Tensor<int32_t>({geometry.height, geometry.width}), {}};
  if (candidates.empty()) return result;
  const Areas areas = FindBest(outputs, candidates, MaskUpsampler(geometry), rules.mask_threshold, result.ids);
  std::vector<int32_t> id_of(2 * candidates.size());  // of a value of FindBest
  for (size_t k = 0; k < candidates.size(); ++k) {
    if (!IsValid(areas, k, rules.overlap)) continue;
    const Candidate& found = candidates[k];
    const bool is_stuff = std::ranges::find(rules.stuff, found.index) != rules.stuff.end();
    const auto same = std::ranges::find(result.segments, found.index, &Segment::index);
    if (is_stuff && same != result.segments.end()) {
      id_of[2 * k] = static_cast<int32_t>(same->id);
      continue;
    }
    const int64_t id = std::ssize(result.segments) + 1;
    id_of[2 * k] = static_cast<int32_t>(id);
    Segment& segment = result.segments.emplace_back();
    segment.id = id, segment.index = found.index, segment.score = found.score, segment.token = found.token;
  }
  image::ForEachRun(result.ids.size(), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) result.ids[i] = id_of[static_cast<size_t>(result.ids[i])];
  });
  Complete(&result, std::ssize(result.segments));
  return result;
}

// ---------------------------------------------------------------------------------------------------------------------
// Instances

// Sets the pixels of a mask; rows: number and sum of probabilities of each. Returns their number and the mean of their
// probabilities.
std::pair<int64_t, double> FillMask(View<const float> mask, const MaskUpsampler& upsampler, View<uint8_t> pixels,
                                    std::vector<std::pair<int64_t, double>>& rows) {
  rows.assign(static_cast<size_t>(pixels.dim(0)), {});
  ForRows(pixels.dim(0), [&](int64_t begin, int64_t end) {
    MaskUpsampler::Scratch scratch;
    std::vector<float> logits;
    for (int64_t y = begin; y < end; ++y) {
      std::pair<int64_t, double>& row = rows[static_cast<size_t>(y)];
      image::ForEachRun(pixels.dim(1), [&](int64_t left, int64_t right) {
        logits.resize(static_cast<size_t>(right - left));
        Spend(kStepsOfMask * (right - left));
        upsampler.PhotoRow(mask, y, left, scratch, logits);
        uint8_t* const to = pixels.row(y) + left;
        const std::span<const float> of(logits);
        int64_t more = 0;
        double all = row.second;
        for (size_t x = 0; x < of.size(); ++x) {
          to[x] = of[x] > 0;
          if (to[x] != 0) ++more, all += Sigmoid(of[x]);
        }
        row.first += more, row.second = all;
      });
    }
  });
  std::pair<int64_t, double> all;
  for (const auto& [count, sum] : rows) all.first += count, all.second += sum;
  all.second /= static_cast<double>(all.first) + 1e-6;
  return all;
}

// Pixels per step, for Spend, of searching a row for a byte.
constexpr int64_t kPixelsPerStep = 16;

PixelBox BoxOf(View<const uint8_t> pixels, std::span<const std::pair<int64_t, double>> rows) {
  PixelBox box{pixels.dim(0), pixels.dim(1), 0, 0};
  for (int64_t y = 0; y < pixels.dim(0); ++y) {
    Spend(1 + pixels.dim(1) / kPixelsPerStep);
    if (rows[static_cast<size_t>(y)].first == 0) continue;
    const uint8_t *const row = pixels.row(y), *const end = row + pixels.dim(1);
    box.top = std::min(box.top, y), box.bottom = y + 1;
    box.left = std::min(box.left, std::find(row, row + box.left, 1) - row);
    const uint8_t* last = end;
    while (last > row + box.right && last[-1] == 0) --last;
    box.right = std::max(box.right, last - row);
  }
  return box;
}

Segmentation FindInstances(const MaskOutputs& outputs, const MaskGeometry& geometry, const SegmentRules& rules) {
  const MaskUpsampler upsampler(geometry);
  Segmentation result{Tensor<int32_t>({geometry.height, geometry.width}), {}};
  auto pixels = Tensor<uint8_t>::Uninitialised({geometry.height, geometry.width});
  std::vector<std::pair<int64_t, double>> rows;
  for (const Candidate& candidate : FindCandidates(outputs.classes, /*with_none=*/false)) {
    // The score of a mask is 1 at most.
    if (static_cast<double>(candidate.score) < rules.threshold) continue;
    const auto [area, of_mask] = FillMask(outputs.masks[candidate.token], upsampler, pixels, rows);
    const double score = static_cast<double>(candidate.score) * of_mask;
    if (area == 0 || score < rules.threshold) continue;
    const int64_t id = std::ssize(result.segments) + 1;
    image::ForEachRun(pixels.size(), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        if (pixels[i] != 0) result.ids[i] = static_cast<int32_t>(id);
      }
    });
    const PixelBox box = BoxOf(pixels, rows);
    result.segments.push_back(
        {id, candidate.index, score, candidate.token, area, box, EncodeMask<uint8_t>(pixels, 1, box)});
  }
  return result;
}

// ---------------------------------------------------------------------------------------------------------------------
// Semantic

// The scores of each class on rows of the resized photo, a band at a time: the mean over the squares that have a pixel.
class ClassScores {
 public:
  ClassScores(std::span<const MaskOutputs> squares, std::span<const int64_t> starts, const MaskGeometry& geometry)
      : squares_(squares), starts_(starts), geometry_(geometry), upsampler_(OfOneSquare(geometry)) {
    const MaskOutputs& first = squares.front();
    Q_ = first.classes.dim(0), C_ = first.classes.dim(1) - 1;
    for (const MaskOutputs& square : squares) {
      CheckOutputs(square, geometry);
      const Tensor<float> all = Probabilities(square.classes);
      Tensor<float>& kept = probabilities_.emplace_back(Tensor<float>({C_, Q_}));
      for (int64_t q = 0; q < Q_; ++q) {
        for (int64_t c = 0; c < C_; ++c) kept[c * Q_ + q] = all[q * (C_ + 1) + c];
      }
    }
  }

  int64_t classes() const { return C_; }

  // Computes rows [begin, begin + rows), rows at most kBand, into out: [C, rows, seen_width].
  void Band(int64_t begin, View<float> out) {
    const int64_t rows = out.dim(1), width = out.dim(2);
    const bool down = geometry_.seen_height > geometry_.seen_width;
    std::fill_n(out.data(), out.size(), 0.0f);
    std::vector<float> counts(static_cast<size_t>(rows * width));
    for (size_t s = 0; s < squares_.size(); ++s) {
      // The part of the square in this band and in the photo.
      const int64_t top = down ? starts_[s] : 0, left = down ? 0 : starts_[s];
      const int64_t first = std::max(begin, top), last = std::min(begin + rows, top + geometry_.input_height);
      const int64_t columns = std::min(geometry_.input_width, width - left);
      if (first >= last) continue;
      const View<const float> scores = SquareScores(s, first - top, last - first, columns);  // [C, rows · columns]
      for (int64_t y = first; y < last; ++y) {
        float* const count = counts.data() + (y - begin) * width + left;
        for (int64_t x = 0; x < columns; ++x) ++count[x];
      }
      ParallelFor(C_, 1, [&](int64_t c, int64_t) {
        Spend((last - first) * columns);
        for (int64_t y = first; y < last; ++y) {
          const float* const from = scores.row(c) + (y - first) * columns;
          float* const to = out.at(c, y - begin) + left;
          for (int64_t x = 0; x < columns; ++x) to[x] += from[x];
        }
      });
    }
    ParallelFor(C_, 1, [&](int64_t c, int64_t) {
      Spend(std::ssize(counts));
      float* const to = out.at(c);
      for (size_t i = 0; i < counts.size(); ++i) to[i] /= std::max(counts[i], 1.0f);
    });
  }

  // Rows of a band: enough for all cores, few enough for little memory.
  static constexpr int64_t kBand = 16;

 private:
  // This class does only the first of the upsampler's two steps.
  static MaskGeometry OfOneSquare(MaskGeometry g) {
    g.seen_height = std::min(g.seen_height, g.input_height), g.seen_width = std::min(g.seen_width, g.input_width);
    return g;
  }
  // [C, rows · columns] of rows from `begin` on of a square.
  View<const float> SquareScores(size_t s, int64_t begin, int64_t rows, int64_t columns) {
    masks_.Reuse({Q_, rows * columns});
    scores_.Reuse({C_, rows * columns});
    ParallelFor(Q_, 1, [&](int64_t q, int64_t) {
      MaskUpsampler::Scratch scratch;
      Spend(kStepsOfMask * rows * columns);
      for (int64_t y = 0; y < rows; ++y) {
        float* const to = masks_.view().row(q) + y * columns;
        upsampler_.InputRow(squares_[s].masks[q], begin + y, scratch, {to, static_cast<size_t>(columns)});
        for (int64_t x = 0; x < columns; ++x) to[x] = Sigmoid(to[x]);
      }
    });
    simd::MatMul<float>(probabilities_[s], masks_, scores_);
    return scores_;
  }

  std::span<const MaskOutputs> squares_;
  std::span<const int64_t> starts_;
  const MaskGeometry geometry_;
  const MaskUpsampler upsampler_;
  int64_t Q_ = 0, C_ = 0;
  std::vector<Tensor<float>> probabilities_;  // [C, Q] of each square
  Tensor<float> masks_, scores_;
};

// The best class of each pixel in a row of the photo. upper, lower: [C, rows, seen_width], of which row `row` counts.
void WriteBestClasses(View<const float> upper, View<const float> lower, float share, const LinearAxis& columns,
                      int32_t* to) {
  const int64_t C = upper.dim(0);
  std::vector<float> mixed(static_cast<size_t>(upper.dim(1))), scores, best;
  image::ForEachRun(columns.size(), [&](int64_t begin, int64_t end) {
    const auto width = static_cast<size_t>(end - begin);
    scores.resize(width), best.resize(width);
    const int64_t low = columns[begin].low;
    const std::span part(mixed.data() + low, static_cast<size_t>(columns[end - 1].high + 1 - low));
    for (int64_t c = 0; c < C; ++c) {
      Spend(end - begin + std::ssize(part));
      MixRows(upper.row(c) + low, lower.row(c) + low, share, part);
      columns.Apply(mixed.data(), begin, scores);
      for (size_t x = 0; x < width; ++x) {
        if (c > 0 && !(scores[x] > best[x])) continue;
        best[x] = scores[x];
        to[begin + static_cast<int64_t>(x)] = static_cast<int32_t>(c);
      }
    }
  });
}

}  // namespace

std::string_view Name(SegmentTask task) { return FindName(kSegmentTasks, task); }
double SegmentationBytes(SegmentTask task, const MaskGeometry& g, int64_t queries, int64_t classes) {
  // Four bytes a pixel for ids, one for a mask; and what grows with the sides.
  const double map = 5.0 * static_cast<double>(g.height) * static_cast<double>(g.width) + 2 * MaskUpsampler::Bytes(g) +
                     kBytesOfRow * static_cast<double>(g.height);
  if (task != SegmentTask::kSemantic) return map;
  const double row =
      static_cast<double>(classes) * (2 * static_cast<double>(g.seen_width) + static_cast<double>(g.input_width)) +
      static_cast<double>(queries) * static_cast<double>(g.input_width);
  return map + sizeof(float) * static_cast<double>(ClassScores::kBand + 1) * row;
}

std::optional<SegmentTask> FindSegmentTask(std::string_view name) { return FindIn<SegmentTask>(kSegmentTasks, name); }

Segmentation FindSegments(const MaskOutputs& outputs, const MaskGeometry& geometry, const SegmentRules& rules) {
  CheckOutputs(outputs, geometry);
  Require(rules.task != SegmentTask::kSemantic, "segment: regions of classes are found by FindRegions");
  RequireSegmentationMemory(rules.task, outputs, geometry);
  return rules.task == SegmentTask::kPanoptic ? FindPanoptic(outputs, geometry, rules)
                                              : FindInstances(outputs, geometry, rules);
}

Segmentation FindRegions(std::span<const MaskOutputs> squares, std::span<const int64_t> starts,
                         const MaskGeometry& geometry) {
  Require(!squares.empty() && squares.size() == starts.size(), "segment: {} squares that begin at {} places",
          squares.size(), starts.size());
  CheckOutputs(squares.front(), geometry);
  RequireSegmentationMemory(SegmentTask::kSemantic, squares.front(), geometry);
  ClassScores scores(squares, starts, geometry);
  const int64_t C = scores.classes(), seen_height = geometry.seen_height, seen_width = geometry.seen_width;
  const LinearAxis rows(seen_height, geometry.height), columns(seen_width, geometry.width);
  Segmentation result{Tensor<int32_t>({geometry.height, geometry.width}), {}};
  // A band, and before it the last row of the one before.
  Tensor<float> band({C, ClassScores::kBand + 1, seen_width}), fresh;
  int64_t next = 0;  // row of the photo
  for (int64_t begin = 0; begin < seen_height; begin += ClassScores::kBand) {
    const int64_t count = std::min(ClassScores::kBand, seen_height - begin);
    fresh.Reuse({C, count, seen_width});
    scores.Band(begin, fresh);
    ParallelFor(C, 1, [&](int64_t c, int64_t) {
      float* const to = band.view().at(c);
      std::copy_n(to + ClassScores::kBand * seen_width, seen_width, to);
      std::copy_n(fresh.view().at(c), count * seen_width, to + seen_width);
    });
    int64_t end = next;
    while (end < geometry.height && rows[end].high < begin + count) ++end;
    ParallelFor(end - next, 1, [&](int64_t i, int64_t) {
      const LinearAxis::Place& place = rows[next + i];
      const auto row = [&](int64_t y) -> View<const float> {  // [C, seen_width] of a row of the resized photo
        return View<const float>(band.view().at(0, y - begin + 1), {C, seen_width}, {band.view().stride(0), 1});
      };
      WriteBestClasses(row(place.low), row(place.high), place.share, columns, result.ids.view().row(next + i));
    });
    next = end;
  }
  for (int64_t c = 0; c < C; ++c) {
    Segment& segment = result.segments.emplace_back();
    segment.id = segment.index = c, segment.score = 1, segment.token = -1;
  }
  Complete(&result, C - 1);
  return result;
}

}  // namespace qkv::app
