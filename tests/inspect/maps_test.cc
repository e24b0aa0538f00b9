// Attention maps against the weights of timm, transformers and vit-pytorch.
#include "qkv/inspect/maps.h"

#include "tests/inspect/goldens.h"

namespace qkv::inspect {
namespace {

class Maps : public testing::TestWithParam<const char*> {};
// With registers, two tokens, no class token, qk_norm, grids that are not square, other sizes than the trained one.
INSTANTIATE_TEST_SUITE_P(Models, Maps,
                         testing::Values("timm_vit", "timm_reg4_cls", "timm_reg4_gap", "timm_distilled", "timm_qk_norm",
                                         "timm_map", "timm_non_square", "timm_non_square_patch", "timm_resized",
                                         "hf_vit", "hf_vit_non_square", "hf_dinov2_registers_resized",
                                         "hf_dinov2_swiglu", "vit_pytorch_one_head", "vit_pytorch_non_square",
                                         "vit_pytorch_simple_non_square"));

double Fused(View<const double> all, std::span<const int64_t> heads, std::optional<Fusion> fusion, int64_t row,
             int64_t k) {
  double sum = 0, greatest = 0, least = 2;
  for (const int64_t head : heads) {
    const double weight = *all.at(head, row, k);
    sum += weight, greatest = std::max(greatest, weight), least = std::min(least, weight);
  }
  return fusion == Fusion::kMax ? greatest : fusion == Fusion::kMin ? least : sum / static_cast<double>(heads.size());
}

// The request, composed from the full weights [H, N, N] of one image and block: [H or 1, Q, N].
Tensor<double> Composed(View<const double> all, const MapRequest& request, int64_t prefix) {
  const int64_t N = all.dim(1);
  std::vector<int64_t> heads = request.heads;
  for (int64_t h = 0; request.heads.empty() && h < all.dim(0); ++h) heads.push_back(h);
  const auto H = static_cast<int64_t>(heads.size());
  const bool every = request.query.kind == Query::Kind::kAll, mean = request.query.kind == Query::Kind::kMean;
  Tensor<double> composed({request.fusion ? 1 : H, every ? N : 1, N});
  for (int64_t h = 0; h < composed.dim(0); ++h) {
    const auto together = request.fusion ? std::span<const int64_t>(heads)
                                         : std::span<const int64_t>(heads).subspan(static_cast<size_t>(h), 1);
    for (int64_t k = 0; k < N; ++k) {
      for (int64_t q = 0; q < N; ++q) {
        const double weight = Fused(all, together, request.fusion, q, k);
        if (every) *composed.view().at(h, q, k) = weight;
        if (mean && q >= prefix) *composed.view().at(h, 0, k) += weight / static_cast<double>(N - prefix);
        if (!every && !mean && q == request.query.token) *composed.view().at(h, 0, k) = weight;
      }
    }
  }
  return composed;
}

std::vector<MapRequest> Requests(int64_t depth, int64_t heads, const TokenGrid& grid) {
  const int64_t last = grid.tokens() - 1;
  std::vector<MapRequest> requests;
  for (const std::optional<Fusion> fusion : {std::optional<Fusion>(), std::optional(Fusion::kMean),
                                             std::optional(Fusion::kMax), std::optional(Fusion::kMin)}) {
    for (const Query& query :
         {Query{}, Query{Query::Kind::kToken, last}, Query{Query::Kind::kMean, 0}, Query{Query::Kind::kAll, 0}}) {
      requests.push_back({{depth - 1}, {}, fusion, query});
      requests.push_back({{0}, {heads - 1}, fusion, query});
    }
  }
  requests.push_back({{0}, {heads - 1, 0}, std::nullopt, {}});  // in the order asked for
  return requests;
}

template <typename T>
void CheckMaps(const std::string& name) {
  const GoldenModel<T> golden(name);
  const model::VitConfig& c = golden.vit.config();
  const TokenGrid grid = MakeTokenGrid(c, golden.pixels.dim(2), golden.pixels.dim(3));
  ASSERT_EQ(grid.tokens(), golden.vit.TokensFor(golden.pixels.dim(2), golden.pixels.dim(3)));
  model::Workspace<T> workspace;
  for (const MapRequest& request : Requests(c.depth, c.block.attention.heads, grid)) {
    const std::string tensor = fmt::format("attention.{}", request.blocks[0]);
    const auto single = io::Convert<double>(*golden.expected.Find(tensor));
    const auto exact = io::Convert<double>(*golden.expected.Find(tensor + ".float64"));
    for (int64_t b = 0; b < golden.pixels.dim(0); ++b) {
      const Tensor<T> maps = AttentionMaps<T>(golden.vit, golden.pixels.view().slice(0, b, b + 1), request, workspace);
      const auto prefix = static_cast<int64_t>(grid.prefix.size());
      ExpectNear<T>(maps, Composed(exact.view()[b], request, prefix), Tolerance<T>(name, single, exact), name + tensor);
    }
  }
}

TEST_P(Maps, FloatIsTheOriginals) { CheckMaps<float>(GetParam()); }
TEST_P(Maps, DoubleIsTheOriginals) { CheckMaps<double>(GetParam()); }

TEST(Maps, SeveralBlocksAtOnceAreEachAlone) {
  const GoldenModel<float> golden("timm_reg4_cls");
  const auto image = golden.pixels.view().slice(0, 0, 1);
  model::Workspace<float> workspace;
  const auto both = AttentionMaps<float>(golden.vit, image, {{1, 0}, {}, std::nullopt, {}}, workspace);
  for (int64_t l = 0; l < 2; ++l) {
    const auto alone = AttentionMaps<float>(golden.vit, image, {{1 - l}, {}, std::nullopt, {}}, workspace);
    for (int64_t i = 0; i < alone.size(); ++i) ASSERT_EQ(both.view()[l].data()[i], alone[i]);
  }
}

TEST(Maps, QueriesByName) {
  const GoldenModel<float> golden("timm_reg4_cls");
  const TokenGrid grid = MakeTokenGrid(golden.vit.config(), 24, 40);
  EXPECT_EQ(grid.height, 3);
  EXPECT_EQ(grid.width, 5);
  const std::pair<const char*, int64_t> tokens[] = {{"", 0},     {"cls", 0}, {"reg0", 1},
                                                    {"reg3", 4}, {"0,0", 5}, {"2,4", 19}};
  for (const auto& [text, token] : tokens) {
    EXPECT_EQ(ParseQuery(text, grid).token, token) << text;
    EXPECT_EQ(ParseQuery(text, grid).kind, Query::Kind::kToken) << text;
  }
  EXPECT_EQ(ParseQuery("mean", grid).kind, Query::Kind::kMean);
  EXPECT_EQ(ParseQuery("all", grid).kind, Query::Kind::kAll);
  EXPECT_EQ(Describe(ParseQuery("2,4", grid), grid), "patch 2,4");
  EXPECT_EQ(Describe(ParseQuery("reg3", grid), grid), "register 3");
  EXPECT_EQ(Describe(ParseQuery("cls", grid), grid), "class token");
  for (const char* wrong : {"dist", "reg4", "3,0", "0,5", "-1,0", "1", "1,2,3", "1,x", "register"}) {
    try {
      ParseQuery(wrong, grid);
      ADD_FAILURE() << wrong;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("2,4"), std::string::npos) << error.what();
    }
  }
  // Without a class token the default is the mean of the patches.
  const GoldenModel<float> pooled("timm_reg4_gap");
  const TokenGrid without = MakeTokenGrid(pooled.vit.config(), 24, 24);
  EXPECT_EQ(ParseQuery("", without).kind, Query::Kind::kMean);
  EXPECT_THROW(ParseQuery("cls", without), Error);
}

TEST(Maps, RefusesWhatIsNotThere) {
  const GoldenModel<float> golden("timm_vit");
  const auto image = golden.pixels.view().slice(0, 0, 1);
  model::Workspace<float> workspace;
  const auto ask = [&](const MapRequest& request) { AttentionMaps<float>(golden.vit, image, request, workspace); };
  EXPECT_NO_THROW(ask({{1}, {2}, std::nullopt, {Query::Kind::kToken, 9}}));
  EXPECT_THROW(ask({{2}, {}, std::nullopt, {}}), Error);
  EXPECT_THROW(ask({{-1}, {}, std::nullopt, {}}), Error);
  EXPECT_THROW(ask({{1}, {3}, std::nullopt, {}}), Error);
  EXPECT_THROW(ask({{1}, {}, std::nullopt, {Query::Kind::kToken, 10}}), Error);
  EXPECT_THROW(AttentionMaps<float>(golden.vit, golden.pixels, {{1}, {}, {}, {}}, workspace), Error);  // two images
  Tensor<float> broken = golden.pixels.Clone();
  broken[5] = NAN;
  EXPECT_THROW(AttentionMaps<float>(golden.vit, broken.view().slice(0, 0, 1), {{1}, {}, {}, {}}, workspace), Error);
}

}  // namespace
}  // namespace qkv::inspect
