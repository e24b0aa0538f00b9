// The forward pass of a Vit. Not here: building its layers from a checkpoint (vit_build.cc).
#include "qkv/model/vision/vit.h"

#include <algorithm>
#include <cmath>

#include "qkv/core/memory.h"
#include "qkv/core/parallel.h"
#include "qkv/core/pause.h"
#include "qkv/model/blocks/attention_orders.h"
#include "qkv/model/blocks/relative_bias.h"
#include "qkv/model/layout/limits.h"
#include "qkv/model/layout/positions.h"
#include "qkv/nn/gaussian_places.h"
#include "qkv/nn/rows.h"

namespace qkv::model {
namespace {

template <typename T>
void CopyDense(View<const T> from, View<T> to) {
  Require(from.shape() == to.shape() && from.dense() && to.dense(), "forward: an output is {}, expected {}, dense",
          to.shape(), from.shape());
  std::copy_n(from.data(), from.size(), to.data());
}

// One more than the last query whose weights are requested.
template <typename T>
int64_t LastRow(std::span<const nn::WeightsRequest<T>> requests, int64_t tokens) {
  int64_t rows = 0;
  for (const nn::WeightsRequest<T>& request : requests) rows = std::max(rows, request.row_end);
  return std::min(rows, tokens);
}

// True if an output comes from the last block's tokens.
template <typename T>
bool ReadsLast(const Outputs<T>& outputs) {
  return !outputs.logits.empty() || !outputs.pooled.empty() || !outputs.tokens.empty() ||
         !outputs.detection_logits.empty() || !outputs.boxes.empty() || !outputs.mask_classes.empty() ||
         !outputs.masks.empty();
}

}  // namespace

template <typename T>
int64_t Vit<T>::TokensFor(int64_t height, int64_t width) const {
  Require(height >= config_.patch_height && width >= config_.patch_width,
          "forward: an image of {}x{} holds no patch of {}x{}", height, width, config_.patch_height,
          config_.patch_width);
  const bool trained = height == config_.image_height && width == config_.image_width;
  Require(
      trained || config_.crops_to_patches || (height % config_.patch_height == 0 && width % config_.patch_width == 0),
      "forward: {}x{} is no multiple of the patch size {}x{}", height, width, config_.patch_height,
      config_.patch_width);
  const int64_t grid_h = height / config_.patch_height, grid_w = width / config_.patch_width;
  const bool same_grid = IsTrainedGrid(grid_h, grid_w);
  const bool learned =
      config_.positions == Positions::kLearned || config_.block.attention.kind == nn::AttentionKind::kPositional;
  Require(same_grid || !learned || config_.interpolation != Interpolation::kNone,
          "forward: the model was trained for {}x{}, got {}x{}; {} does not interpolate positions",
          config_.image_height, config_.image_width, height, width, Name(config_.family));
  if (!same_grid && config_.square_positions && learned) {
    Require(config_.grid_height() == config_.grid_width(),
            "forward: {} interpolates square position grids only, this model's is {}x{}", Name(config_.family),
            config_.grid_height(), config_.grid_width());
  }
  return config_.prefix() + grid_h * grid_w;
}

template <typename T>
int64_t Vit<T>::weight_bytes() const {
  int64_t bytes = 0;
  const auto add = [&](const nn::Linear<T>& layer) { bytes += layer.weight.bytes(); };
  const auto add_attention = [&](const nn::AttentionLayer<T>& layer) {
    add(layer.query), add(layer.query_key_value), add(layer.value), add(layer.projection);
    for (const nn::Linear<T>& key : layer.absorbed.key) add(key);
    for (const nn::Linear<T>& value : layer.absorbed.value) add(value);
  };
  for (const nn::Block<T>& block : blocks_) {
    add_attention(block.attention);
    add(block.mlp.fc1), add(block.mlp.fc2);
  }
  add(patch_embed_.projection), add(pooler_), add(projection_), add(head_), add(head_dist_);
  for (const auto* head : {&class_head_, &box_head_, &mask_head_.queries}) std::ranges::for_each(*head, add);
  add(mask_head_.classes);
  for (const nn::GridDoubling<T>& doubling : mask_head_.doublings) add(doubling.expand);
  add_attention(attention_pool_.attention);
  add(attention_pool_.mlp.fc1), add(attention_pool_.mlp.fc2);
  return bytes;
}

// Position vectors of every block: [depth, 2, H, N, r]. On another grid the prefix tokens keep theirs.
template <typename T>
void Vit<T>::FillPlaces(int64_t grid_h, int64_t grid_w, Tensor<T>* places) const {
  const VitConfig& c = config_;
  const int64_t H = c.block.attention.heads, prefix = c.prefix(), N = prefix + grid_h * grid_w;
  const bool gaussian = c.block.attention.kind == nn::AttentionKind::kGaussian;
  const int64_t r = c.block.attention.place_width();
  *places = Tensor<T>::Uninitialised({c.depth, 2, H, N, r});
  for (int64_t block = 0; block < c.depth; ++block) {
    const nn::AttentionLayer<T>& layer = blocks_[static_cast<size_t>(block)].attention;
    const View<T> to = places->view()[block];
    if (gaussian) {
      nn::GaussianPlaces<T>(layer.bandwidth, prefix, grid_h, grid_w, to);
    } else if (IsTrainedGrid(grid_h, grid_w)) {
      CopyDense<T>(layer.places, to);
    } else {
      for (int64_t table = 0; table < 2 * H; ++table) {
        const View<const T> from = layer.places.view()[table / H][table % H];
        const View<T> head = to[table / H][table % H];
        std::copy_n(from.data(), prefix * r, head.data());
        ResampleGrid<T>(from.slice(0, prefix, c.tokens()), c.grid_height(), c.grid_width(), c.interpolation, grid_h,
                        grid_w, head.slice(0, prefix, N));
      }
    }
  }
}

template <typename T>
void Vit<T>::FillBlockPositions(int64_t grid_h, int64_t grid_w, Tensor<T>* positions) const {
  const int64_t prefix = config_.prefix(), N = prefix + grid_h * grid_w, D = config_.block.width;
  *positions = Tensor<T>::Uninitialised({block_positions_.dim(0), N, D});
  for (int64_t block = 0; block < block_positions_.dim(0); ++block) {
    const View<const T> from = block_positions_.view()[block];
    const View<T> to = positions->view()[block];
    std::copy_n(from.data(), prefix * D, to.data());
    ResampleGrid<T>(from.slice(0, prefix, config_.tokens()), config_.grid_height(), config_.grid_width(),
                    config_.interpolation, grid_h, grid_w, to.slice(0, prefix, N));
  }
}

template <typename T>
void Vit<T>::AddBlockPositions(int64_t block, const Workspace<T>& workspace, View<T> x) const {
  if (block >= block_positions_.dim(0)) return;
  const bool trained = IsTrainedGrid(workspace.grid_height, workspace.grid_width);
  const T* const positions = (trained ? block_positions_ : workspace.block_positions).view().at(block);
  const int64_t N = x.dim(1), D = x.dim(2);
  ParallelFor(x.dim(0) * N, 64, [&](int64_t begin, int64_t end) {  // tokens
    for (int64_t token = begin; token < end; ++token) {
      const T* const position = positions + token % N * D;
      T* const features = x.data() + token * D;
      for (int64_t d = 0; d < D; ++d) features[d] += position[d];
    }
  });
}

template <typename T>
void Vit<T>::PrepareGrid(int64_t grid_h, int64_t grid_w, Workspace<T>& workspace) const {
  const bool positions = !positions_.empty() && !IsTrainedGrid(grid_h, grid_w);
  const bool places = nn::IsPositional(config_.block.attention.kind);
  const bool rotary = rotary_ && !IsTrainedGrid(grid_h, grid_w);
  if (workspace.model == id_ && workspace.grid_height == grid_h && workspace.grid_width == grid_w) return;
  workspace.model = 0;  // until all of it is, since loops may throw
  if (positions) {
    workspace.positions = Tensor<T>::Uninitialised({grid_h * grid_w, config_.block.width});
    if (config_.positions == Positions::kSinCos) {
      SinCosGrid<T>(grid_h, grid_w, workspace.positions);
    } else {
      ResampleGrid<T>(positions_, config_.grid_height(), config_.grid_width(), config_.interpolation, grid_h, grid_w,
                      workspace.positions);
    }
  }
  if (!block_positions_.empty() && !IsTrainedGrid(grid_h, grid_w)) {
    FillBlockPositions(grid_h, grid_w, &workspace.block_positions);
  }
  if (ResamplesBiases(grid_h, grid_w)) {
    const View<const T> tables = relative_biases_;
    workspace.relative_biases =
        Tensor<T>::Uninitialised({tables.dim(0), tables.dim(1), (2 * grid_h - 1) * (2 * grid_w - 1) + 3});
    ResampleRelativeBiases<T>(tables, config_.grid_height(), config_.grid_width(), config_.bias_interpolation, grid_h,
                              grid_w, workspace.relative_biases);
  }
  if (places) FillPlaces(grid_h, grid_w, &workspace.places);
  if (rotary) workspace.rotary = MakeRotaryTables(config_, grid_h, grid_w, rotary_frequencies_);
  if (rotary && waiting_rotary_) {
    workspace.waiting_rotary = MakeRotaryTables(WithoutQueries(config_), grid_h, grid_w, rotary_frequencies_);
  }
  workspace.model = id_;
  workspace.grid_height = grid_h;
  workspace.grid_width = grid_w;
}

template <typename T>
View<const T> Vit<T>::BlockPlaces(int64_t block, const Workspace<T>& workspace) const {
  return nn::IsPositional(config_.block.attention.kind) ? workspace.places.view()[block] : View<const T>();
}

template <typename T>
const nn::RotaryTable* Vit<T>::RotaryFor(int64_t block, int64_t tokens, const Workspace<T>& workspace) const {
  if (!rotary_) return nullptr;
  const bool other = IsPreparedFor(tokens, workspace) && !workspace.rotary.empty() &&
                     !IsTrainedGrid(workspace.grid_height, workspace.grid_width);
  const bool waits = config_.queries_wait(block);
  const std::vector<nn::RotaryTable>& tables = other   ? (waits ? workspace.waiting_rotary : workspace.rotary)
                                               : waits ? *waiting_rotary_
                                                       : *rotary_;
  return &tables[tables.size() == 1 ? 0 : static_cast<size_t>(block)];
}

template <typename T>
bool Vit<T>::ResamplesBiases(int64_t grid_h, int64_t grid_w) const {
  if (relative_biases_.empty()) return false;
  const bool square = config_.grid_height() == config_.grid_width();
  return !IsTrainedGrid(grid_h, grid_w) || (config_.bias_interpolation == BiasInterpolation::kBilinear && !square);
}

template <typename T>
View<T> Vit<T>::NewBiases(int64_t tokens, Workspace<T>& workspace) const {
  if (relative_biases_.empty()) return {};
  return workspace.arena.template New<T>({1, config_.block.attention.heads, tokens, tokens});
}

// Expanded in every pass: copying costs less than reading the biases of all blocks, depth · H · N², from memory.
template <typename T>
View<const T> Vit<T>::BlockBiases(int64_t block, int64_t rows, bool filled, const Workspace<T>& workspace,
                                  View<T> room) const {
  if (room.empty()) return {};
  const View<T> biases = room.slice(2, 0, rows);
  if (filled && relative_biases_.dim(0) == 1) return biases;
  const int64_t height = workspace.grid_height, width = workspace.grid_width;
  const View<const T> tables = ResamplesBiases(height, width) ? workspace.relative_biases : relative_biases_;
  ExpandRelativeBiases<T>(tables[relative_biases_.dim(0) == 1 ? 0 : block], height, width, biases);
  return biases;
}

// The input of the first block, without query tokens: [B, N, D].
template <typename T>
View<T> Vit<T>::Embed(View<const T> pixels, Workspace<T>& workspace) const {
  const int64_t B = pixels.dim(0), D = config_.block.width, prefix = config_.query_begin();
  const int64_t grid_h = pixels.dim(2) / config_.patch_height, grid_w = pixels.dim(3) / config_.patch_width;
  const bool trained = IsTrainedGrid(grid_h, grid_w) || positions_.empty();
  const View<const T> positions = trained ? positions_ : workspace.positions;  // [grid_h · grid_w, D], or empty
  const View<T> x = workspace.arena.template New<T>({B, prefix + grid_h * grid_w, D});
  const Arena::Scope scope(workspace.arena);
  const View<T> patches = workspace.arena.template New<T>({B, grid_h * grid_w, D});
  nn::PatchEmbedForward<T>(pixels, patch_embed_, patches, workspace.arena);
  ParallelFor(B * grid_h, 1, [&](int64_t begin, int64_t end) {  // rows of the grid
    for (int64_t row = begin; row < end; ++row) {
      const int64_t b = row / grid_h, first = row % grid_h * grid_w;
      if (first == 0) std::copy_n(prefix_.data(), prefix * D, x.at(b));
      const T *patch = patches.at(b, first), *position = positions.empty() ? nullptr : positions.row(first);
      T* token = x.at(b, prefix + first);
      for (int64_t i = 0; i < grid_w * D; ++i) token[i] = position ? patch[i] + position[i] : patch[i];
    }
  });
  if (!norm_pre_.empty()) nn::NormForward<T>(nn::AsOneMatrix(x), norm_pre_, nn::AsOneMatrix(x));
  return x;
}

// The number of tokens of a block, from the first, that are needed: for pooling, for requested attention, or all.
template <typename T>
int64_t Vit<T>::RowsRead(const Outputs<T>& outputs, int64_t block, int64_t tokens) const {
  const bool whole = !read_rows_ || !outputs.tokens.empty() || outputs.probe != nullptr ||
                     std::any_of(outputs.hidden.begin(), outputs.hidden.end(),
                                 [&](const auto& hidden) { return hidden.index == config_.depth; });
  if (whole) return tokens;
  int64_t rows = RowsPooled(config_, block, tokens);
  for (const auto& attention : outputs.attention) {
    if (attention.block == block) rows = std::max(rows, std::min(attention.request.row_end, tokens));
  }
  return rows;
}

// The number of blocks, from the first, that must be computed completely.
template <typename T>
int64_t Vit<T>::BlocksRead(const Outputs<T>& outputs) const {
  if (ReadsLast(outputs)) return config_.depth;
  int64_t blocks = 0;
  for (const auto& hidden : outputs.hidden) blocks = std::max(blocks, hidden.index);
  for (const auto& attention : outputs.attention) blocks = std::max(blocks, attention.block);
  return blocks;
}

template <typename T>
void Vit<T>::BlockWeights(View<const T> tokens, int64_t block, Workspace<T>& workspace,
                          std::span<const nn::WeightsRequest<T>> requests) const {
  Require(block >= 0 && block < config_.depth, "attention of block {} was asked for, there are 0 to {}", block,
          config_.depth - 1);
  Require(tokens.rank() == 3 && tokens.dim(2) == config_.block.width && tokens.dense(),
          "attention: expected dense tokens [B, N, {}], got {}", config_.block.width, tokens.shape());
  workspace.arena.Reset();
  const bool placed = nn::IsPositional(config_.block.attention.kind) || rotary_ || !relative_biases_.empty();
  if (placed && !IsPreparedFor(tokens.dim(1), workspace)) {
    Require(
        tokens.dim(1) == config_.tokens(),
        "attention: cannot infer a grid for {} tokens; expected {}, or a workspace from a forward pass with that many",
        tokens.dim(1), config_.tokens());
    PrepareGrid(config_.grid_height(), config_.grid_width(), workspace);
  }
  const nn::Block<T>& layers = blocks_[static_cast<size_t>(block)];
  const View<T> room = NewBiases(tokens.dim(1), workspace);
  nn::AttentionContext<T> context{
      .requests = requests,
      .places = BlockPlaces(block, workspace),
      .rotary = RotaryFor(block, tokens.dim(1), workspace),
      .bias = BlockBiases(block, LastRow<T>(requests, tokens.dim(1)), false, workspace, room)};
  if (config_.queries_wait(block)) {
    const std::vector<nn::WeightsRequest<T>> others =
        RequestsWithoutQueries<T>(requests, tokens.dim(0), config_.block.attention.heads, waiting(), tokens.dim(1));
    context.requests = others;
    if (!others.empty()) {
      nn::BlockWeights<T>(WithoutQueries<T>(tokens, waiting(), workspace.arena), layers, workspace.arena, context);
    }
  } else {
    nn::BlockWeights<T>(tokens, layers, workspace.arena, context);
  }
  if (restored_from_) restored_from_->RequireUnchanged();
}

// The number of images that go through a block together: as many as keep its widest intermediate in the cache, in
// groups of nearly equal size. More rows at a time gain nothing once every thread has enough of them.
template <typename T>
int64_t Vit<T>::ImagesTogether(int64_t images, int64_t tokens) const {
  constexpr int64_t kCacheBytes = int64_t{4} << 20;
  const VitConfig& c = config_;
  const bool merged =
      c.block.attention.kind == nn::AttentionKind::kMerged;  // queries of each head are as wide as the model
  const int64_t of_head = c.block.attention.head_width + (merged ? c.block.width : 2 * c.block.attention.query_width());
  const int64_t widest = std::max(c.block.mlp.width, c.block.attention.heads * of_head);
  const int64_t most = std::max<int64_t>(1, kCacheBytes / (tokens * widest * static_cast<int64_t>(sizeof(T))));
  const int64_t groups = (images + most - 1) / most;
  return (images + groups - 1) / groups;
}

template <typename T>
double Vit<T>::PassBytes(int64_t images, int64_t height, int64_t width) const {
  const int64_t tokens = TokensFor(height, width);
  const double pixels = static_cast<double>(images * config_.channels) * static_cast<double>(height * width);
  const bool trained = IsTrainedGrid(height / config_.patch_height, width / config_.patch_width);
  const int64_t grid_h = height / config_.patch_height, grid_w = width / config_.patch_width;
  const double N = static_cast<double>(tokens), H = static_cast<double>(config_.block.attention.heads);
  const double biases = relative_biases_.empty() ? 0 : H * N * N;
  const double tables = ResamplesBiases(grid_h, grid_w) ? RelativeBiasElements(config_, grid_h, grid_w) : 0;
  const double rotary = trained ? 0 : (waiting_rotary_ ? 2 : 1) * RotaryBytes(config_, tokens);
  const double places = trained && !nn::IsPositional(config_.block.attention.kind) ? 0 : PlaceElements(config_, tokens);
  return rotary + sizeof(T) * (pixels + places + biases + tables +
                               ActivationElements(config_, images, tokens, ImagesTogether(images, tokens)));
}

template <typename T>
void Vit<T>::Forward(View<const T> pixels, Workspace<T>& workspace, const Outputs<T>& outputs) const {
  Run(pixels, workspace, outputs);
  if (restored_from_) restored_from_->RequireUnchanged();
}

template <typename T>
void Vit<T>::Run(View<const T> pixels, Workspace<T>& workspace, const Outputs<T>& outputs) const {
  Require(pixels.rank() == 4 && pixels.dim(1) == config_.channels && pixels.dense(),
          "forward: expected dense pixels [B, {}, height, width], got {}", config_.channels, pixels.shape());
  const int64_t B = pixels.dim(0), N = TokensFor(pixels.dim(2), pixels.dim(3));
  for (const auto& hidden : outputs.hidden) {
    Require(hidden.index >= 0 && hidden.index <= config_.depth, "forward: hidden {} was asked for, there are 0 to {}",
            hidden.index, config_.depth);
  }
  for (const auto& attention : outputs.attention) {
    Require(attention.block >= 0 && attention.block < config_.depth,
            "forward: attention of block {} was asked for, there are 0 to {}", attention.block, config_.depth - 1);
  }
  if (B == 0) return;
  if (const double bytes = PassBytes(B, pixels.dim(2), pixels.dim(3)); bytes > static_cast<double>(MemoryLimit())) {
    RequireMemory(bytes, fmt::format("forward: a pass of {} images of {} tokens", B, N));
  }
  workspace.arena.Reset();
  const int64_t grid_h = pixels.dim(2) / config_.patch_height, grid_w = pixels.dim(3) / config_.patch_width;
  PrepareGrid(grid_h, grid_w, workspace);
  View<T> x = Embed(pixels, workspace);
  const auto waits = [&] { return x.dim(1) < N; };  // the query tokens, for their block
  const auto keep_hidden = [&](int64_t index) {
    for (const auto& hidden : outputs.hidden) {
      if (hidden.index != index) continue;
      if (waits()) {
        InsertQueries<T>(x, queries(), waiting().begin, hidden.out);
      } else {
        CopyDense<T>(x, hidden.out);
      }
    }
  };
  const nn::Tap<T> tap{outputs.probe};
  tap("embed", x);
  keep_hidden(0);
  std::vector<nn::WeightsRequest<T>> requests, all;  // empty, without allocation, if no attention is requested
  const View<T> room = NewBiases(N, workspace);
  const int64_t blocks = BlocksRead(outputs);
  for (int64_t block = 0; block < config_.depth; ++block) {
    requests.clear();
    for (const auto& attention : outputs.attention) {
      if (attention.block == block) requests.push_back(attention.request);
    }
    if (waits() && config_.queries_wait(block)) {
      all.swap(requests);
      requests = RequestsWithoutQueries<T>(all, B, config_.block.attention.heads, waiting(), N);
    } else if (waits()) {
      const View<T> joined = workspace.arena.template New<T>({B, N, config_.block.width});
      InsertQueries<T>(x, queries(), waiting().begin, joined);
      x = joined;
    }
    const nn::Block<T>& layers = blocks_[static_cast<size_t>(block)];
    const int64_t rows = waits() ? x.dim(1) : block < blocks ? RowsRead(outputs, block, N) : LastRow<T>(requests, N);
    const nn::AttentionContext<T> context{.requests = requests,
                                          .places = BlockPlaces(block, workspace),
                                          .rotary = RotaryFor(block, N, workspace),
                                          .bias = BlockBiases(block, rows, block > 0, workspace, room),
                                          .block = block,
                                          .probe = outputs.probe};
    if (block >= blocks) {  // of this block only attention weights are requested
      if (!requests.empty()) nn::BlockWeights<T>(x, layers, workspace.arena, context);
      return;
    }
    const bool at_once = rows < x.dim(1) || !requests.empty() || outputs.probe;
    const int64_t together = at_once ? B : ImagesTogether(B, N);
    for (int64_t begin = 0; begin < B; begin += together) {
      Pause();
      const View<T> images = x.slice(0, begin, std::min(B, begin + together));
      nn::BlockForward<T>(images, layers, rows, workspace.arena, context);
    }
    AddBlockPositions(block, workspace, x);
    keep_hidden(block + 1);
  }
  if (!ReadsLast(outputs)) return;
  const int64_t read = config_.depth > 0 ? RowsRead(outputs, config_.depth - 1, N) : N;
  const View<T> tokens = x.slice(1, 0, read);
  if (!norm_.empty()) {
    nn::ForEachMatrix([&](View<T> rows) { nn::NormForward<T>(rows, norm_, rows); }, tokens);
    tap("norm", tokens);
  }
  if (!outputs.tokens.empty()) CopyDense<T>(x, outputs.tokens);
  if (!outputs.logits.empty() || !outputs.pooled.empty()) Classify(tokens, outputs, workspace.arena);
  if (!outputs.detection_logits.empty() || !outputs.boxes.empty()) Detect(tokens, outputs, workspace.arena);
  if (!outputs.mask_classes.empty() || !outputs.masks.empty()) {
    Segment(tokens, grid_h, grid_w, outputs, workspace.arena);
  }
}

// The vector before the classifier, [B, pooled_width]. tokens: [B, N, D], where N may be only the tokens that the pool
// reads.
template <typename T>
View<T> Vit<T>::PoolTokens(View<const T> tokens, Arena& arena) const {
  const int64_t B = tokens.dim(0), D = config_.block.width, begin = config_.pool_prefix ? 0 : config_.prefix();
  const bool pair = config_.pool == Pool::kTokenAndMean;
  const View<T> pooled = arena.New<T>({B, pair ? 2 * D : D});
  const auto copy_token = [&](int64_t index) {
    for (int64_t b = 0; b < B; ++b) std::copy_n(tokens.at(b, index), D, pooled.row(b));
  };
  switch (config_.pool) {
    case Pool::kToken:
      copy_token(0);
      break;
    case Pool::kMean:
      nn::MeanPool<T>(tokens, begin, pooled);
      break;
    case Pool::kMax:
      nn::MaxPool<T>(tokens, begin, pooled);
      break;
    case Pool::kMeanMax: {
      const View<T> greatest = arena.New<T>({B, D});
      nn::MeanPool<T>(tokens, begin, pooled);
      nn::MaxPool<T>(tokens, begin, greatest);
      for (int64_t i = 0; i < pooled.size(); ++i) pooled.data()[i] = (pooled.data()[i] + greatest.data()[i]) / 2;
      break;
    }
    case Pool::kMap:
      nn::AttentionPoolForward<T>(tokens, begin, attention_pool_, pooled, arena);
      break;
    case Pool::kTokenAndMean:
      copy_token(0);
      nn::MeanPool<T>(tokens, begin, pooled.slice(1, D, 2 * D));
      break;
  }
  return pooled;
}

template <typename T>
void Vit<T>::Classify(View<const T> tokens, const Outputs<T>& outputs, Arena& arena) const {
  const Arena::Scope scope(arena);
  const int64_t B = tokens.dim(0), D = config_.block.width;
  View<T> pooled = PoolTokens(tokens, arena);
  const View<const T> second(tokens.at(0, tokens.dim(1) > 1 ? 1 : 0), {B, D}, {tokens.stride(0), 1});
  if (!pooler_.empty()) {
    const View<T> dense = arena.New<T>({B, config_.pooler_width});
    nn::LinearForward<T>(pooled, pooler_, dense, {.activation = config_.pooler_activation});
    pooled = dense;
  }
  if (!fc_norm_.empty()) nn::NormForward<T>(pooled, fc_norm_, pooled);
  if (!projection_.empty()) {
    const View<T> projected = arena.New<T>({B, config_.projection_width});
    nn::LinearForward<T>(pooled, projection_, projected);
    pooled = projected;
  }
  if (!outputs.pooled.empty()) {
    CopyDense<T>(pooled, outputs.pooled);
    // As timm takes the vector of a distilled model, whatever its classifiers read.
    const bool of_two = config_.distillation_mean && config_.distillation_token;
    for (int64_t b = 0; b < B && of_two; ++b) {
      for (int64_t d = 0; d < D; ++d) outputs.pooled.row(b)[d] = (outputs.pooled.row(b)[d] + second.row(b)[d]) / 2;
    }
  }
  if (outputs.logits.empty()) return;
  Require(outputs.logits.shape() == Shape({B, config_.outputs()}) && outputs.logits.dense(),
          "forward: logits are {}, expected [{}, {}], dense", outputs.logits.shape(), B, config_.outputs());
  if (!head_norm_.empty()) nn::NormForward<T>(pooled, head_norm_, pooled);
  const bool mean_of_two = config_.averages_two_tokens();
  const View<T> logits = outputs.logits, other = mean_of_two ? arena.New<T>(logits.shape()) : View<T>();
  if (config_.classes > 0) {
    nn::LinearForward<T>(pooled, head_, logits);
    if (mean_of_two) nn::LinearForward<T>(second, head_dist_, other);
  } else {
    CopyDense<T>(pooled, logits);
    for (int64_t b = 0; b < B && mean_of_two; ++b) std::copy_n(second.row(b), D, other.row(b));
  }
  for (int64_t i = 0; i < logits.size() && mean_of_two; ++i) {
    logits.data()[i] = (logits.data()[i] + other.data()[i]) / 2;
  }
}

template <typename T>
void Vit<T>::Detect(View<const T> tokens, const Outputs<T>& outputs, Arena& arena) const {
  const int64_t B = tokens.dim(0), count = config_.detection_tokens, D = config_.block.width;
  const int64_t outputs_of_class = config_.detection_classes + 1;
  Require(config_.detection_classes > 0, "forward: {} has no heads for detection", config_.architecture);
  const Arena::Scope scope(arena);
  const View<T> read = arena.New<T>({B * count, D}), even = arena.New<T>({B * count, D}),
                odd = arena.New<T>({B * count, D});
  for (int64_t b = 0; b < B; ++b) std::copy_n(tokens.at(b, config_.detection_begin()), count * D, read.row(b * count));
  const auto run = [&](const std::array<nn::Linear<T>, 3>& head, View<T> out, int64_t width, std::string_view name) {
    Require(out.shape() == Shape({B, count, width}) && out.dense(), "forward: {} are {}, expected [{}, {}, {}], dense",
            name, out.shape(), B, count, width);
    nn::LinearForward<T>(read, head[0], even, {.activation = simd::Activation::kRelu});
    nn::LinearForward<T>(even, head[1], odd, {.activation = simd::Activation::kRelu});
    nn::LinearForward<T>(odd, head[2], out.reshape({B * count, width}));
  };
  if (!outputs.detection_logits.empty()) run(class_head_, outputs.detection_logits, outputs_of_class, "classes");
  if (outputs.boxes.empty()) return;
  run(box_head_, outputs.boxes, 4, "boxes");
  T* const sides = outputs.boxes.data();
  for (int64_t i = 0; i < outputs.boxes.size(); ++i) sides[i] = 1 / (1 + std::exp(-sides[i]));
}

template <typename T>
void Vit<T>::Segment(View<const T> tokens, int64_t grid_h, int64_t grid_w, const Outputs<T>& outputs,
                     Arena& arena) const {
  const int64_t prefix = config_.prefix(), begin = config_.query_begin(), Q = config_.query_tokens;
  Require(config_.mask_classes > 0, "forward: {} has no heads for masks", config_.architecture);
  const auto check = [&](View<T> out, const Shape& shape, std::string_view name) {
    Require(out.empty() || (out.shape() == shape && out.dense()), "forward: {} are {}, expected {}, dense", name,
            out.shape(), shape);
  };
  const int64_t B = tokens.dim(0);
  check(outputs.mask_classes, {B, Q, config_.mask_classes + 1}, "classes of masks");
  check(outputs.masks, {B, Q, config_.mask_side(grid_h), config_.mask_side(grid_w)}, "masks");
  for (int64_t b = 0; b < B; ++b) {
    const View<const T> image = tokens[b];
    nn::MaskHeadForward<T>({image.slice(0, begin, prefix), image.slice(0, prefix, image.dim(0)), grid_h, grid_w},
                           mask_head_, nn::BatchEntry(outputs.mask_classes, b), nn::BatchEntry(outputs.masks, b),
                           arena);
  }
}

template class Vit<float>;
template class Vit<double>;

}  // namespace qkv::model
