// qkv qk inspect from outside.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/cli/program.h"

namespace qkv {
namespace {

size_t Lines(const std::string& text) { return static_cast<size_t>(std::count(text.begin(), text.end(), '\n')); }

TEST(Inspect, TellsAllHeadsOfTheBuiltInModel) {
  const CommandOutput said = Qkv("qk inspect --json --images 8 " + Digits());
  ASSERT_EQ(said.exit_code, 0) << said.err;
  const io::Json json = io::Json::parse(said.out);
  EXPECT_EQ(json["tokens"]["images"], 8);
  ASSERT_EQ(json["heads"].size(), json["blocks"].get<size_t>() * json["heads_a_block"].get<size_t>());
  for (const io::Json& head : json["heads"]) {
    const auto number = [&](const char* name) { return head[name].get<double>(); };
    EXPECT_NEAR(number("position_position") + number("position_content") + number("content_position") +
                    number("content_content"),
                1, 1e-9);
    EXPECT_EQ(head["qk_singular_values"].size(), json["head_width"].get<size_t>());
    EXPECT_EQ(head["qk_eigenvalues"].size(), json["head_width"].get<size_t>());
    EXPECT_LE(number("qk_rank_90"), number("qk_rank_99"));
    EXPECT_LE(number("entropy"), json["tokens"]["uniform"]["entropy"].get<double>());
  }
  EXPECT_EQ(Lines(Qkv("qk inspect --images 8 " + Digits()).out), json["heads"].size() + 1);
}

TEST(Inspect, WritesCsvAndAPageOfItsOwn) {
  const TemporaryFolder folder;
  const std::string csv = (folder / "heads.csv").string(), page = (folder / "heads.html").string();
  const CommandOutput said = Qkv("qk inspect -m " + Golden("vit_pytorch_vit") + " -o " + csv + " --report " + page);
  ASSERT_EQ(said.exit_code, 0) << said.err;
  EXPECT_TRUE(said.out.empty());
  EXPECT_TRUE(Contains(said.err, "noise")) << said.err;
  const io::Json info = io::Json::parse(Qkv("info --json -m " + Golden("vit_pytorch_vit")).out);
  EXPECT_EQ(Lines(ReadFile(csv)), info["depth"].get<size_t>() * info["heads"].get<size_t>() + 1);
  const std::string html = ReadFile(page);
  EXPECT_TRUE(Contains(html, "What stands out"));
  for (const char* outside : {"src=\"http", "href=\"http", "@import", "url(http"})
    EXPECT_FALSE(Contains(html, outside));
}

// Columns and pictures are of what the model has.
TEST(Inspect, LeavesOutWhatAModelDoesNotHave) {
  const TemporaryFolder folder;
  const std::string page = (folder / "heads.html").string();
  const auto page_of = [&](const char* golden) {
    const CommandOutput said = Qkv("qk inspect --images 2 -m " + Golden(golden) + " --report " + page);
    EXPECT_EQ(said.exit_code, 0) << said.err;
    return ReadFile(page);
  };
  const std::string whole = page_of("timm_reg4_cls"), normalised = page_of("timm_qk_norm"),
                    patches = page_of("vit_pytorch_simple");
  for (const char* part : {"W_Q/W_K", "To the class token", "To the registers", "Position to position"}) {
    EXPECT_TRUE(Contains(whole, part)) << part;
  }
  for (const char* part : {"W_Q/W_K", "Balanced", "Position to position"}) EXPECT_FALSE(Contains(normalised, part));
  for (const char* part : {"To the class token", "To the registers"}) EXPECT_FALSE(Contains(patches, part)) << part;
  EXPECT_TRUE(Contains(patches, "W_Q/W_K"));
  EXPECT_FALSE(Contains(Qkv("qk inspect --images 2 -m " + Golden("vit_pytorch_simple")).out, "class"));
}

// Of a head whose patches look at the class token alone there is no distance; a pruned head has no W_Q/W_K.
TEST(Inspect, PagesLeaveOutHeadsWithoutANumber) {
  constexpr int64_t D = 24, kHeadWidth = 8;
  const TemporaryFolder folder;
  const auto sign = [](int64_t d) { return d % 2 == 0 ? 1.0f : -1.0f; };
  WriteChanged("timm_reg4_cls", folder.path(), [&](const std::string& name, Tensor<float>& tensor) {
    const bool weight = name.ends_with("weight");
    const int64_t columns = weight ? D : 1;
    if (name == "cls_token") {
      for (int64_t d = 0; d < D; ++d) tensor[d] = 1000 * sign(d);
    } else if (name.starts_with("blocks.0.norm1.")) {
      std::fill_n(tensor.data(), D, weight ? 1.0f : 0.0f);
    } else if (name.starts_with("blocks.0.attn.qkv.")) {  // head 0: every query asks for what the class token is
      for (int64_t part = 0; part < 2; ++part) std::fill_n(tensor.data() + part * D * columns, kHeadWidth * columns, 0);
      if (!weight) tensor[0] = 1e4f;
      for (int64_t d = 0; d < D && weight; ++d) tensor[D * D + d] = sign(d);
    } else if (name.starts_with("blocks.1.attn.qkv.")) {
      for (int64_t part = 0; part < 3; ++part) std::fill_n(tensor.data() + part * D * columns, kHeadWidth * columns, 0);
    }
  });
  const std::string page = (folder / "heads.html").string();
  const CommandOutput said = Qkv("qk inspect --json --images 2 -m " + folder.path().string() + " --report " + page);
  ASSERT_EQ(said.exit_code, 0) << said.err;
  const io::Json heads = io::Json::parse(said.out)["heads"];
  ASSERT_TRUE(heads[0]["distance"].is_null());
  ASSERT_TRUE(heads[0]["near"].is_null());
  ASSERT_TRUE(heads[1]["distance"].is_number());
  ASSERT_EQ(heads[3]["query_norm"], 0);
  ASSERT_EQ(heads[3]["key_norm"], 0);
  const std::string html = ReadFile(page);
  for (const char* text : {"from nan", "to nan", "nan patches", ">nan<", "\"nan\"", "nan %"}) {
    EXPECT_FALSE(Contains(html, text)) << text;
  }
}

TEST(Inspect, WeightsAlone) {
  const CommandOutput said = Qkv("qk inspect --json --images 0 -m " + Golden("timm_qkv_bias_off"));
  ASSERT_EQ(said.exit_code, 0) << said.err;
  const io::Json json = io::Json::parse(said.out);
  EXPECT_TRUE(json["tokens"].is_null());
  EXPECT_EQ(json["heads"][0]["key_bias_norm"], 0);
  EXPECT_FALSE(json["heads"][0].contains("entropy"));
}

TEST(Inspect, SaysWhatCannotBeKnown) {
  const io::Json normalised = io::Json::parse(Qkv("qk inspect --json -m " + Golden("timm_qk_norm")).out);
  EXPECT_GE(normalised["caveats"].size(), 1u);
  EXPECT_TRUE(normalised["parameters_a_head"].is_null());
  EXPECT_FALSE(normalised["heads"][0].contains("gauge_excess"));
  EXPECT_FALSE(normalised["heads"][0].contains("position_position"));
  const CommandOutput one = Qkv("qk inspect --images 1");
  EXPECT_EQ(one.exit_code, 0);
  EXPECT_TRUE(Contains(one.err, "one image is not enough")) << one.err;

  const CommandOutput missing = Qkv("qk inspect /nonexistent.png");
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_TRUE(Contains(missing.err, "/nonexistent.png"));
  EXPECT_EQ(Qkv("qk inspect --images -1").exit_code, 2);
}

}  // namespace
}  // namespace qkv
