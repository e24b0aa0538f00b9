#include "qkv/inspect/heads_tokens.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "qkv/algebra/fold.h"
#include "qkv/core/parallel.h"
#include "qkv/core/rng.h"

namespace qkv::inspect {
namespace {

// Layout of the tokens: class (and distillation) token, registers, patches.
struct Places {
  int64_t class_tokens = 0, prefix = 0, height = 0, width = 0;
  std::vector<double> distance;  // [height, width], of two patches that many rows and columns apart

  Places(const model::VitConfig& config, int64_t grid_height, int64_t grid_width)
      : class_tokens(config.class_token + config.distillation_token),
        prefix(config.prefix()),
        height(grid_height),
        width(grid_width) {
    for (int64_t y = 0; y < height; ++y) {
      for (int64_t x = 0; x < width; ++x)
        distance.push_back(std::hypot(static_cast<double>(y), static_cast<double>(x)));
    }
  }
  int64_t tokens() const { return prefix + height * width; }
};

// Sums over queries; `patches` counts the patches that attend to patches.
struct Sums {
  HeadAttention sum;
  int64_t queries = 0, patches = 0;

  HeadAttention Mean() const {
    const auto mean = [](double total, int64_t count) {
      return count > 0 ? total / static_cast<double>(count) : std::numeric_limits<double>::quiet_NaN();
    };
    constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
    return {.entropy = mean(sum.entropy, queries),
            .distance = mean(sum.distance, patches),
            .near = mean(sum.near, patches),
            .self = mean(sum.self, queries),
            .class_token = mean(sum.class_token, queries),
            .registers = mean(sum.registers, queries),
            .first = kNone,
            .last = kNone,
            .diagonal = kNone};
  }
};

// row: a patch's attention to all patches, [height · width]
void AddPlace(const float* row, int64_t patch, const Places& places, Sums& sums) {
  const int64_t y = patch / places.width, x = patch % places.width;
  double all = 0, distance = 0, near = 0;
  for (int64_t i = 0; i < places.height; ++i) {
    const int64_t dy = std::abs(i - y);
    const double* of_row = places.distance.data() + dy * places.width;
    for (int64_t j = 0; j < places.width; ++j) {
      const int64_t dx = std::abs(j - x);
      const double a = row[i * places.width + j];
      all += a, distance += a * of_row[dx];
      if (dy <= 1 && dx <= 1) near += a;
    }
  }
  if (all <= 0) return;  // all attention is on other tokens
  sums.sum.distance += distance / all, sums.sum.near += near / all;
  ++sums.patches;
}

// row: A of one query, [N]
void AddQuery(const float* row, int64_t query, const Places& places, Sums& sums) {
  const int64_t N = places.tokens();
  for (int64_t j = 0; j < N; ++j) {
    if (row[j] > 0) sums.sum.entropy -= row[j] * std::log(row[j]);
  }
  for (int64_t j = 0; j < places.class_tokens; ++j) sums.sum.class_token += row[j];
  for (int64_t j = places.class_tokens; j < places.prefix; ++j) sums.sum.registers += row[j];
  sums.sum.self += row[query];
  if (query >= places.prefix) AddPlace(row + places.prefix, query - places.prefix, places, sums);
  ++sums.queries;
}

HeadAttention Uniform(const Places& places) {
  const int64_t N = places.tokens();
  const std::vector<float> row(static_cast<size_t>(N), 1 / static_cast<float>(N));
  Sums sums;
  for (int64_t i = 0; i < N; ++i) AddQuery(row.data(), i, places, sums);
  return sums.Mean();
}

// x̂ of tokens [1, N, D].
Tensor<double> Normalised(const Tensor<float>& tokens, double eps) {
  Tensor<double> wide({tokens.dim(1), tokens.dim(2)});
  for (int64_t i = 0; i < wide.size(); ++i) wide[i] = tokens[i];
  return algebra::Normalise(wide, eps);
}

// Runs images one after the other and keeps the blocks' input tokens.
class Passes {
 public:
  Passes(const model::Model& model, View<const float> pixels, int64_t tokens) : model_(model), pixels_(pixels) {
    for (int64_t block = 0; block < model.config().depth; ++block) {
      hidden_.emplace_back(Shape{1, tokens, model.config().block.width});
    }
  }

  int64_t images() const { return pixels_.dim(0); }

  /// Runs image b with these attention requests, then calls use(block, x̂ [N, D]) for every block.
  template <typename F>
  void Run(int64_t b, std::vector<model::Outputs<float>::Attention> attention, F&& use) {
    model::Outputs<float> outputs{.attention = std::move(attention)};
    for (size_t block = 0; block < hidden_.size(); ++block) {
      outputs.hidden.push_back({static_cast<int64_t>(block), hidden_[block]});
    }
    model_.Forward(pixels_.slice(0, b, b + 1), workspace_, outputs);
    for (size_t block = 0; block < hidden_.size(); ++block) {
      use(block, Normalised(hidden_[block], model_.config().block.norm.eps));
    }
  }

