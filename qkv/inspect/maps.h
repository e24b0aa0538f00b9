// Attention maps of chosen blocks and heads. Computes only what is requested, beside the fused path. Blocks after the
// last requested one are skipped, and so is the last one's use of its weights, except values that share a product with
// the keys.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/inspect/fusion.h"
#include "qkv/model/vision/vit.h"

namespace qkv::inspect {

/// Layout of an image's tokens: prefix tokens, then patches in row-major order.
struct TokenGrid {
  std::vector<std::string> prefix;  // "class", "distillation", "register 0", "detection 0", "mask 0", …
  int64_t height = 0, width = 0;    // in patches
  bool class_token = false;         // the first prefix token is a class token

  int64_t patches() const { return height * width; }                                  // in the grid
  int64_t tokens() const { return static_cast<int64_t>(prefix.size()) + patches(); }  // N
};

/// The grid for an input of this size, which the model must accept.
TokenGrid MakeTokenGrid(const model::VitConfig& config, int64_t pixels_height, int64_t pixels_width);

/// The query tokens of a map.
struct Query {
  /// The kinds of query.
  enum class Kind {
    kToken,  // one token
    kMean,   // mean over the attention of all patches
    kAll,    // every token
  };
  Kind kind = Kind::kToken;  // which tokens
  int64_t token = 0;         // for kToken: its index, counting prefix tokens
};

/// Parses "cls" (class token), "dist" (distillation token), "regI" (register), "detI" (detection token), "maskI" (query
/// token of a mask), "ROW,COL" (patch, from 0), "mean", "all"; "" is the class token, or the mean of the patches
/// without one. Throws Error that lists the choices.
Query ParseQuery(std::string_view text, const TokenGrid& grid);
/// "class token", "patch 3,4", "mean of patches", …
std::string Describe(const Query& query, const TokenGrid& grid);

/// Which maps AttentionMaps computes.
struct MapRequest {
  std::vector<int64_t> blocks = {};   // from 0
  std::vector<int64_t> heads = {};    // from 0; empty: all
  std::optional<Fusion> fusion = {};  // fuse the heads into one
  Query query = {};                   // the query tokens
};

/// Attention weights of one image, [L, H, Q, N]: the blocks and heads (1 if fused) in the requested order, the queries
/// (1, or N for all), and the keys; each row of a head sums to 1. Heads are fused before rows are averaged. pixels: [1,
/// channels, height, width], finite. Besides the result, memory does not grow with N². Throws Error if pixels, blocks,
/// heads or tokens do not fit. logits: if not empty, [1, outputs], which the same pass then computes.
template <typename T>
Tensor<T> AttentionMaps(const model::Vit<T>& vit, View<const T> pixels, const MapRequest& request,
                        model::Workspace<T>& workspace, View<T> logits = {});

/// Checks the input of maps: [1, channels, height, width], finite.
template <typename T>
void CheckPixels(View<const T> pixels);

}  // namespace qkv::inspect
