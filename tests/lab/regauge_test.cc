// Models in another gauge: every golden in every gauge, the same answers; everything else as it was; what is refused.
#include "qkv/lab/regauge.h"

#include <cmath>

#include "qkv/lab/certificate.h"
#include "qkv/model/config/separation.h"
#include "tests/lab/models.h"
#include "tests/support/errors.h"

namespace qkv::lab {
namespace {

using algebra::Gauge;
using model::Checkpoint;

class GoldenGauge : public testing::TestWithParam<std::string> {
 protected:
  TemporaryFolder folder_;
  Checkpoint original_ = Checkpoint::Open(GoldenFolder(GetParam()));
};
INSTANTIATE_TEST_SUITE_P(Goldens, GoldenGauge, testing::ValuesIn(GoldenNames()),
                         [](const auto& golden) { return golden.param; });

// With identity blocks among the columns, the gauge whose transform is conditioned worst.
TEST_P(GoldenGauge, AnswersTheSame) {
  const model::VitConfig& c = original_.description.config;
  const nn::AttentionKind kind = c.block.attention.kind;
  const bool pairs = kind == nn::AttentionKind::kSeparate || kind == nn::AttentionKind::kLowRank;
  if (!pairs || !inspect::HasLayerNormBefore(c.block) || !ScoreObstructions(MakeAttentionTraits(c)).empty()) {
    EXPECT_NE(ErrorMessage([&] { Regauge(original_, Gauge::kBalanced, folder_ / "out", {}); }), "");
    EXPECT_EQ(folder_.Count(), 0);
    return;
  }
  const auto exact = ComputeOutputs<double>(original_, GetParam());
  const auto rounded = ComputeOutputs<float>(original_, GetParam());
  for (const Gauge gauge : {Gauge::kBalanced, Gauge::kIdentityBlock}) {
    SCOPED_TRACE(Name(gauge));
    const std::filesystem::path out = folder_ / std::string(Name(gauge));
    int blocks = 0;
    const Written written = Regauge(original_, gauge, out, {.dtype = DType::kF64, .advance = [&] { ++blocks; }});
    EXPECT_EQ(blocks, c.depth);
    EXPECT_EQ(written.dtype, DType::kF64);
    EXPECT_EQ(written.after.parameters, written.before.parameters);
    const Checkpoint other = Checkpoint::Open(out);
    EXPECT_EQ(other.tensors->tensors().size(), original_.tensors->tensors().size());
    const auto ours = ComputeOutputs<double>(other, GetParam());
    for (const auto& [name, tensor] : exact) {
      EXPECT_LE(MaxDifference(ours.at(name), tensor), RewritingTolerance<double>(rounded.at(name), tensor, 1e3))
          << name;
    }
    const auto before = inspect::ReadAttention(original_, 0), after = inspect::ReadAttention(other, 0);
    EXPECT_GT(MaxDifference(before.query.weight, after.query.weight), 1e-6);
    EXPECT_EQ(MaxDifference(before.value.weight, after.value.weight), 0);
  }
}

TEST(Regauge, SaysWhichHeadHasTooLowARank) {
  const TemporaryFolder folder;
  const Checkpoint original = Checkpoint::Open(GoldenFolder("timm_kind_shared"));
  const std::string message = ErrorMessage([&] { Regauge(original, Gauge::kBalanced, folder / "out", {}); });
  EXPECT_NE(message.find("expected W_Q and W_K of their own, its attention is shared"), std::string::npos) << message;
}

}  // namespace
}  // namespace qkv::lab
