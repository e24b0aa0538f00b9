#include "qkv/app/attention/attend.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "qkv/app/images/image_reader.h"
#include "qkv/app/open/labels.h"
#include "qkv/app/open/parse.h"
#include "qkv/inspect/rollout.h"
#include "qkv/io/float_list.h"
#include "qkv/model/vision/where_not_finite.h"
#include "qkv/report/text.h"

namespace qkv::app {
namespace {

namespace fs = std::filesystem;

// A page with more weights, of a byte each, is slow to open on a phone.
constexpr int64_t kPageWeights = int64_t{24} << 20;

// Classes that a page shows.
constexpr int64_t kShownClasses = 3;

}  // namespace

image::Rect PatchesIn(const model::Model& model, const inspect::TokenGrid& grid, const image::Image& photo,
                      const Shape& pixels) {
  const image::Rect seen = image::VisibleRect(model.preprocess(), photo.height(), photo.width());
  const model::VitConfig& c = model.config();
  const auto part = [](int64_t patches, int64_t patch, int64_t all) {
    return static_cast<double>(patches * patch) / static_cast<double>(all);
  };
  return {seen.top, seen.left, seen.height * part(grid.height, c.patch_height, pixels[1]),
          seen.width * part(grid.width, c.patch_width, pixels[2])};
}

MapFormat ParseOutputFormat(const fs::path& file) {
  const std::string ending = file.extension().string();
  if (ending == ".png") return MapFormat::kPng;
  if (ending == ".npy") return MapFormat::kNpy;
  if (ending == ".safetensors") return MapFormat::kSafeTensors;
  if (ending == ".html") return MapFormat::kHtml;
  if (ending == ".json") return MapFormat::kJson;
  Fail("attend: -o ends in .png, .html, .npy, .safetensors or .json, got {}", file.string());
}

io::Json Nested(View<const float> values) {
  if (values.rank() == 1) return io::FloatList({values.data(), static_cast<size_t>(values.size())});
  io::Json list = io::Json::array();
  for (int64_t i = 0; i < values.dim(0); ++i) list.push_back(Nested(values[i]));
  return list;
}

io::Json Facts(const AttentionMaps& maps) {
  const bool token = maps.query.kind == inspect::Query::Kind::kToken;
  io::Json json = {{"path", maps.path},
                   {"model", maps.model},
                   {"photo", {maps.photo.height(), maps.photo.width()}},
                   {"where", {maps.where.top, maps.where.left, maps.where.height, maps.where.width}},
                   {"grid", {maps.grid.height, maps.grid.width}},
                   {"prefix", maps.grid.prefix},
                   {"query", token ? maps.query.token : -1},
                   {"layers", maps.layers},
                   {"heads", maps.heads}};
  for (const model::Prediction& prediction : maps.top) {
    json["top"].push_back({{"index", prediction.index},
                           {"label", ShownLabel(prediction.label, prediction.index)},
                           {"score", prediction.score}});
  }
  return json;
}

io::Json ToJson(const AttentionMaps& maps) {
  io::Json json = Facts(maps);
  json["weights"] = Nested(maps.weights);
  return json;
}

AttentionMapper::AttentionMapper(const model::Model& model, AttendRequest request)
    : model_(model), request_(std::move(request)) {
  const model::VitConfig& c = model.config();
  const bool page = request_.format == MapFormat::kHtml && !request_.rollout;
  plan_ = PlanMaps(request_.layers, request_.head, c.depth, c.block.attention.heads, page);
  if (request_.rollout) {
    PlanRollout();
  } else {
    Require(request_.discard == 0 && request_.start == 0, "attend: --discard and --start belong to --rollout");
  }
  if (c.block.attention.maps() > 1) {
    Notify(
        request_.note,
        "weights are differences of two softmaxes: some are negative, which pages show as 0, and a row sums to 1 − λ");
  }
  Require(c.channels == 1 || c.channels == 3, "the model takes {} channels, images have 1 or 3", c.channels);
}

void AttentionMapper::PlanRollout() {
  Require(plan_.fusion.has_value(), "--head: a rollout follows mean, max or min of the heads, got \"{}\"",
          request_.head);
  Require(plan_.blocks.size() == 1, "--layer: a rollout ends in one block, got \"{}\"", request_.layers);
  const int64_t last = plan_.blocks[0];
  Require(request_.start <= last, "--start: expected a block from 0 to {}, where the rollout ends, got {}", last,
          request_.start);
  plan_.rows = {fmt::format("rollout {}-{}", request_.start, last)};
}

// The size of a page is bounded. Every query is in it if blocks and heads that were not requested by name may be left
// out for that; otherwise one query, of all of them: N weights a head in place of N².
bool AttentionMapper::FitPage(MapPlan& plan, const AttentionMaps& maps) const {
  const int64_t N = maps.grid.tokens(), last = model_.config().depth - 1;
  const bool may_leave = !request_.rollout && request_.query.empty();
  const bool leaves_blocks = may_leave && request_.layers.empty(), leaves_heads = may_leave && request_.head.empty();
  MapPlan every = plan;
  const std::string kept = every.Reduce(N * N, kPageWeights, leaves_blocks, leaves_heads, last);
  const bool fits = every.weights(N * N) <= kPageWeights;
  if (!kept.empty() && fits) {
    Notify(request_.note,
           FormatShown("{} tokens: the page holds {} only; --layer and --head choose others, and --query "
                       "one query in all of them",
                       N, kept));
  }
  if (fits) plan = std::move(every);
  if (fits) return true;
  Require(maps.query.kind != inspect::Query::Kind::kAll && plan.weights(N) <= kPageWeights,
          "attend: a page of {} × {} × {} weights (blocks, heads, tokens) of {} is more than {}; ask for {}a smaller "
          "--size, or write .png or .npy",
          plan.rows.size(), plan.columns.size(), N, inspect::Describe(maps.query, maps.grid),
          report::WithCommas(kPageWeights),
          maps.query.kind == inspect::Query::Kind::kAll ? "one token by --query, or for " : "fewer blocks, or for ");
  Notify(request_.note, FormatShown("{} tokens: the page holds the attention of one query, {}; --query chooses another",
                                    N, inspect::Describe(maps.query, maps.grid)));
  return false;
}

AttentionMaps AttentionMapper::Compute(const fs::path& file, const image::DecodeOptions& decode) {
  image::Image photo;
  ReadImage(file, decode, decoding_, photo);
  return Compute(std::move(photo), file.string());
}

AttentionMaps AttentionMapper::Compute(image::Image photo, const std::string& path) {
  const Shape shape = model_.PixelsShape(photo);
  Tensor<float> pixels({1, shape[0], shape[1], shape[2]});
  model_.Pixels(photo, decoding_, pixels.view()[0]);
  AttentionMaps maps;
  maps.path = path;
  maps.model = request_.model.empty() ? model_.config().architecture : request_.model;
  maps.grid = inspect::MakeTokenGrid(model_.config(), shape[1], shape[2]);
  maps.query = inspect::ParseQuery(request_.query, maps.grid);
  maps.where = PatchesIn(model_, maps.grid, photo, shape);
  maps.photo = std::move(photo);
  MapPlan plan = plan_;
  inspect::Query computed = maps.query;
  if (request_.format == MapFormat::kHtml) {
    if (FitPage(plan, maps)) computed = {inspect::Query::Kind::kAll, 0};
  }
  Require(request_.format != MapFormat::kPng || computed.kind != inspect::Query::Kind::kAll,
          "attend: --query all makes {} maps; write them as .npy, .safetensors or .html", maps.grid.tokens());
  Tensor<float> logits;  // of a page
  if (request_.format == MapFormat::kHtml && model_.config().classes > 0)
    logits = Tensor<float>({1, model_.config().outputs()});
  maps.weights = Weights(plan, computed, pixels, logits);
  model::RequireFinite(model_.vit(), pixels, maps.weights, path);
  maps.layers = std::move(plan.rows), maps.heads = std::move(plan.columns);
  if (request_.rollout) maps.discard = request_.discard;
  if (!logits.empty()) maps.top = model_.Top(logits.span(), kShownClasses);
  return maps;
}

Tensor<float> AttentionMapper::Weights(const MapPlan& plan, const inspect::Query& query, View<const float> pixels,
                                       View<float> logits) {
  if (!request_.rollout) {
    return inspect::AttentionMaps<float>(model_.vit(), pixels, {plan.blocks, plan.heads, plan.fusion, query},
                                         workspace_, logits);
  }
  if (!logits.empty()) model_.Forward(pixels, workspace_, {.logits = logits});
  const Tensor<float> rows = inspect::AttentionRollout<float>(model_.vit(), pixels,
                                                              {.first_block = request_.start,
                                                               .last_block = plan.blocks[0],
                                                               .fusion = *plan.fusion,
                                                               .discard = request_.discard,
                                                               .query = query},
                                                              workspace_);
  Tensor<float> weights({1, 1, rows.dim(0), rows.dim(1)});
  std::copy_n(rows.data(), rows.size(), weights.data());
  return weights;
}

}  // namespace qkv::app
