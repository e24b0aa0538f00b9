// Which edits a model can have, and how several add up.
#include "qkv/explore/edits.h"

#include <gtest/gtest.h>

#include "qkv/model/checkpoint/checkpoint.h"
#include "tests/support/errors.h"
#include "tests/support/goldens.h"

namespace qkv::explore {
namespace {

model::VitConfig ConfigOf(const std::string& golden) {
  return model::Checkpoint::Open(GoldenFolder(golden)).description.config;
}

bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Edits, SayWhyAModelCannotHaveThem) {
  struct Row {
    const char* golden;
    EditKind kind;
    const char* why;
  };
  for (const Row& row :
       {Row{"timm_qk_norm", EditKind::kRank, "a norm stands between"},
        Row{"timm_qk_norm", EditKind::kGauge, "a norm stands between"}, Row{"timm_dinov3", EditKind::kRank, "rotated"},
        Row{"timm_kind_merged", EditKind::kGauge, "no gauge is left"},
        Row{"timm_kind_shared", EditKind::kGauge, "one weight"},
        Row{"timm_kind_symmetric", EditKind::kGauge, "one weight"},
        Row{"timm_kind_shared_kv", EditKind::kGauge, "the values too"},
        Row{"timm_kind_gaussian", EditKind::kSymmetry, "from positions"},
        Row{"timm_kind_positional", EditKind::kRank, "from positions"},
        Row{"hf_beit", EditKind::kHead, "relative position"}, Row{"hf_yolos", EditKind::kToken, "detection tokens"},
        Row{"hf_eomt", EditKind::kSymmetry, "query tokens"},
        Row{"timm_differential", EditKind::kHead, "the difference of two softmaxes"}}) {
    EXPECT_TRUE(Has(Obstacle(row.kind, ConfigOf(row.golden)), row.why))
        << row.golden << ": " << Obstacle(row.kind, ConfigOf(row.golden));
  }
  for (const EditKind kind :
       {EditKind::kSymmetry, EditKind::kRank, EditKind::kGauge, EditKind::kHead, EditKind::kToken}) {
    EXPECT_EQ(Obstacle(kind, ConfigOf("timm_vit")), "");
    EXPECT_EQ(Obstacle(kind, ConfigOf("timm_kind_low_rank")), "");
  }
  EXPECT_EQ(PossibleEdits(ConfigOf("timm_kind_gaussian")), (std::vector<std::string>{"head", "token"}));
  EXPECT_TRUE(PossibleEdits(ConfigOf("hf_beit")).empty());
}

TEST(Edits, AddUp) {
  const model::VitConfig config = ConfigOf("timm_vit");  // 2 blocks of 3 heads of 8
  const Edits none(io::Json(), config), empty(io::Json::array(), config);
  EXPECT_TRUE(none.empty() && empty.empty());
  EXPECT_TRUE(none.Of(1, 2).plain());
  const Edits edits(io::Json::parse(R"([
      {"kind": "symmetry", "t": -0.5}, {"kind": "symmetry", "t": 0.5, "blocks": [1]},
      {"kind": "rank", "rank": 3, "heads": [0]}, {"kind": "rank", "rank": 5, "by": "data", "heads": [0, 1]},
      {"kind": "rank", "rank": 8, "heads": [2]}, {"kind": "gauge", "strength": 0.5, "seed": 2, "blocks": "all"},
      {"kind": "gauge", "blocks": [0]}, {"kind": "head", "block": 1, "head": 2},
      {"kind": "token", "token": 4}, {"kind": "token", "token": 4}])"),
                    config);
  EXPECT_EQ(edits.Of(0, 0).t, -0.5);
  EXPECT_EQ(edits.Of(1, 0).t, -0.25);
  EXPECT_EQ(edits.Of(0, 0).rank, 3);
  EXPECT_FALSE(edits.Of(0, 0).rank_by_data);
  EXPECT_EQ(edits.Of(1, 1).rank, 5);
  EXPECT_TRUE(edits.Of(1, 1).rank_by_data);
  EXPECT_FALSE(edits.Of(1, 2).rank.has_value()) << "the full rank is M";
  EXPECT_EQ(edits.Of(0, 1).gauges.size(), 2u);
  EXPECT_EQ(edits.Of(1, 1).gauges.size(), 1u);
  EXPECT_TRUE(edits.Of(1, 2).removed);
  EXPECT_FALSE(edits.Of(0, 2).removed);
  EXPECT_EQ(edits.hidden(), std::vector<int64_t>{4});
}

TEST(Edits, RefuseWhatIsNone) {
  const model::VitConfig config = ConfigOf("timm_vit");
  for (const char* list :
       {R"({})", R"([1])", R"([{}])", R"([{"kind": "sharpen"}])", R"([{"kind": "symmetry", "t": "x"}])",
        R"([{"kind": "symmetry", "t": -1.01}])", R"([{"kind": "symmetry", "t": 0, "blocks": [2]}])",
        R"([{"kind": "symmetry", "t": 0, "heads": [-1]}])", R"([{"kind": "rank"}])", R"([{"kind": "rank", "rank": 0}])",
        R"([{"kind": "rank", "rank": 2.5}])", R"([{"kind": "rank", "rank": 2, "by": "luck"}])",
        R"([{"kind": "gauge", "strength": 2}])", R"([{"kind": "gauge", "seed": -1}])",
        R"([{"kind": "head", "block": 0}])", R"([{"kind": "head", "block": 0, "head": 3}])",
        R"([{"kind": "token", "token": 10}])", R"([{"kind": "token", "token": 1e30}])"}) {
    EXPECT_NE(ErrorMessage([&] { Edits(io::Json::parse(list), config); }), "") << list;
  }
  io::Json many = io::Json::array();
  for (int i = 0; i < 257; ++i) many.push_back({{"kind", "token"}, {"token", 1}});
  EXPECT_NE(ErrorMessage([&] { Edits(many, config); }), "");
}

}  // namespace
}  // namespace qkv::explore
