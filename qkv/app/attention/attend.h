// Attention maps of images: where a model looks. How they are written: attention_files.h.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "qkv/app/attention/map_plan.h"
#include "qkv/app/open/note.h"
#include "qkv/image/image.h"
#include "qkv/image/rect.h"
#include "qkv/image/workspace.h"
#include "qkv/inspect/maps.h"
#include "qkv/io/json.h"
#include "qkv/model/model.h"

namespace qkv::app {

enum class MapFormat { kPng, kNpy, kSafeTensors, kHtml, kJson };

/// By the ending of a file's name. Throws Error for any other.
MapFormat ParseOutputFormat(const std::filesystem::path& file);

/// The area of the patches in the photo: the model does not see rows and columns that make no whole patch. pixels: the
/// shape of the input, [channels, height, width].
image::Rect PatchesIn(const model::Model& model, const inspect::TokenGrid& grid, const image::Image& photo,
                      const Shape& pixels);

/// A tensor as nested arrays.
io::Json Nested(View<const float> values);

/// What is computed, in the words of `qkv attend`.
struct AttendRequest {
  std::string layers;  // blocks from 0: "11", "0,5,11" or "all"; empty: the last, or all for a page
  std::string head;    // "3", "0,3", "all", or "mean", "max", "min" of the heads; empty: mean, or all for a page
  std::string query;   // as inspect::ParseQuery
  bool rollout = false;
  double discard = 0;  // of a rollout, as inspect::RolloutRequest
  int64_t start = 0;   // of a rollout: its first block
  // kHtml: every query, for the page, or one if more are too many for it; kPng: one query; JSON as kNpy.
  MapFormat format = MapFormat::kNpy;
  std::string model;  // its name for people; empty: its architecture
  Note note;          // receives what a page leaves out
};

/// The attention of one image.
struct AttentionMaps {
  std::string path;
  std::string model;                   // its name for people
  std::vector<model::Prediction> top;  // for a page: the most probable classes, best first; empty without a classifier
  image::Image photo;
  image::Rect where;  // the area of the patches in the photo's pixels
  inspect::TokenGrid grid;
  inspect::Query query;                    // as requested; a page shows it first
  std::vector<std::string> layers, heads;  // names of the blocks (or of the rollout) and of the heads
  std::optional<double> discard;           // for a rollout
  Tensor<float> weights;                   // [layers, heads, Q, N], Q: 1 or N; a row of an unfused head sums to 1

  int64_t prefix() const { return static_cast<int64_t>(grid.prefix.size()); }
  /// The part of row (l, h, q) that goes to the patches: [grid height, grid width].
  View<const float> Map(int64_t l, int64_t h, int64_t q) const {
    return View<const float>(weights.view().at(l, h, q, prefix()), {grid.height, grid.width});
  }
};

/// All but the weights: {"path", "model", "photo": [height, width], "where": [top, left, height, width], "grid":
/// [height, width], "prefix", "query", "layers", "heads", for a page "top": [{"index", "label", "score"}]}. "query" is
/// a token, or −1: the mean of the patches, or every query.
io::Json Facts(const AttentionMaps& maps);
/// Facts and "weights": nested arrays [layers, heads, queries, tokens].
io::Json ToJson(const AttentionMaps& maps);

/// Computes maps of one image after the other. Refers to the model.
class AttentionMapper {
 public:
  /// Throws Error for blocks, heads or a rollout that the model does not have, and if the model takes no images.
  AttentionMapper(const model::Model& model, AttendRequest request);

  /// Throws Error for a query that the image's grid does not have, if a page would be too large, if the weights are not
  /// finite, and as image::Decode. `file` may be "-": standard input.
  AttentionMaps Compute(const std::filesystem::path& file, const image::DecodeOptions& decode);
  /// The same for a decoded image; `path` names it.
  AttentionMaps Compute(image::Image photo, const std::string& path);

 private:
  void PlanRollout();
  /// Chooses what a page holds; returns whether that is every query.
  bool FitPage(MapPlan& plan, const AttentionMaps& maps) const;
  Tensor<float> Weights(const MapPlan& plan, const inspect::Query& query, View<const float> pixels, View<float> logits);

  const model::Model& model_;
  const AttendRequest request_;
  MapPlan plan_;  // for every image; a rollout has one row and no heads
  image::Workspace decoding_;
  model::Workspace<float> workspace_;
};

}  // namespace qkv::app
