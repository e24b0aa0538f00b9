// Relevance against PyTorch's autograd on the originals (tests/golden/relevance.py), and under edits against
// differences.
#include <gtest/gtest.h>

#include "qkv/app/open/open.h"
#include "qkv/builtin/digits_model.h"
#include "qkv/explore/edits.h"
#include "qkv/explore/open_pass.h"
#include "qkv/inspect/rollout.h"
#include "tests/inspect/goldens.h"
#include "tests/support/errors.h"

namespace qkv::explore {
namespace {

// Every class of the file, of every image.
void CheckRelevance(const std::string& name, const model::Checkpoint& checkpoint, const Tensor<float>& pixels,
                    const io::SafeTensors& reference) {
  OpenModel model(checkpoint, pixels.dim(2), pixels.dim(3));
  OpenWorkspace workspace;
  const Edits none;
  int classes = 0;
  for (const io::StoredTensor& stored : reference.tensors()) {
    if (!stored.name.starts_with("class.") || stored.name.ends_with(".float64")) continue;
    ++classes;
    const auto single = io::Convert<double>(stored);
    const auto exact = io::Convert<double>(*reference.Find(stored.name + ".float64"));
    for (int64_t b = 0; b < pixels.dim(0); ++b) {
      OpenPass pass(model, none, workspace);
      const Tensor<float> relevance =
          pass.Relevance(pixels.view().slice(0, b, b + 1), std::stoll(stored.name.substr(6)));
      inspect::ExpectNear<float>(relevance, exact.view()[b], inspect::Tolerance<float>(name, single, exact),
                                 name + " " + stored.name);
    }
  }
  EXPECT_GE(classes, 2) << name;
}

class RelevanceOf : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Models, RelevanceOf,
                         testing::Values("timm_vit", "timm_reg4_cls", "timm_reg4_gap", "timm_qk_norm", "timm_deit3",
                                         "timm_distilled", "timm_map", "timm_non_square", "timm_dinov3",
                                         "timm_kind_shared", "timm_kind_merged", "timm_kind_symmetric", "hf_vit_labels",
                                         "hf_deit", "hf_dinov2", "hf_vit_non_square"));

TEST_P(RelevanceOf, IsThatOfAutograd) {
  const inspect::GoldenModel<float> golden(GetParam());
  CheckRelevance(GetParam(), golden.checkpoint, golden.pixels,
                 io::SafeTensors::Open(golden.folder / "relevance.safetensors"));
}

TEST(Relevance, OfTheBuiltInDigitsIsThatOfAutograd) {
  const auto file = io::SafeTensors::Open(SourceFolder() / "tests/explore/golden/digits.safetensors");
  const model::Checkpoint checkpoint = app::OpenCheckpoint({});
  const auto pixels = io::Convert<float>(*file.Find("pixels"));
  CheckRelevance("digits", checkpoint, pixels, file);
  // Their rollout and logits too.
  const model::Model model = builtin::DigitsModel();
  model::Workspace<float> workspace;
  const auto check = [&](const std::string& what, int64_t image, View<const float> ours) {
    const auto single = io::Convert<double>(*file.Find(what));
    const auto exact = io::Convert<double>(*file.Find(what + ".float64"));
    inspect::ExpectNear<float>(ours, exact.view()[image], inspect::Tolerance<float>("", single, exact), what);
  };
  const Tensor<float> logits = model.Logits(pixels);
  for (int64_t b = 0; b < 2; ++b) {
    check("logits", b, logits.view()[b]);
    check("rollout", b,
          inspect::AttentionRollout<float>(model.vit(), pixels.view().slice(0, b, b + 1),
                                           {.last_block = 3, .query = {inspect::Query::Kind::kAll, 0}}, workspace));
  }
}

// Edits that change nothing leave it, by the other way through the backward pass.
TEST_P(RelevanceOf, EditsThatChangeNothingLeaveIt) {
  const inspect::GoldenModel<float> golden(GetParam());
  OpenModel model(golden.checkpoint, golden.pixels.dim(2), golden.pixels.dim(3));
  OpenWorkspace workspace;
  const View<const float> image = golden.pixels.view().slice(0, 0, 1);
  const auto relevance = [&](const io::Json& list) {
    const Edits edits(list, model.config());
    return OpenPass(model, edits, workspace).Relevance(image, 0);
  };
  const Tensor<float> plain = relevance(io::Json());
  // Turned twice: the second t = −1 swaps the roles back. Scores that are symmetric have no part to turn.
  const nn::AttentionKind own = model.config().block.attention.kind;
  const bool symmetric = nn::QueriesAreKeys(own);
  io::Json list = io::Json::array();
  for (const std::string& kind : PossibleEdits(model.config())) {
    if (kind == "symmetry") {
      list.push_back({{"kind", kind}, {"t", symmetric ? 0.3 : -1}});
      if (!symmetric) list.push_back({{"kind", kind}, {"t", -1}});
    }
    if (kind == "gauge") list.push_back({{"kind", kind}, {"strength", 0.5}, {"seed", 3}});
  }
  const auto stored = io::SafeTensors::Open(golden.folder / "relevance.safetensors");
  const double tolerance = 8 * inspect::Tolerance<float>("", io::Convert<double>(*stored.Find("class.0")),
                                                         io::Convert<double>(*stored.Find("class.0.float64")));
  inspect::ExpectNear<float>(
      relevance(list),
      [&] {
        Tensor<double> wide({plain.size()});
        for (int64_t i = 0; i < plain.size(); ++i) wide[i] = plain[i];
        return wide;
      }(),
      tolerance, GetParam());
}

TEST(Relevance, RefusesWhatHasNoClasses) {
  const inspect::GoldenModel<float> golden("timm_features");
  OpenModel model(golden.checkpoint, golden.pixels.dim(2), golden.pixels.dim(3));
  OpenWorkspace workspace;
  const Edits none;
  OpenPass pass(model, none, workspace);
  EXPECT_NE(ErrorMessage([&] { pass.Relevance(golden.pixels.view().slice(0, 0, 1), 0); }).find("no classes"),
            std::string::npos);
}

}  // namespace
}  // namespace qkv::explore
