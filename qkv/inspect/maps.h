// Attention maps: where the tokens of an image look, in chosen blocks and heads. Only what is asked for is computed,
// beside the fused path; blocks behind the last one are left out, and so is what the last one does with its weights,
// but for values that one product makes with the keys.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/inspect/fusion.h"
#include "qkv/model/vit.h"

namespace qkv::inspect {

/// Where the tokens of an image lie: some before the patches, then the patches, row by row.
struct TokenGrid {
  std::vector<std::string> prefix;  // "class", "distillation", "register 0", …
  int64_t height = 0, width = 0;    // in patches
  bool class_token = false;         // the first of the prefix is one

  int64_t patches() const { return height * width; }                                  // of the grid
  int64_t tokens() const { return static_cast<int64_t>(prefix.size()) + patches(); }  // N
};

/// Of an input of so many pixels, which the model takes.
TokenGrid GridOf(const model::VitConfig& config, int64_t pixels_height, int64_t pixels_width);

/// Whose attention is asked for.
struct Query {
  /// How many tokens are asked for.
  enum class Kind {
    kToken,  // one token
    kMean,   // the mean of what the patches attend to
    kAll,    // every token
  };
  Kind kind = Kind::kToken;  // one token, the mean of the patches, or all
  int64_t token = 0;         // of Kind::kToken: its index, prefix tokens first
};

/// "cls" (class token), "dist" (distillation token), "regI" (register), "ROW,COL" (patch, from 0), "mean", "all";
/// "" is the class token, or the mean of the patches where there is none. Throws Error that names what there is.
Query ParseQuery(std::string_view text, const TokenGrid& grid);
/// "class token", "patch 3,4", "mean of patches", …
std::string Describe(const Query& query, const TokenGrid& grid);

/// Which maps AttentionMaps computes.
struct MapRequest {
  std::vector<int64_t> blocks = {};   // from 0
  std::vector<int64_t> heads = {};    // from 0; empty: all
  std::optional<Fusion> fusion = {};  // of these heads into one
  Query query = {};                   // whose attention
};

/// Attention weights of one image, [L, H, Q, N]: the blocks and heads (1 when fused) in the order asked for, the
/// queries (1, or N for all), and what they attend to; each row of a head sums to 1. Heads are fused before rows are
/// averaged. pixels: [1, channels, height, width], finite. Memory beside the result does not grow with N². Throws Error
/// for pixels, blocks, heads or tokens that do not fit.
template <typename T>
Tensor<T> AttentionMaps(const model::Vit<T>& vit, View<const T> pixels, const MapRequest& request,
                        model::Workspace<T>& workspace);

/// The same checks on any input of maps: [1, channels, height, width], finite.
template <typename T>
void CheckPixels(View<const T> pixels);

}  // namespace qkv::inspect
