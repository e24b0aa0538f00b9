#include "qkv/inspect/maps.h"

#include <charconv>
#include <cmath>
#include <numeric>

#include "qkv/core/memory.h"
#include "qkv/core/parallel.h"

namespace qkv::inspect {
namespace {

std::optional<int64_t> ParseNumber(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

std::optional<Query> FindPrefix(std::string_view name, const TokenGrid& grid) {
  for (size_t i = 0; i < grid.prefix.size(); ++i) {
    if (grid.prefix[i] == name) return Query{Query::Kind::kToken, static_cast<int64_t>(i)};
  }
  return std::nullopt;
}

// The queries that ParseQuery accepts for this model.
std::string Choices(const TokenGrid& grid) {
  std::string choices;
  int64_t registers = 0, detection = 0, masks = 0;
  for (const std::string& name : grid.prefix) {
    if (name == "class") choices += "cls, ";
    if (name == "distillation") choices += "dist, ";
    registers += name.starts_with("register"), detection += name.starts_with("detection");
    masks += name.starts_with("mask");
  }
  const auto add = [&](std::string_view name, int64_t count) {
    if (count == 1) choices += fmt::format("{}0, ", name);
    if (count > 1) choices += fmt::format("{0}0 … {0}{1}, ", name, count - 1);
  };
  add("reg", registers), add("det", detection), add("mask", masks);
  return choices + fmt::format("a patch from 0,0 to {},{}, mean or all", grid.height - 1, grid.width - 1);
}

}  // namespace

TokenGrid MakeTokenGrid(const model::VitConfig& config, int64_t pixels_height, int64_t pixels_width) {
  TokenGrid grid{{}, pixels_height / config.patch_height, pixels_width / config.patch_width, config.class_token};
  for (const model::PrefixTokens& tokens : config.prefix_tokens()) {
    for (int64_t i = 0; i < tokens.count; ++i) {
      grid.prefix.push_back(tokens.numbered ? fmt::format("{} {}", tokens.name, i) : std::string(tokens.name));
    }
  }
  return grid;
}

Query ParseQuery(std::string_view text, const TokenGrid& grid) {
  std::optional<Query> query;
  if (text == "mean" || (text.empty() && !grid.class_token)) query = Query{Query::Kind::kMean, 0};
  if (text == "all") query = Query{Query::Kind::kAll, 0};
  if (text == "cls" || (text.empty() && grid.class_token)) query = FindPrefix("class", grid);
  if (text == "dist") query = FindPrefix("distillation", grid);
  if (text.starts_with("det")) query = FindPrefix(fmt::format("detection {}", text.substr(3)), grid);
  if (text.starts_with("mask")) query = FindPrefix(fmt::format("mask {}", text.substr(4)), grid);
  if (text.starts_with("reg")) query = FindPrefix(fmt::format("register {}", text.substr(3)), grid);
  if (const size_t comma = text.find(','); comma != std::string_view::npos) {
    const auto row = ParseNumber(text.substr(0, comma)), column = ParseNumber(text.substr(comma + 1));
    if (row && column && *row >= 0 && *row < grid.height && *column >= 0 && *column < grid.width) {
      query = Query{Query::Kind::kToken, static_cast<int64_t>(grid.prefix.size()) + *row * grid.width + *column};
    }
  }
  Require(query.has_value(), "query: expected {}, got \"{}\"", Choices(grid), text);
  return *query;
}

std::string Describe(const Query& query, const TokenGrid& grid) {
  if (query.kind == Query::Kind::kMean) return "mean of patches";
  if (query.kind == Query::Kind::kAll) return "all tokens";
  const auto prefix = static_cast<int64_t>(grid.prefix.size());
  if (query.token < prefix) {
    const std::string& name = grid.prefix[static_cast<size_t>(query.token)];
    if (name.starts_with("detection")) return "detection token" + name.substr(std::string_view("detection").size());
    if (name.starts_with("mask")) return "query token of " + name;
    return name.starts_with("register") ? name : name + " token";
  }
  return fmt::format("patch {},{}", (query.token - prefix) / grid.width, (query.token - prefix) % grid.width);
}

template <typename T>
void CheckPixels(View<const T> pixels) {
  Require(pixels.rank() == 4 && pixels.dim(0) == 1 && pixels.dense(),
          "attention maps: expected dense pixels [1, channels, height, width] of one image, got {}", pixels.shape());
  for (int64_t i = 0; i < pixels.size(); ++i) {
    Require(std::isfinite(pixels.data()[i]), "attention maps: the pixels hold NaN or infinity");
  }
}

template <typename T>
Tensor<T> AttentionMaps(const model::Vit<T>& vit, View<const T> pixels, const MapRequest& request,
                        model::Workspace<T>& workspace, View<T> logits) {
  CheckPixels(pixels);
  const int64_t N = vit.TokensFor(pixels.dim(2), pixels.dim(3)), all = vit.config().block.attention.heads;
  std::vector<int64_t> heads = request.heads;
  if (heads.empty()) {
    heads.resize(static_cast<size_t>(all));
    std::iota(heads.begin(), heads.end(), 0);
  }
  for (const int64_t head : heads) {
    Require(head >= 0 && head < all, "attention maps: expected heads from 0 to {}, got {}", all - 1, head);
  }
  const auto [first, last] = std::minmax_element(heads.begin(), heads.end());
  const int64_t head_begin = *first, head_end = *last + 1;
  for (int64_t& head : heads) head -= head_begin;  // relative to the visited heads

  const Query& query = request.query;
  const bool one = query.kind == Query::Kind::kToken, mean = query.kind == Query::Kind::kMean;
  const int64_t prefix = vit.config().prefix();
  const int64_t row_begin = one ? query.token : mean ? prefix : 0, row_end = one ? query.token + 1 : N;
  Require(row_begin >= 0 && row_end <= N, "attention maps: expected a token from 0 to {}, got {}", N - 1, query.token);
  const auto L = static_cast<int64_t>(request.blocks.size());
  const int64_t H = request.fusion ? 1 : static_cast<int64_t>(heads.size()),
                Q = query.kind == Query::Kind::kAll ? N : 1;
  if (const double bytes = sizeof(T) * static_cast<double>(L * H) * static_cast<double>(Q) * static_cast<double>(N);
      bytes > static_cast<double>(MemoryLimit())) {
    RequireMemory(bytes, fmt::format("attention maps: {} blocks, {} heads, {} queries of {} tokens", L, H, Q, N));
  }
  Tensor<T> maps({L, H, Q, N});

  model::Outputs<T> outputs;
  outputs.logits = logits;
  for (int64_t l = 0; l < L; ++l) {
    const View<T> to = maps.view()[l];  // [H, Q, N]
    const auto visit = [&heads, &request, to, row_begin, row_end, mean, H, N](int64_t row, View<const T> weights) {
      ParallelFor(N, kColumnsPerTask, [&](int64_t begin, int64_t end) {
        Tensor<T> fused({mean ? N : 0});
        for (int64_t h = 0; h < H; ++h) {
          const std::span<const int64_t> together =
              request.fusion ? std::span<const int64_t>(heads) : std::span<const int64_t>(heads).subspan(h, 1);
          for (int64_t r = 0; r < weights.dim(2); ++r) {
            T* const out = mean ? fused.data() : to.at(h, row + r - row_begin);
            FuseHeads(weights, together, request.fusion.value_or(Fusion::kMean), r, begin, end, out);
            T* const sum = to.at(h, 0);
            for (int64_t k = begin; mean && k < end; ++k) sum[k] += out[k] / static_cast<T>(row_end - row_begin);
          }
        }
      });
    };
    outputs.attention.push_back(
        {request.blocks[static_cast<size_t>(l)],
         {.row_begin = row_begin, .row_end = row_end, .visit = visit, .head_begin = head_begin, .head_end = head_end}});
  }
  vit.Forward(pixels, workspace, outputs);
  return maps;
}

template void CheckPixels(View<const float>);
template void CheckPixels(View<const double>);
template Tensor<float> AttentionMaps(const model::Vit<float>&, View<const float>, const MapRequest&,
                                     model::Workspace<float>&, View<float>);
template Tensor<double> AttentionMaps(const model::Vit<double>&, View<const double>, const MapRequest&,
                                      model::Workspace<double>&, View<double>);

}  // namespace qkv::inspect
