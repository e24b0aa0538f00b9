#include "qkv/app/inspection.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "qkv/app/json_line.h"
#include "qkv/app/open.h"
#include "qkv/app/pipeline.h"
#include "tests/support/files.h"

namespace qkv::app {
namespace {

class Inspected : public testing::Test {
 protected:
  Inspection Weights() {
    int64_t blocks = 0;
    Inspection inspection = InspectWeights(checkpoint_, [&] { ++blocks; });
    EXPECT_EQ(blocks, inspection.config.depth);
    return inspection;
  }
  Inspection Tokens(size_t images) {
    Inspection inspection = Weights();
    const model::Model model = BuildModel(checkpoint_, {}, {});
    ImageList list = CollectImages({(SourceFolder() / "examples/digits").string()}, {});
    list.files.resize(images);
    const CollectedPixels pixels = CollectPixels({}, list, model, "test");
    EXPECT_EQ(pixels.values.dim(0), static_cast<int64_t>(images));
    int64_t steps = 0;
    InspectTokens(
        checkpoint_, model, pixels.values, "some images", [&] { ++steps; }, inspection);
    EXPECT_EQ(steps, InspectionSteps(inspection.config, static_cast<int64_t>(images)));
    return inspection;
  }
  const model::Checkpoint checkpoint_ = OpenCheckpoint({});
};

TEST_F(Inspected, HasOneJsonForm) {
  const Inspection inspection = Weights();
  const io::Json json = ToJson(inspection);
  EXPECT_EQ(json["source"], "built-in digits");
  EXPECT_TRUE(json["tokens"].is_null());
  EXPECT_EQ(json["caveats"], io::Json::array());
  EXPECT_EQ(json["parameters_a_head"]["seen"], inspection.parameters.seen);
  ASSERT_EQ(json["heads"].size(), inspection.heads());
  const io::Json& last = json["heads"].back();
  EXPECT_EQ(last["block"], inspection.config.depth - 1);
  EXPECT_EQ(last["head"], inspection.config.block.attention.heads - 1);
  EXPECT_EQ(last["qk_symmetry"], inspection.weights.back().qk.symmetry);
  EXPECT_EQ(last["qk_singular_values"].size(), inspection.weights.back().qk.singular_values.size());
  EXPECT_EQ(last["ov_eigenvalues"][0].size(), 2u);
  for (const InspectionField& field : InspectionFields(inspection))
    EXPECT_TRUE(last.contains(field.name)) << field.name;
}

TEST_F(Inspected, TokensAddFields) {
  const size_t of_weights = InspectionFields(Weights()).size();
  const Inspection one = Tokens(1), two = Tokens(2);
  EXPECT_GT(InspectionFields(one).size(), of_weights);
  EXPECT_GT(InspectionFields(two).size(), InspectionFields(one).size())
      << "one image does not tell position from content";
  EXPECT_EQ(one.caveats.size(), 1u);
  EXPECT_TRUE(two.caveats.empty());
  const io::Json json = ToJson(two);
  EXPECT_EQ(json["tokens"]["images"], 2);
  EXPECT_EQ(json["tokens"]["from"], "some images");
  EXPECT_TRUE(json["heads"][0]["registers"].is_number());
}

TEST_F(Inspected, CsvHasALineForEachHeadAndTheSameFields) {
  const Inspection inspection = Tokens(2);
  const std::string csv = ToCsv(inspection);
  EXPECT_EQ(static_cast<size_t>(std::ranges::count(csv, '\n')), 1 + inspection.heads());
  const std::string header = csv.substr(0, csv.find('\n'));
  EXPECT_TRUE(header.starts_with("block,head,qk_effective_rank,")) << header;
  EXPECT_EQ(static_cast<size_t>(std::ranges::count(header, ',')), 1 + InspectionFields(inspection).size());
  EXPECT_EQ(csv.find("nan"), csv.npos);
}

TEST_F(Inspected, PageNamesTheModel) {
  EXPECT_NE(InspectionPage(Weights()).find("<title>The heads of built-in digits</title>"), std::string::npos);
}

}  // namespace
}  // namespace qkv::app
