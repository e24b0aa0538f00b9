#include "cli/drift.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace qkv::cli {
namespace {

int64_t First(const Tensor<float>& logits, int64_t row) {
  const float* values = logits.view().row(row);
  return std::max_element(values, values + logits.dim(1)) - values;
}

// −1 where the name is of no class.
int64_t ClassOf(const std::string& name, const std::vector<std::string>& labels, int64_t classes) {
  const auto label = std::ranges::find(labels, name);
  if (label != labels.end()) return label - labels.begin();
  int64_t index = -1;
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data(), end, index);
  return error == std::errc() && stop == end && index >= 0 && index < classes ? index : -1;
}

}  // namespace

Drift DriftOf(const Tensor<float>& logits, const Tensor<float>& exact) {
  Drift drift;
  const int64_t images = exact.dim(0), outputs = exact.dim(1);
  for (int64_t i = 0; i < images; ++i) {
    const float *a = logits.view().row(i), *b = exact.view().row(i);
    double ab = 0, aa = 0, bb = 0;
    for (int64_t j = 0; j < outputs; ++j) {
      ab += double{a[j]} * b[j], aa += double{a[j]} * a[j], bb += double{b[j]} * b[j];
    }
    drift.cosine += ab / std::sqrt(aa * bb);
    drift.top1 += First(logits, i) == First(exact, i);
  }
  drift.cosine /= static_cast<double>(images);
  drift.top1 /= static_cast<double>(images);
  return drift;
}

std::optional<std::vector<int64_t>> ClassesOf(const std::vector<std::string>& files,
                                              const std::filesystem::path& folder,
                                              const std::vector<std::string>& labels, int64_t classes) {
  std::vector<int64_t> result;
  for (const std::string& file : files) {
    const std::filesystem::path inside = std::filesystem::path(file).lexically_relative(folder);
    if (inside.empty() || std::next(inside.begin()) == inside.end()) return {};
    result.push_back(ClassOf(inside.begin()->string(), labels, classes));
    if (result.back() < 0) return {};
  }
  return result;
}

double Accuracy(const Tensor<float>& logits, const std::vector<int64_t>& classes) {
  int64_t right = 0;
  for (int64_t i = 0; i < logits.dim(0); ++i) right += First(logits, i) == classes[static_cast<size_t>(i)];
  return static_cast<double>(right) / static_cast<double>(logits.dim(0));
}

}  // namespace qkv::cli
