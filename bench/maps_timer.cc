// What attention maps cost beside the pass that they come with, in turns:
//
//     qkv_maps_timer MODEL [ROUNDS]
//
// One image at the model's own size, logits in every case: alone; with the class token's map of the last block and of
// the middle one, all heads; with every row of all blocks and heads. Milliseconds, best and median, and the ratio to
// the pass alone.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <vector>

#include "qkv/core/error.h"
#include "qkv/core/rng.h"
#include "qkv/model/model.h"

namespace {

using qkv::Tensor;

double Milliseconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

struct Case {
  const char* name = "";
  qkv::model::Outputs<float> outputs;
  std::vector<double> times;
};

int Run(int argc, char** argv) {
  if (argc < 2) return 2;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 30;
  const qkv::model::Model model = qkv::model::Model::Load(argv[1]);
  const qkv::model::VitConfig& c = model.config();
  Tensor<float> pixels({1, c.channels, c.image_height, c.image_width});
  qkv::Rng rng(1);
  for (int64_t i = 0; i < pixels.size(); ++i) pixels.data()[i] = static_cast<float>(rng.Uniform()) * 2 - 1;
  const int64_t N = model.TokensFor(c.image_height, c.image_width), H = c.block.attention.heads, L = c.depth;
  Tensor<float> logits({1, c.outputs()}), row({1, H, 1, N}), all({L, 1, H, N, N});

  std::vector<Case> cases(4);
  cases[0].name = "pass alone";
  cases[1].name = "last block, class token";
  cases[2].name = "middle block, class token";
  cases[3].name = "all blocks, heads and rows";
  for (Case& one : cases) one.outputs.logits = logits;
  const auto request = [](qkv::View<float> out, int64_t rows) {
    qkv::nn::WeightsRequest<float> weights;
    weights.row_end = rows;
    weights.out = out;
    return weights;
  };
  cases[1].outputs.attention.push_back({L - 1, request(row, 1)});
  cases[2].outputs.attention.push_back({L / 2, request(row, 1)});
  for (int64_t l = 0; l < L; ++l) cases[3].outputs.attention.push_back({l, request(all.view()[l], N)});
  qkv::model::Workspace<float> workspace;
  for (int round = -1; round < rounds; ++round) {
    for (Case& one : cases) {
      const double time = Milliseconds([&] { model.Forward(pixels, workspace, one.outputs); });
      if (round >= 0) one.times.push_back(time);
    }
  }
  for (Case& one : cases) std::sort(one.times.begin(), one.times.end());
  const auto median = [](const Case& one) { return one.times[one.times.size() / 2]; };
  for (const Case& one : cases) {
    fmt::print("{:<28} best {:8.2f} ms  median {:8.2f} ms  {:.3f}, {:.3f} of the pass\n", one.name, one.times[0],
               median(one), one.times[0] / cases[0].times[0], median(one) / median(cases[0]));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return Run(argc, argv);
  } catch (const qkv::Error& error) {
    fmt::print(stderr, "qkv_maps_timer: {}\n", error.what());
    return 1;
  }
}
