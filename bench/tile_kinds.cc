// Does it matter over tiles that queries and keys have projections of their own? Trains small Transformers over bags of
// tiles in each kind of attention, at learning rates searched alike, on relations between neighbouring tiles, and tests
// them on bags of the same size and of 20,160 tiles. Prints a line of JSON a run.
//
//     qkv_tile_kinds TASK KIND[,KIND…] SEEDS [BAGS]      BAGS: of 20,160 tiles, tested with each
//
// A bag is a grid of tiles whose vectors are noise; among them lie pairs of neighbours of the types A and B, in each
// bag equally many of both, so that no sum over tiles tells its class:
//   same       half of the pairs are AA, half BB; or all are AB
//   direction  in all pairs A is left of B; or right of it
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/core/parallel.h"
#include "qkv/core/rng.h"
#include "qkv/io/json.h"
#include "qkv/mil/metrics.h"
#include "qkv/mil/network.h"
#include "qkv/train/network/loss.h"
#include "qkv/train/optimizer/optimizer.h"
#include "qkv/train/optimizer/schedule.h"

namespace {

using namespace qkv;

constexpr int64_t kFeatures = 16, kSteps = 1500, kBatch = 8, kTestBags = 256;
// timm's deviation of 0.02 suits widths of some hundreds: at 32 the first scores are too alike to tell what to look at.
constexpr double kGain = 6;
constexpr int64_t kSmall = 8, kLargeRows = 140, kLargeColumns = 144;  // sides of grids, in tiles
constexpr double kRates[] = {3e-3, 1e-2};                             // 1e-3 never was the best

struct Tiles {
  Tensor<float> features;  // [N, kFeatures]
  Tensor<double> places;   // [N, 2]
  int64_t label = 0;
};

// A pair for every 32 tiles, anywhere but beside another.
Tiles DrawTiles(bool direction, int64_t rows, int64_t columns, uint64_t seed) {
  Rng rng(seed);
  Tiles bag{Tensor<float>({rows * columns, kFeatures}), Tensor<double>({rows * columns, 2}),
            static_cast<int64_t>(rng.Next() % 2)};
  for (float& value : bag.features.span()) value = static_cast<float>(rng.Normal());
  // Where the grid begins must tell nothing to sines of rows and columns.
  const auto top = static_cast<double>(rng.Next() % 16), left = static_cast<double>(rng.Next() % 16);
  for (int64_t i = 0; i < rows * columns; ++i) {
    bag.places[2 * i] = top + static_cast<double>(i / columns);
    bag.places[2 * i + 1] = left + static_cast<double>(i % columns);
  }
  std::vector<uint8_t> taken(static_cast<size_t>((rows + 2) * (columns + 2)));  // with a border
  const auto draw = [&](int64_t most) { return static_cast<int64_t>(rng.Next() % static_cast<uint64_t>(most)); };
  const auto mark = [&](int64_t row, int64_t column, bool b) {
    // The codes of both types share their first features.
    float* const x = bag.features.view().row(row * columns + column);
    for (int64_t f = 0; f < 4; ++f) x[f] += 3, x[4 + f] += b ? 3.0f : -3.0f;
    for (int64_t i = 0; i < 9; ++i) taken[static_cast<size_t>((row + i / 3) * (columns + 2) + column + i % 3)] = 1;
  };
  const auto is_taken = [&](int64_t row, int64_t column) {
    return taken[static_cast<size_t>((row + 1) * (columns + 2) + column + 1)] != 0;
  };
  const int64_t pairs = rows * columns / 64 * 2;  // an even number: as many AA as BB
  for (int64_t i = 0; i < pairs; ++i) {
    const bool down = !direction && draw(2) == 1, turn = draw(2) == 1;
    bool first = turn, second = !turn;
    if (direction) first = bag.label == 1, second = bag.label == 0;
    if (!direction && bag.label == 0) first = second = i % 2 == 0;
    int64_t row = 0, column = 0;
    do {
      row = draw(rows - (down ? 1 : 0)), column = draw(columns - (down ? 0 : 1));
    } while (is_taken(row, column) || is_taken(row + (down ? 1 : 0), column + (down ? 0 : 1)));
    mark(row, column, first);
    mark(row + (down ? 1 : 0), column + (down ? 0 : 1), second);
  }
  return bag;
}

mil::MilConfig MakeKind(const std::string& kind) {
  mil::MilConfig c;
  c.inputs = kFeatures, c.gate_width = 16, c.classes = {"0", "1"};
  c.block.width = 32;
  if (kind == "abmil") return c;
  c.architecture = mil::Architecture::kTransformer;
  // "separate+sines": with positions that are added to tokens, the only ones that merged can have.
  const std::string name = kind.substr(0, kind.find('+'));
  c.block = {.width = 32,
             .attention = {.kind = model::FindAttentionKind(name).value(), .heads = 2, .head_width = 16},
             .mlp = {.width = 64}};
  if (name == "low_rank") c.block.attention.qk_width = 8;
  if (name == "symmetric") c.block.attention.qk_width = 16;
  c.depth = 2;
  c.rotary_base = 100;
  c.positions = kind.ends_with("+sines") ? mil::TilePositions::kSines : mil::TilePositions::kRotary;
  if (!nn::AllowsRotary(c.block.attention.kind)) c.positions = mil::TilePositions::kSines;
  return c;
}

mil::Prediction Predict(const mil::MilNetwork<float>& network, View<const float> weights, const Tiles& bag,
                        mil::MilNetwork<float>::Workspace& workspace, int64_t number) {
  Tensor<float> logits({1, 2});
  const mil::BagInput<float> input{bag.features, bag.places};
  if (bag.features.dim(0) > 1000 && network.config().depth > 0) {
    const mil::Answer answer = network.Infer(weights, input, workspace);
    std::copy_n(answer.logits.data(), 2, logits.data());
  } else {
    network.Forward(weights, input, {}, workspace, logits);
  }
  const double share = 1 / (1 + std::exp(static_cast<double>(logits[0]) - static_cast<double>(logits[1])));
  return {"", std::to_string(number), bag.label, {1 - share, share}};
}

io::Json Test(const mil::MilNetwork<float>& network, View<const float> weights, bool direction, int64_t rows,
              int64_t columns, int64_t bags) {
  mil::MilNetwork<float>::Workspace workspace;
  std::vector<mil::Prediction> predictions;
  for (int64_t i = 0; i < bags; ++i) {
    const Tiles bag = DrawTiles(direction, rows, columns, MixSeed(0x7e57, static_cast<uint64_t>(i + rows * 1000)));
    predictions.push_back(Predict(network, weights, bag, workspace, i));
  }
  const mil::Metrics metrics = mil::Measure(predictions, 2, 0, 0);
  return {{"bags", bags}, {"auc", metrics.auc.value}, {"accuracy", metrics.accuracy.value}};
}

Tensor<float> TrainTiles(const mil::MilNetwork<float>& network, bool direction, double rate, uint64_t seed) {
  Tensor<float> weights({network.layout().size()}), gradients(weights.shape());
  network.Initialise(seed, weights);
  for (const train::Slot& slot : network.layout().slots()) {
    if (slot.role != model::Role::kWeight || !slot.name.starts_with("blocks.")) continue;
    const double gain = slot.name.ends_with("merged") ? kGain * kGain : kGain;  // a product of two
    for (int64_t i = 0; i < slot.shape.size(); ++i) weights[slot.offset + i] *= static_cast<float>(gain);
  }
  train::Optimizer<float> optimizer(network.layout(), {.weight_decay = 0.01, .beta2 = 0.98, .clip_norm = 1});
  const train::Schedule schedule{.peak = rate, .steps = kSteps, .warmup = 50, .floor = rate / 100};
  mil::MilNetwork<float>::Workspace workspace;
  Tensor<float> logits({1, 2}), dlogits({1, 2});
  for (int64_t step = 0; step < kSteps; ++step) {
    for (int64_t i = 0; i < kBatch; ++i) {
      const Tiles bag = DrawTiles(direction, kSmall, kSmall, MixSeed(seed, static_cast<uint64_t>(step * kBatch + i)));
      network.Forward(weights, {bag.features, bag.places}, {}, workspace, logits);
      train::CrossEntropy<float>(logits, {&bag.label, 1}, {.scale = 1.0 / kBatch}, dlogits);
      network.Backward(weights, dlogits, workspace, gradients);
    }
    optimizer.Step(train::LearningRate(schedule, step), weights, gradients);
  }
  return weights;
}

}  // namespace

