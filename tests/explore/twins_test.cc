// The twins of the built-in digits: other kinds of attention, trained alike.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "qkv/explore/explorer.h"
#include "tests/support/files.h"

namespace qkv::explore {
namespace {

Explorer WithTwins() {
  return Explorer({.models = {{"digits", "", ""},
                              {"digits-shared", (SourceFolder() / "models/digits-shared").string(), ""},
                              {"digits-merged", (SourceFolder() / "models/digits-merged").string(), ""}}});
}

Packet Pass(Explorer& explorer, const std::string& model, const std::string& sample, const io::Json& edits = {}) {
  Packet request;
  request.json = {{"model", model}, {"sample", sample}, {"edits", edits}};
  return explorer.Call("pass", request);
}

TEST(Twins, ReadTheDrawnDigits) {
  Explorer explorer = WithTwins();
  const io::Json models = explorer.Call("models", Packet()).json["models"];
  EXPECT_EQ(models[0]["attention"], "separate");
  EXPECT_EQ(models[1]["attention"], "shared");
  EXPECT_EQ(models[2]["attention"], "merged");
  for (const std::string name : {"digits-shared", "digits-merged"}) {
    int right = 0;
    for (const Sample& sample : Samples()) {
      right += Pass(explorer, name, sample.id).json["top"][0]["label"] == sample.title;
    }
    EXPECT_GE(right, 8) << name;
  }
}

// W_Q = W_K: M is symmetric, so there is no antisymmetric part to turn.
TEST(Twins, SharedQueriesAndKeysHaveNoOtherSide) {
  Explorer explorer = WithTwins();
  const io::Json turned = io::Json::array({{{"kind", "symmetry"}, {"t", -1}}});
  const auto change = [&](const std::string& model) {
    const Packet plain = Pass(explorer, model, "digit-4"), other = Pass(explorer, model, "digit-4", turned);
    float greatest = 0;
    const auto a = plain.Find("logits")->As<float>(), b = other.Find("logits")->As<float>();
    for (size_t i = 0; i < a.size(); ++i) greatest = std::max(greatest, std::abs(a[i] - b[i]));
    return greatest;
  };
  EXPECT_LT(change("digits-shared"), 1e-3);
  EXPECT_GT(change("digits"), 0.1);
  EXPECT_GT(change("digits-merged"), 0.1);
}

}  // namespace
}  // namespace qkv::explore
