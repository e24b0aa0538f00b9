#include "qkv/app/inspection/inspection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <regex>
#include <string>

#include "qkv/app/images/pipeline.h"
#include "qkv/app/inspection/inspection_pictures.h"
#include "qkv/app/inspection/inspection_texts.h"
#include "qkv/app/open/json_line.h"
#include "qkv/app/open/open.h"
#include "tests/support/files.h"
#include "tests/support/goldens.h"

namespace qkv::app {
namespace {

class Inspected : public testing::Test {
 protected:
  Inspection Weights() {
    int64_t blocks = 0;
    Inspection inspection = InspectWeights(checkpoint_, [&] { ++blocks; });
    EXPECT_EQ(blocks, inspection.parts[0].depth);
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
    EXPECT_EQ(steps, InspectionSteps(checkpoint_.description.config, static_cast<int64_t>(images)));
    return inspection;
  }
  const model::Checkpoint checkpoint_ = OpenCheckpoint({});
};

// Labels of axes begin inside the picture: 5 digits are about 0.64 em wide each, 11 pixels an em.
TEST(InspectionPictures, LabelsOfSmallSingularValuesAreWhole) {
  InspectedPart part{.name = "", .depth = 1, .heads_a_block = 1};
  part.weights.resize(1);
  part.weights[0].qk.singular_values = {1, 0.1, 2e-4}, part.weights[0].qk.rank = 3;
  const std::string svg = heads::Spectra(part, "Singular values", &inspect::HeadWeights::qk);
  const std::regex label("<text x=\"([0-9.]+)\"[^>]*text-anchor=\"end\">0\\.0001</text>");
  std::smatch found;
  ASSERT_TRUE(std::regex_search(svg, found, label)) << svg;
  EXPECT_GE(std::stod(found[1]), 5 * 0.64 * 11 + 0.32 * 11);
}

TEST_F(Inspected, HasOneJsonForm) {
  const Inspection inspection = Weights();
  const io::Json json = ToJson(inspection);
  EXPECT_EQ(json["source"], "built-in digits");
  EXPECT_TRUE(json["tokens"].is_null());
  EXPECT_EQ(json["caveats"], io::Json::array());
  EXPECT_EQ(json["parameters_a_head"]["seen"], inspection.parts[0].parameters.seen);
  ASSERT_EQ(json["heads"].size(), inspection.heads());
  const io::Json& last = json["heads"].back();
  EXPECT_EQ(last["block"], inspection.parts[0].depth - 1);
  EXPECT_EQ(last["head"], inspection.parts[0].heads_a_block - 1);
  EXPECT_EQ(last["qk_symmetry"], inspection.parts[0].weights.back().qk.symmetry);
  EXPECT_EQ(last["qk_singular_values"].size(), inspection.parts[0].weights.back().qk.singular_values.size());
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

// A text model has parts, and each number the part that it is of.
class InspectedText : public testing::Test {
 protected:
  static LanguageModel Open(const std::string& name) {
    return LanguageModel::Open({.path = (GoldenFolder("tasks") / name).string()});
  }
  static Inspection Measure(const LanguageModel& model, const std::vector<std::string>& texts) {
    const auto parts = inspect::FindParts(model.checkpoint());
    int64_t blocks = 0, steps = 0;
    Inspection inspection = InspectWeights(model.checkpoint().source, parts, [&] { ++blocks; });
    EXPECT_EQ(blocks, std::accumulate(parts.begin(), parts.end(), int64_t{0},
                                      [](int64_t sum, const auto& part) { return sum + part.config->depth; }));
    if (texts.empty()) return inspection;
    const std::vector<inspect::TextIds> ids = IdsOfTexts(model, texts);
    InspectTexts(
        model, parts, ids, "some texts", [&] { ++steps; }, inspection);
    EXPECT_EQ(steps, inspect::TextSteps(parts, ids));
    return inspection;
  }
  const std::vector<std::string> texts_ = {"the house is green", "a red tree and the old house", "blue or red"};
};

TEST_F(InspectedText, CrossAttentionHasNoSymmetry) {
  const Inspection inspection = Measure(Open("marian"), texts_);
  const io::Json json = ToJson(inspection);
  ASSERT_EQ(json["parts"].size(), 3u);
  EXPECT_EQ(json["parts"][2]["part"], "cross");
  EXPECT_EQ(json["parts"][0]["tokens"]["texts"], 3);
  EXPECT_EQ(json["parts"][0]["tokens"]["from"], "some texts");
  ASSERT_EQ(json["heads"].size(), inspection.heads());
  for (const io::Json& head : json["heads"]) {
    const bool cross = head["part"] == "cross";
    for (const char* name : {"qk_symmetry", "qk_eigenvalue_sign", "ov_symmetry", "qk_eigenvalues", "ov_eigenvalues",
                             "distance", "first_token", "position_position"}) {
      EXPECT_EQ(head[name].is_null(), cross) << head["part"] << name;
    }
    for (const char* name : {"diagonal", "source_end"}) EXPECT_EQ(head[name].is_null(), !cross) << name;
    EXPECT_TRUE(head["qk_effective_rank"].is_number() && head["ov_rank"].is_number() && head["entropy"].is_number());
    EXPECT_FALSE(head.contains("class_token"));
  }
  EXPECT_TRUE(std::ranges::any_of(inspection.caveats, [](const std::string& caveat) {
    return caveat.starts_with("cross: ") && caveat.find("two spaces") != std::string::npos;
  }));
  const std::string csv = ToCsv(inspection);
  EXPECT_TRUE(csv.starts_with("part,block,head,qk_effective_rank,")) << csv.substr(0, 80);
  EXPECT_EQ(csv.find("nan"), csv.npos);
}

TEST_F(InspectedText, PagesHaveASectionOfEachPart) {
  for (const char* name : {"marian", "t5", "bert", "gpt2", "llama"}) {
    const LanguageModel model = Open(name);
    const bool pair = model.model().has_encoder() && model.model().has_decoder();
    const std::string page = InspectionPage(Measure(model, texts_)), bare = InspectionPage(Measure(model, {}));
    for (const std::string& html : {page, bare}) {
      EXPECT_EQ(html.find("Cross-attention. What is written") != std::string::npos, pair) << name;
      for (const char* text : {"from nan", ">nan<", "\"nan\"", "nan %", "-nan"}) {
        EXPECT_EQ(html.find(text), std::string::npos) << name << " has " << text;
      }
    }
    EXPECT_EQ(page.find("Cross-attention. Alignment") != std::string::npos, pair);
    EXPECT_EQ(bare.find("Alignment"), std::string::npos);
  }
}

// What a decoder reads beside a source is what it wrote, but for the last token.
TEST_F(InspectedText, DecodersReadTheirOwnAnswers) {
  const LanguageModel model = Open("t5");
  const std::vector<Written> written = model.Write(texts_, {.settings = model.Settings()});
  const std::vector<inspect::TextIds> ids = IdsOfTexts(model, texts_);
  for (size_t i = 0; i < ids.size(); ++i) {
    ASSERT_EQ(ids[i].target.size(), written[i].ids.size());
    EXPECT_EQ(ids[i].target[0], model.StartToken());
    EXPECT_TRUE(std::equal(ids[i].target.begin() + 1, ids[i].target.end(), written[i].ids.begin()));
  }
  std::string long_text;
  for (int i = 0; i < 400; ++i) long_text += "red house ";
  std::string said;
  const LanguageModel bert = Open("bert");
  const std::vector<std::string> one = {long_text};
  EXPECT_EQ(std::ssize(IdsOfTexts(bert, one, [&](const std::string& note) { said = note; })[0].ids),
            bert.model().text_length());
  EXPECT_NE(said.find("are cut"), std::string::npos);
}

TEST_F(InspectedText, CaveatsSayWhatMIs) {
  const auto says = [](const Inspection& inspection, const char* words) {
    return std::ranges::any_of(inspection.caveats,
                               [&](const std::string& c) { return c.find(words) != std::string::npos; });
  };
  const Inspection llama = Measure(Open("llama"), {}), t5 = Measure(Open("t5"), {}), gpt2 = Measure(Open("gpt2"), {});
  EXPECT_TRUE(says(llama, "at distance 0"));
  EXPECT_TRUE(says(llama, "share"));
  EXPECT_FALSE(llama.parts[0].free_gauge);
  EXPECT_TRUE(says(t5, "encoder, decoder: Biases by relative position"));
  EXPECT_TRUE(gpt2.caveats.empty());
  EXPECT_TRUE(says(Measure(Open("gpt2"), {"one text"}), "two texts"));
}

TEST_F(Inspected, PageNamesTheModel) {
  EXPECT_NE(InspectionPage(Weights()).find("<title>The heads of built-in digits</title>"), std::string::npos);
}

}  // namespace
}  // namespace qkv::app
