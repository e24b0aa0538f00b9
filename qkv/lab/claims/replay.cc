#include "qkv/lab/claims/replay.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "qkv/algebra/fold.h"
#include "qkv/core/error.h"
#include "qkv/inspect/weights.h"
#include "qkv/lab/claims/translator.h"

namespace qkv::lab::internal {
namespace {

struct Stroke {
  double x0, y0, x1, y1;
};

// Segments of the digits: top, upper left, upper right, middle, lower left, lower right, bottom.
constexpr std::array<uint8_t, 10> kSegments = {0b1110111, 0b0010010, 0b1011101, 0b1011011, 0b0111010,
                                               0b1101011, 0b1101111, 0b1010010, 0b1111111, 0b1111011};
constexpr std::array<Stroke, 7> kStrokes = {{{10, 6, 18, 6},
                                             {10, 6, 10, 14},
                                             {18, 6, 18, 14},
                                             {10, 14, 18, 14},
                                             {10, 14, 10, 22},
                                             {18, 14, 18, 22},
                                             {10, 22, 18, 22}}};

double Distance(const Stroke& s, double x, double y) {
  const double dx = s.x1 - s.x0, dy = s.y1 - s.y0;
  const double t = std::clamp(((x - s.x0) * dx + (y - s.y0) * dy) / (dx * dx + dy * dy), 0.0, 1.0);
  return std::hypot(x - s.x0 - t * dx, y - s.y0 - t * dy);
}

// White on black, 28×28, like the built-in model's training images.
image::Image DrawDigit(size_t digit) {
  constexpr int64_t kSide = 28;
  constexpr double kHalf = 1.4;  // half a stroke's width
  image::Image image{Tensor<uint8_t>({kSide, kSide, 1})};
  for (int64_t y = 0; y < kSide; ++y) {
    for (int64_t x = 0; x < kSide; ++x) {
      double ink = 0;
      for (size_t s = 0; s < kStrokes.size(); ++s) {
        if ((kSegments[digit] >> (6 - s) & 1) == 0) continue;
        const double d = Distance(kStrokes[s], static_cast<double>(x), static_cast<double>(y));
        ink = std::max(ink, std::clamp(kHalf + .5 - d, 0.0, 1.0));
      }
      image.pixels[y * kSide + x] = static_cast<uint8_t>(std::lround(255 * ink));
    }
  }
  return image;
}

const model::Checkpoint& GivenModel(const Setup& setup) {
  Require(setup.checkpoint != nullptr, "claims: expected a checkpoint, got none");
  return *setup.checkpoint;
}

Tensor<float> PreparePixels(const model::Model& model, std::span<const image::Image> images) {
  const Shape one = model.Pixels(images[0]).shape();
  Tensor<float> pixels({static_cast<int64_t>(images.size()), one[1], one[2], one[3]});
  for (size_t i = 0; i < images.size(); ++i) {
    const Tensor<float> pixel = model.Pixels(images[i]);
    Require(pixel.shape() == one, "claims: image {} gives {}, the first one {}", i, pixel.shape(), one);
    std::copy_n(pixel.data(), pixel.size(), pixels.data() + static_cast<int64_t>(i) * pixel.size());
  }
  return pixels;
}

algebra::Projection FoldedHead(const inspect::AttentionWeights& weights, const algebra::Projection& layer,
                               int64_t head) {
  const auto part = algebra::Head(layer, head, weights.heads);
  if (!weights.gamma.empty()) {
    return algebra::FoldLayerNorm(part, weights.gamma,
                                  weights.beta.empty() ? View<const double>() : weights.beta.view());
  }
  algebra::Projection own;
  own.weight = Tensor<double>({part.weight.dim(0), part.weight.dim(1)});
  std::copy_n(part.weight.data(), own.weight.size(), own.weight.data());
  if (!part.bias.empty()) {
    own.bias = Tensor<double>({part.bias.dim(0)});
    std::copy_n(part.bias.data(), own.bias.size(), own.bias.data());
  }
  return own;
}

}  // namespace

Bench::Bench(const Setup& setup) : setup_(setup), model_(GivenModel(setup)) {
  for (const AblationResults& results : setup.ablations) {
    (results.varied == Name(Varied::kLayers) ? of_layers_ : of_cross_).push_back(results);
  }
  setup_.ablations = of_layers_;
  std::vector<image::Image> digits;
  for (size_t digit = 0; digit < 10 && setup.images.empty(); ++digit) digits.push_back(DrawDigit(digit));
  pixels_ = PreparePixels(model_, setup.images.empty() ? std::span<const image::Image>(digits) : setup.images);

  const View<const float> first = pixels_.view().slice(0, 0, 1);
  const int64_t N = model_.TokensFor(first.dim(2), first.dim(3)), D = model_.config().block.width;
  std::vector<Tensor<float>> hidden;
  for (int64_t block = 0; block < depth(); ++block) hidden.emplace_back(Shape{1, N, D});
  model::Outputs<float> outputs;
  for (int64_t block = 0; block < depth(); ++block) {
    outputs.hidden.push_back({block, hidden[static_cast<size_t>(block)].view()});
  }
  model::Workspace<float> workspace;
  model_.Forward(first, workspace, outputs);

  tokens_.reserve(static_cast<size_t>(depth()));
  for (int64_t block = 0; block < depth(); ++block) {
    Matrix tokens({N, D});
    std::ranges::copy(hidden[static_cast<size_t>(block)].span(), tokens.data());
    const auto weights = inspect::ReadAttention(*setup.checkpoint, block);
    tokens_.push_back(algebra::Normalise(tokens, weights.eps));
    for (int64_t head = 0; head < weights.heads; ++head) {
      trained_.push_back({.block = block,
                          .head = head,
                          .pair = {FoldedHead(weights, weights.query, head), FoldedHead(weights, weights.key, head)},
                          .scale = weights.scale,
                          .value = FoldedHead(weights, weights.value, head),
                          .tokens = &tokens_.back()});
    }
  }
}

Bench::~Bench() = default;

const Translator* Bench::translator() const {
  if (!translator_ && !setup_.translator.empty()) translator_ = std::make_unique<const Translator>(setup_);
  return translator_.get();
}

Matrix Integers(const Shape& shape, Rng& rng) {
  Matrix m(shape);
  for (double& x : m.span()) x = static_cast<double>(rng.Next() % 5) - 2;
  return m;
}

Matrix Uniform(const Shape& shape, Rng& rng) {
  Matrix m(shape);
  for (double& x : m.span()) x = rng.Uniform();
  return m;
}

Matrix Normal(const Shape& shape, Rng& rng, double stddev) {
  Matrix m(shape);
  for (double& x : m.span()) x = stddev * rng.Normal();
  return m;
}

algebra::Projection NormalProjection(int64_t E, int64_t D, Rng& rng, double bias) {
  algebra::Projection p{Normal({E, D}, rng, 1 / std::sqrt(static_cast<double>(D))), {}};
  if (bias > 0) p.bias = Normal({E}, rng, bias);
  return p;
}

Matrix Multiply(View<const double> a, View<const double> b) {
  Matrix c({a.dim(0), b.dim(1)});
  for (int64_t i = 0; i < a.dim(0); ++i) {
    for (int64_t k = 0; k < a.dim(1); ++k) {
      for (int64_t j = 0; j < b.dim(1); ++j) c[i * b.dim(1) + j] += *a.at(i, k) * *b.at(k, j);
    }
  }
  return c;
}

double Norm(View<const double> m) {
  double sum = 0;
  for (int64_t i = 0; i < m.dim(0); ++i) {
    for (int64_t j = 0; j < m.dim(1); ++j) sum += *m.at(i, j) * *m.at(i, j);
  }
  return std::sqrt(sum);
}

double MaxDifference(View<const double> a, View<const double> b) {
  Require(a.shape() == b.shape(), "difference: {} and {}", a.shape(), b.shape());
  double greatest = 0;
  for (int64_t i = 0; i < a.dim(0); ++i) {
    for (int64_t j = 0; j < a.dim(1); ++j) greatest = std::max(greatest, std::abs(*a.at(i, j) - *b.at(i, j)));
  }
  return greatest;
}

double Asymmetry(const Matrix& scores) { return MaxDifference(scores, algebra::Transpose(scores)); }

double LogitMagnitude(const algebra::QueryKeyView& pair, View<const double> tokens) {
  double token = 0;
  for (int64_t i = 0; i < tokens.dim(0); ++i) token = std::max(token, Norm(tokens.slice(0, i, i + 1)));
  return (token * token + 1) * Norm(algebra::Augment(pair.query)) * Norm(algebra::Augment(pair.key));
}

}  // namespace qkv::lab::internal
