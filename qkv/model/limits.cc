#include "qkv/model/limits.h"

#include <algorithm>

#include "qkv/core/error.h"
#include "qkv/core/memory.h"

namespace qkv::model {
namespace {

// About a second on two cores, whatever the file's size.
constexpr double kFreeCost = 2e10;
// Published models take up to some 10⁴ operations for each byte of their weights (ViT-Ti on 1024x1024 pixels).
constexpr double kCostOfByte = 1e5;
constexpr double kCostOfExponential = 32;

double Exponentials(double depth, double heads, double tokens) { return depth * heads * tokens * tokens; }

}  // namespace

double ActivationElements(const VitConfig& c, int64_t images, int64_t tokens, int64_t together) {
  const double D = static_cast<double>(c.width), joined = static_cast<double>(c.heads * c.head_width);
  const double attention = 2 * D + ProjectedWidth(c) + 2 * joined;
  const double mlp = D + static_cast<double>(c.mlp_width);
  const double N = static_cast<double>(tokens);
  const double embedding = static_cast<double>(images) * N * (2 * D + static_cast<double>(c.patch_features()));
  const double blocks =
      static_cast<double>(images) * N * D + static_cast<double>(together) * N * std::max(attention, mlp);
  return std::max(embedding, blocks);
}

double PlaceElements(const VitConfig& c, int64_t tokens) {
  const double N = static_cast<double>(tokens);
  const double positions = c.positions == Positions::kNone ? 0 : N * static_cast<double>(c.width);
  if (!nn::IsPositional(c.attention)) return positions;
  const int64_t r = c.attention == nn::AttentionKind::kGaussian ? nn::kGaussianFeatures : c.query_width();
  return positions + 2 * static_cast<double>(c.depth) * static_cast<double>(c.heads) * N * static_cast<double>(r);
}

double Cost(const VitConfig& c, int64_t height, int64_t width) {
  const double patches = static_cast<double>(height / c.patch_height) * static_cast<double>(width / c.patch_width);
  const double N = patches + static_cast<double>(c.prefix());
  return Flops(c, height, width) +
         kCostOfExponential * Exponentials(static_cast<double>(c.depth), static_cast<double>(c.heads), N);
}

double Cost(const SequenceConfig& c) {
  const double exponentials =
      Exponentials(static_cast<double>(c.depth), static_cast<double>(c.heads), static_cast<double>(c.length));
  return Flops(c) + kCostOfExponential * exponentials;
}

void RequireProportion(double cost, double bytes, std::string_view what, std::string_view remedy) {
  const double most = std::max(kFreeCost, kCostOfByte * bytes);
  Require(cost <= most, "{} would take {:.3g} operations, and {} of weights may ask for {:.3g}; {}", what, cost,
          FormatBytes(bytes), most, remedy);
}

}  // namespace qkv::model