int main(int argc, char** argv) {
  if (std::getenv("QKV_ONE_THREAD") != nullptr) SetNumThreads(1);
  if (argc < 4) return std::fputs("usage: qkv_tile_kinds same|direction KIND[,KIND...] SEEDS [BAGS]\n", stderr), 2;
  const bool direction = std::string_view(argv[1]) == "direction";
  std::string kinds = std::string(argv[2]) + ",";
  const int seeds = std::atoi(argv[3]), large = argc > 4 ? std::atoi(argv[4]) : 0;
  for (size_t end = 0; (end = kinds.find(',')) != kinds.npos; kinds.erase(0, end + 1)) {
    const std::string kind = kinds.substr(0, end);
    const mil::MilNetwork<float> network(MakeKind(kind));
    int64_t parameters = 0;
    for (const train::Slot& slot : network.layout().slots()) parameters += slot.shape.size();
    for (int seed = 0; seed < seeds; ++seed) {
      // The rate of each seed is that of the greatest area on bags that are neither trained nor tested on.
      Tensor<float> best;
      double best_auc = -1, best_rate = 0;
      for (const double rate : kRates) {
        Tensor<float> weights = TrainTiles(network, direction, rate, MixSeed(0x5eed, static_cast<uint64_t>(seed)));
        const double auc = Test(network, weights, direction, kSmall, kSmall + 4, 64)["auc"].get<double>();
        if (auc > best_auc) best_auc = auc, best_rate = rate, best = std::move(weights);
      }
      io::Json line = {
          {"task", argv[1]}, {"kind", kind}, {"seed", seed}, {"rate", best_rate}, {"parameters", parameters}};
      line["64"] = Test(network, best, direction, kSmall, kSmall, kTestBags);
      line["1024"] = Test(network, best, direction, 32, 32, 40);
      if (large > 0) line["20160"] = Test(network, best, direction, kLargeRows, kLargeColumns, large);
      fmt::print("{}\n", line.dump());
      std::fflush(stdout);
    }
  }
  return 0;
}
