#include "qkv/explore/head_calls.h"

#include <algorithm>
#include <cmath>

#include "qkv/algebra/gauge.h"
#include "qkv/explore/fields.h"
#include "qkv/explore/gauge_calls.h"
#include "qkv/explore/passes.h"
#include "qkv/inspect/weights.h"
#include "qkv/lab/pairs.h"
#include "qkv/simd/gemm/matmul.h"

namespace qkv::explore {
namespace {

// Numbers of one circuit of every head, under names that begin with `prefix`.
void AddCircuits(const std::vector<inspect::HeadWeights>& heads, inspect::Circuit inspect::HeadWeights::*circuit,
                 int64_t L, int64_t H, const std::string& prefix, Packet& answer) {
  size_t most = 0;
  for (const inspect::HeadWeights& head : heads) most = std::max(most, (head.*circuit).singular_values.size());
  const auto R = static_cast<int64_t>(most), shares = static_cast<int64_t>(inspect::kEnergyShares.size());
  Tensor<float> singular({L, H, R}), symmetry({L, H}), effective({L, H}), energy({L, H, shares});
  for (int64_t i = 0; i < L * H; ++i) {
    const inspect::Circuit& c = heads[static_cast<size_t>(i)].*circuit;
    std::transform(c.singular_values.begin(), c.singular_values.end(), singular.data() + i * R,
                   [](double x) { return static_cast<float>(x); });
    symmetry[i] = static_cast<float>(c.symmetry), effective[i] = static_cast<float>(c.effective_rank);
    for (int64_t s = 0; s < shares; ++s) {
      energy[i * shares + s] = static_cast<float>(c.energy_rank[static_cast<size_t>(s)]);
    }
  }
  answer.arrays[prefix + "singular"] = MakeArray(singular), answer.arrays[prefix + "symmetry"] = MakeArray(symmetry);
  answer.arrays[prefix + "effective_rank"] = MakeArray(effective);
  answer.arrays[prefix + "energy_rank"] = MakeArray(energy);
}

double Norm(View<const double> matrix) {
  double sum = 0;
  for (int64_t i = 0; i < matrix.size(); ++i) sum += matrix.data()[i] * matrix.data()[i];
  return std::sqrt(sum);
}

// ‖a − b‖ / ‖b‖
double RelativeChange(const Tensor<double>& a, const Tensor<double>& b) {
  double sum = 0;
  for (int64_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  const double norm = Norm(b);
  return norm > 0 ? std::sqrt(sum) / norm : 0;
}

Array AsFloats(const Tensor<double>& from) {
  auto to = Tensor<float>::Uninitialised(from.shape());
  std::transform(from.data(), from.data() + from.size(), to.data(), [](double x) { return static_cast<float>(x); });
  return MakeArray(to);
}

// Rounds to float, as the weights would be stored.
Tensor<double> Rounded(const Tensor<double>& from) {
  auto to = Tensor<double>::Uninitialised(from.shape());
  std::transform(from.data(), from.data() + from.size(), to.data(),
                 [](double x) { return static_cast<double>(static_cast<float>(x)); });
  return to;
}

// W_Qᵀ W_K
Tensor<double> Product(const Tensor<double>& query, const Tensor<double>& key) {
  Tensor<double> product({query.dim(1), key.dim(1)});
  simd::MatMul<double>(simd::Transposed(query.view()), key, product);
  return product;
}

float GreatestDifference(const Tensor<float>& a, const Tensor<float>& b, int64_t head) {
  const int64_t size = a.dim(2) * a.dim(3);
  float greatest = 0;
  for (int64_t i = head * size; i < (head + 1) * size; ++i) greatest = std::max(greatest, std::abs(a[i] - b[i]));
  return greatest;
}

}  // namespace

Packet AnswerHeads(ExploredModel& model) {
  const model::VitConfig& c = model.config();
  const std::vector<inspect::HeadWeights>& heads = model.heads();
  const int64_t H = c.block.attention.heads;
  Packet answer;
  AddCircuits(heads, &inspect::HeadWeights::qk, c.depth, H, "", answer);
  AddCircuits(heads, &inspect::HeadWeights::ov, c.depth, H, "ov_", answer);
  answer.json["shares"] = inspect::kEnergyShares;
  return answer;
}

Packet AnswerGauge(ExploredModel& model, const PreparedImage* image, const io::Json& request) {
  const model::VitConfig& c = model.config();
  const std::string why = Obstacle(EditKind::kGauge, c);
  Require(why.empty(), "gauge: {} has none that leaves its attention: {}", c.architecture, why);
  const int64_t block = IntegerField(request, "block", 0, c.depth - 1),
                head = IntegerField(request, "head", 0, c.block.attention.heads - 1);
  const double strength = NumberField(request, "strength", 0, 1, 1);
  const auto seed = static_cast<uint64_t>(IntegerField(request, "seed", 0, int64_t{1} << 52, 0));
  const auto layer = inspect::ReadAttention(model::StoredBlocks(model.checkpoint()), block, inspect::NormBefore{});
  const lab::HeadPairs pairs = lab::MakeHeadPairs(layer);
  const algebra::QueryKey& before = pairs[static_cast<size_t>(head)];
  const algebra::QueryKey after =
      algebra::Regauge(before, MakeGauge(before.query.weight.dim(0), strength, SeedOfHead(seed, block, head)).query);
  Packet answer;
  answer.arrays["wq"] = AsFloats(before.query.weight), answer.arrays["wk"] = AsFloats(before.key.weight);
  answer.arrays["wq2"] = AsFloats(after.query.weight), answer.arrays["wk2"] = AsFloats(after.key.weight);
  answer.json = {
      {"change",
       {RelativeChange(after.query.weight, before.query.weight), RelativeChange(after.key.weight, before.key.weight)}},
      {"product", RelativeChange(Product(Rounded(after.query.weight), Rounded(after.key.weight)),
                                 Product(before.query.weight, before.key.weight))},
      {"attention", nullptr}};
  if (!image) return answer;
  const io::Json
      edits = {{"edits",
                {{{"kind", "gauge"}, {"strength", strength}, {"seed", seed}, {"blocks", {block}}, {"heads", {head}}}}}},
      none = io::Json::object();
  const Tensor<float> with = AttentionOf({model, *image, edits}, {{block}}),
                      without = AttentionOf({model, *image, none}, {{block}});
  answer.json["attention"] = GreatestDifference(with, without, head);
  return answer;
}

}  // namespace qkv::explore