 private:
  const model::Model& model_;
  const View<const float> pixels_;
  model::Workspace<float> workspace_;
  std::vector<Tensor<float>> hidden_;  // [1, N, D] of each block
};

// Computes the means over the images, and each block's LogitSplit.
std::vector<LogitSplit> SplitBlocks(const model::Checkpoint& checkpoint, const Shape& tokens, Passes& passes,
                                    const std::function<void()>& advance) {
  const int64_t depth = checkpoint.description.config.depth;
  std::vector<Tensor<double>> means;
  for (int64_t block = 0; block < depth; ++block) means.emplace_back(tokens);
  for (int64_t b = 0; b < passes.images(); ++b) {
    passes.Run(b, {}, [&](size_t block, const Tensor<double>& normalised) {
      for (int64_t i = 0; i < normalised.size(); ++i) {
        means[block][i] += normalised[i] / static_cast<double>(passes.images());
      }
    });
    advance();
  }
  std::vector<LogitSplit> blocks;
  for (int64_t block = 0; block < depth; ++block) {
    blocks.emplace_back(ReadAttention(checkpoint, block), means[static_cast<size_t>(block)]);
  }
  return blocks;
}

}  // namespace

TokenStatistics MeasureTokens(const model::Checkpoint& checkpoint, const model::Model& model, View<const float> pixels,
                              const std::function<void()>& advance) {
  const model::VitConfig& config = model.config();
  Require(pixels.rank() == 4 && pixels.dim(0) > 0,
          "inspect heads: expected pixels [B, channels, height, width], got {}", pixels.shape());
  const int64_t N = model.TokensFor(pixels.dim(2), pixels.dim(3)), H = config.block.attention.heads, L = config.depth;
  const Places places(config, pixels.dim(2) / config.patch_height, pixels.dim(3) / config.patch_width);
  TokenStatistics statistics{.images = pixels.dim(0),
                             .tokens = N,
                             .grid_height = places.height,
                             .grid_width = places.width,
                             .uniform = Uniform(places)};
  Passes passes(model, pixels, N);
  std::vector<LogitSplit> splits;
  if (pixels.dim(0) > 1 && config.scores_are_bilinear()) {
    splits = SplitBlocks(checkpoint, {N, config.block.width}, passes, advance);
  }

  std::vector<Sums> sums(static_cast<size_t>(L * H));
  std::vector<model::Outputs<float>::Attention> attention;
  for (int64_t block = 0; block < L; ++block) {
    const auto add = [&, block](int64_t row, View<const float> weights) {  // [1, H, rows, N]
      ParallelTasks(H, [&](int64_t h, int) {
        for (int64_t i = 0; i < weights.dim(2); ++i) {
          AddQuery(weights.at(0, h, i), row + i, places, sums[static_cast<size_t>(block * H + h)]);
        }
      });
    };
    attention.push_back({block, {.row_end = N, .visit = add}});
  }
  LogitScratch scratch;
  for (int64_t b = 0; b < pixels.dim(0); ++b) {
    passes.Run(b, attention, [&](size_t block, const Tensor<double>& normalised) {
      if (!splits.empty()) splits[block].Add(normalised, scratch);
    });
    advance();
  }
  for (const Sums& head : sums) statistics.attention.push_back(head.Mean());
  for (const LogitSplit& block : splits) std::ranges::copy(block.Shares(), std::back_inserter(statistics.logits));
  return statistics;
}

Tensor<float> NoiseImages(const Shape& shape, uint64_t seed) {
  Tensor<float> images(shape);
  const int64_t height = shape[2], width = shape[3];
  Rng rng(seed);
  for (int64_t plane = 0; plane < shape[0] * shape[1]; ++plane) {
    float* pixels = images.data() + plane * height * width;
    for (int64_t cell = 1; cell <= std::max(height, width); cell *= 2) {
      const int64_t columns = width / cell + 2, rows = height / cell + 2;
      std::vector<double> corners(static_cast<size_t>(rows * columns));
      for (double& corner : corners) corner = rng.Normal();
      for (int64_t y = 0; y < height; ++y) {
        for (int64_t x = 0; x < width; ++x) {
          const double* corner = corners.data() + (y / cell) * columns + x / cell;
          const double v = static_cast<double>(y % cell) / static_cast<double>(cell),
                       u = static_cast<double>(x % cell) / static_cast<double>(cell);
          pixels[y * width + x] += static_cast<float>((1 - v) * ((1 - u) * corner[0] + u * corner[1]) +
                                                      v * ((1 - u) * corner[columns] + u * corner[columns + 1]));
        }
      }
    }
  }
  const int64_t pixels = images.size() / shape[0];
  for (int64_t b = 0; b < shape[0]; ++b) {
    float* image = images.data() + b * pixels;
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < pixels; ++i) sum += image[i], squares += static_cast<double>(image[i]) * image[i];
    const double mean = sum / static_cast<double>(pixels);
    const double deviation = std::sqrt(std::max(squares / static_cast<double>(pixels) - mean * mean, 1e-12));
    for (int64_t i = 0; i < pixels; ++i) image[i] = static_cast<float>((image[i] - mean) / deviation);
  }
  return images;
}

}  // namespace qkv::inspect
