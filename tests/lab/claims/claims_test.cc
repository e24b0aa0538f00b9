#include "qkv/lab/claims/claims.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "qkv/builtin/digits.h"
#include "qkv/core/error.h"
#include "qkv/lab/claims/forms.h"
#include "qkv/lab/claims/page.h"
#include "qkv/lab/merge.h"
#include "qkv/lab/split.h"
#include "tests/support/files.h"
#include "tests/support/goldens.h"
#include "tests/support/sampler.h"

namespace qkv::lab {
namespace {

const model::Checkpoint& Digits() {
  static const auto checkpoint =
      model::Checkpoint::FromBytes(builtin::DigitsConfig(), builtin::DigitsWeights(), "built-in digits");
  return checkpoint;
}

std::vector<Result> Replay(const std::vector<std::string>& ids, uint64_t seed = 1,
                           std::span<const image::Image> images = {}) {
  return ReplayClaims({.checkpoint = &Digits(), .images = images, .seed = seed, .quick = true}, ids);
}

double Measured(const Result& result, std::string_view what) {
  const Check* check = result.Find(what);
  EXPECT_NE(check, nullptr) << what;
  return check == nullptr ? NAN : check->measured;
}

const std::map<std::string, Verdict> kVerdicts = {
    {"C1", Verdict::kHolds},
    {"C2", Verdict::kHolds},
    {"C3", Verdict::kHolds},
    {"C4", Verdict::kHoldsUnderConditions},
    {"C5", Verdict::kHoldsUnderConditions},
    {"C6", Verdict::kNotMeasured},
    {"C7", Verdict::kHolds},
    {"C8", Verdict::kHoldsUnderConditions},
    {"C9", Verdict::kHoldsUnderConditions},
    {"C10", Verdict::kDoesNotHold},
    {"C11", Verdict::kNotMeasured},
    {"C12", Verdict::kHolds},
    {"C13", Verdict::kHolds},
    {"C14", Verdict::kHolds},
    {"C15", Verdict::kHoldsUnderConditions},
    {"C16", Verdict::kHolds},
    {"C17", Verdict::kHolds},
    {"C18", Verdict::kHolds},
    {"C19", Verdict::kNotMeasured},
    {"C20", Verdict::kHolds},
    {"C21", Verdict::kHolds},
    {"C22", Verdict::kHolds},
};

TEST(Claims, AllAreReplayedAndTheoryHolds) {
  const auto ids = ClaimIds();
  for (const uint64_t seed : {1, 2, 77}) {
    const auto results = Replay({ids.begin(), ids.end()}, seed);
    ASSERT_EQ(results.size(), kVerdicts.size());
    for (const Result& result : results) {
      EXPECT_EQ(result.verdict, kVerdicts.at(result.id)) << result.id;
      EXPECT_FALSE(result.checks.empty()) << result.id;
      int deciding = 0;
      for (const Check& check : result.checks) {
        EXPECT_TRUE(check.holds()) << result.id << ": " << check.what << ": expected " << Predicted(check) << ", got "
                                   << lab::Measured(check);
        EXPECT_FALSE(std::isnan(check.measured)) << result.id << ": " << check.what;
        deciding += check.relation != Relation::kObserved;
        EXPECT_TRUE(check.unit != "s" || check.relation == Relation::kObserved) << "times never decide";
      }
      EXPECT_GT(deciding, 0) << result.id;
    }
  }
}

TEST(Claims, NumbersThatDoNotDependOnChance) {
  const auto results = Replay({"C4", "C5", "C8", "C9"});
  EXPECT_NEAR(Measured(results[0], "relative residual of the best shared fit of the ring"), std::sqrt(6. / 8), 1e-12);
  EXPECT_NEAR(Measured(results[0], "relative residual of the best symmetric fit of the ring"), std::sqrt(.5), 1e-12);
  EXPECT_EQ(Measured(results[1], "separate, one head"), 256);
  EXPECT_EQ(Measured(results[1], "symmetric, one head"), 218);
  EXPECT_EQ(Measured(results[1], "shared, one head"), 125);
  EXPECT_EQ(Measured(results[1], "shared, two heads"), 256);
  EXPECT_EQ(Measured(results[2], "D²/2DE, E = D/2, break-even"), 1);
  EXPECT_EQ(Measured(results[2], "D²/2DE, ViT-B, a head"), 6);
  EXPECT_EQ(Measured(results[3], "separate, 2000×3000→4000"), 64);
  EXPECT_EQ(Measured(results[3], "re-associated"), 60);
  EXPECT_EQ(Measured(results[3], "merged beforehand"), 30);
  EXPECT_NEAR(Measured(results[3], "ViT-B, a head's scores: merged / separate"), 6.68, .01);
}

// The same scores from queries and keys of another width are scaled as the model scales them.
TEST(Claims, TheScaleIsTheModelsWhateverItsKind) {
  const TemporaryFolder folder;
  const WriteOptions wide{.dtype = DType::kF64};
  Merge(Digits(), folder / "merged", wide);
  const auto merged = model::Checkpoint::Open(folder / "merged");
  const int64_t D = merged.description.config.block.width;
  std::vector<double> variances;
  Split(merged, 0, folder / "separate", wide);
  Split(merged, D, folder / "low_rank", wide);
  for (const char* name : {"merged", "separate", "low_rank"}) {
    const auto checkpoint = model::Checkpoint::Open(folder / name);
    const std::vector<std::string> ids = {"C10", "C16"};
    const auto results = ReplayClaims({.checkpoint = &checkpoint, .quick = true}, ids);
    for (const Result& result : results) EXPECT_TRUE(result.agrees()) << name << " " << result.id;
    variances.push_back(Measured(results[1], "variance of trained scores, mean over heads"));
    EXPECT_EQ(results[1].run.find("QK-norm"), std::string::npos);
  }
  // The tokens come from float runs of the three.
  EXPECT_NEAR(variances[0], variances[1], 1e-4 * variances[1]);
  EXPECT_NEAR(variances[2], variances[1], 1e-4 * variances[1]);
}

TEST(Claims, SayWhereANormMakesOtherScores) {
  const auto checkpoint = model::Checkpoint::Open(GoldenFolder("timm_qk_norm"));
  std::vector<image::Image> images;
  images.push_back(image::DecodeFile(SourceFolder() / "examples/digits/3-white.png"));
  const std::vector<std::string> ids = {"C10", "C16"};
  for (const Result& result : ReplayClaims({.checkpoint = &checkpoint, .images = images, .quick = true}, ids)) {
    EXPECT_NE(result.run.find("without its QK-norm"), std::string::npos) << result.run;
  }
}

TEST(Claims, ABrokenMeasurementContradicts) {
  auto results = Replay({"C3"});
  EXPECT_TRUE(results[0].agrees());
  results[0].checks[0].measured = 1e-12;
  EXPECT_FALSE(results[0].agrees());
  EXPECT_NE(ToText(results[0]).find("CONTRADICTS"), std::string::npos);
  EXPECT_EQ(ToJson(results[0])["agrees"], false);
}

TEST(Check, Relations) {
  EXPECT_TRUE((Check{"", Relation::kEquals, 2, 2.1, .2}.holds()));
  EXPECT_FALSE((Check{"", Relation::kEquals, 2, 2.3, .2}.holds()));
  EXPECT_TRUE((Check{"", Relation::kAtMost, 2, 1, 0}.holds()));
  EXPECT_FALSE((Check{"", Relation::kAtMost, 2, 2.1, 0}.holds()));
  EXPECT_TRUE((Check{"", Relation::kAtLeast, 2, 3, 0}.holds()));
  EXPECT_FALSE((Check{"", Relation::kAtLeast, 2, 1.9, 0}.holds()));
  for (const Relation relation : {Relation::kEquals, Relation::kAtMost, Relation::kAtLeast}) {
    EXPECT_FALSE((Check{"", relation, 2, NAN, 10}.holds())) << "NaN is never what theory gives";
  }
  EXPECT_TRUE((Check{"", Relation::kObserved, 2, 1e9, 0}.holds()));
}

TEST(Claims, TakeImagesAndRefuseWhatIsUnknown) {
  std::vector<image::Image> images;
  for (const char* name : {"3-white.png", "7-white.png"}) {
    images.push_back(image::DecodeFile(SourceFolder() / "examples/digits" / name));
  }
  const auto results = Replay({"C17"}, 1, images);
  EXPECT_TRUE(results[0].agrees());
  EXPECT_NE(results[0].run.find("2 images"), std::string::npos);
  EXPECT_GT(Measured(results[0], "total variation between heads, most alike pair"), .1) << "the trained heads differ";
  EXPECT_LT(Measured(results[0], "total variation between heads, mean"), 1);
  EXPECT_THROW(Replay({"C23"}), Error);
  EXPECT_THROW(ReplayClaims({}, {}), Error);
}

// Four seeds, which all arms feel alike, and what an arm makes of each.
AblationResults Trainings(const std::map<std::string, std::vector<double>>& more) {
  AblationResults results{.title = "Kinds of attention on leaves",
                          .facts = {{"Model", "width 8"}, {"Machine", "here"}},
                          .arms = {"separate"},
                          .planned = 99,
                          .runs = {},
                          .speeds = {}};
  const std::vector<double> separate = {0.50, 0.60, 0.55, 0.52};
  const auto add = [&](const std::string& arm, const std::vector<double>& above) {
    for (size_t i = 0; i < separate.size(); ++i) {
      results.runs.push_back({.data = "leaves",
                              .arm = arm,
                              .seed = static_cast<int64_t>(i),
                              .top1 = separate[i] + (above.empty() ? 0 : above[i])});
    }
  };
  add("separate", {});
  for (const auto& [arm, above] : more) results.arms.push_back(arm), add(arm, above);
  return results;
}

TEST(Claims, WhatTrainingsCameToDecides) {
  const std::vector<double> less = {-0.05, -0.06, -0.05, -0.07}, alike = {0.01, -0.01, 0.02, -0.015};
  const auto verdicts = [](const std::vector<AblationResults>& ablations) {
    const std::vector<std::string> ids = {"C6", "C11"};
    return ReplayClaims({.checkpoint = &Digits(), .quick = true, .ablations = ablations}, ids);
  };
  const auto helps = verdicts({Trainings({{"shared", less}, {"merged", alike}})});
  EXPECT_EQ(helps[0].verdict, Verdict::kHoldsUnderConditions);
  EXPECT_NE(helps[0].reason.find("On leaves shared − separate is -5.75 ± 1.52 points: worse."), std::string::npos)
      << helps[0].reason;
  EXPECT_NEAR(Measured(helps[0], "leaves: shared − separate, accuracy"), -5.75, 1e-9);
  EXPECT_NE(helps[0].reason.find("12 of 99 runs"), std::string::npos) << "an unfinished comparison says so";
  EXPECT_EQ(helps[1].verdict, Verdict::kOpen) << "an interval that holds 0 refutes nothing";
  EXPECT_NE(helps[1].reason.find("left open"), std::string::npos);
  EXPECT_EQ(helps[1].pictures.size(), 1u);

  const auto not_shown = verdicts({Trainings({{"shared", alike}, {"merged", less}})});
  EXPECT_EQ(not_shown[0].verdict, Verdict::kOpen);
  EXPECT_EQ(not_shown[1].verdict, Verdict::kHoldsUnderConditions);

  const auto refuted = verdicts({Trainings({{"shared", {0.05, 0.06, 0.05, 0.07}}})});
  EXPECT_EQ(refuted[0].verdict, Verdict::kDoesNotHold);

  // One task in which it shows is a condition under which it holds.
  const auto both = verdicts({Trainings({{"shared", alike}}), Trainings({{"shared", less}})});
  EXPECT_EQ(both[0].verdict, Verdict::kHoldsUnderConditions);
  EXPECT_EQ(both[1].verdict, Verdict::kNotMeasured) << "nobody trained merged ones";

  // At the rate of the baseline it is worse, at the best rate of each it is not; both are told.
  const auto rates = verdicts({Trainings({{"merged", less},
                                          {"merged:lr=3e-3", {0.03, 0.02, 0.03, 0.02}},
                                          {"separate:lr=3e-3", {0.01, 0.01, 0.01, 0.01}}})});
  EXPECT_EQ(rates[1].verdict, Verdict::kHoldsUnderConditions);
  EXPECT_NE(rates[1].reason.find("On leaves at the best of 2 learning rates for each, merged:lr=3e-3 − "
                                 "separate:lr=3e-3 is +1.50 ± 0.92 points: better."),
            std::string::npos)
      << rates[1].reason;
  EXPECT_EQ(not_shown[1].reason.find("learning rates for each"), std::string::npos) << "each was trained at one";
  for (const auto* results : {&helps, &not_shown, &both, &rates}) {
    for (const Result& result : *results) EXPECT_TRUE(result.agrees()) << result.id;
  }
}

TEST(Claims, ThePageHasEveryClaimAndPicture) {
  const auto results = Replay({"C1", "C4", "C16"});
  const std::string html = ToPage(results, "a <model>", "here");
  size_t pictures = 0, drawn = 0;
  for (const Result& result : results) pictures += result.pictures.size();
  for (size_t at = html.find("<svg"); at != std::string::npos; at = html.find("<svg", at + 1)) ++drawn;
  EXPECT_EQ(drawn, pictures);
  EXPECT_NE(html.find("C16 · Division by √E"), std::string::npos);
  EXPECT_NE(html.find("a &lt;model&gt;"), std::string::npos);
  EXPECT_EQ(html.find("No data to show"), std::string::npos);
}

TEST(Forms, TheFirstTextsThreeFunctions) {
  Sampler sampler(1);
  const auto x = sampler.Normal<double>({4, 3}), w = sampler.Normal<double>({3, 2}), v = sampler.Normal<double>({3, 5});
  const Attended unified = unified_attention(x, w), same = separate_attention_same_qk(x, w, v);
  EXPECT_EQ(unified.outputs.shape(), (Shape{4, 2}));
  EXPECT_EQ(same.outputs.shape(), (Shape{4, 5}));
  for (int64_t i = 0; i < 16; ++i) EXPECT_EQ(unified.scores[i], same.scores[i]);
  // By hand: the first score, the first weight.
  double q[2] = {}, score = 0;
  for (int e = 0; e < 2; ++e) {
    for (int d = 0; d < 3; ++d) q[e] += x[d] * w[d * 2 + e];
    score += q[e] * q[e];
  }
  EXPECT_NEAR(unified.scores[0], score, 1e-14);
  double sum = 0;
  for (int64_t j = 0; j < 4; ++j) sum += std::exp(unified.scores[j] - score);
  EXPECT_NEAR(unified.weights[0], 1 / sum, 1e-14);
  EXPECT_THROW(separate_attention(x, w, v, v), Error);
  EXPECT_THROW(unified_attention(x, v.view().slice(0, 0, 2)), Error);
}

}  // namespace
}  // namespace qkv::lab
