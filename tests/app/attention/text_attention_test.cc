// Attention of texts: the weights are those of transformers and of qkv run, rows are the tokens that were written, and
// files and pages hold them.
#include "qkv/app/attention/text_attention.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "qkv/app/attention/alignment_page.h"
#include "qkv/app/attention/alignment_picture.h"
#include "qkv/app/attention/text_attention_files.h"
#include "qkv/app/capture/text_capture.h"
#include "qkv/app/capture/towers.h"
#include "qkv/core/file.h"
#include "qkv/core/memory.h"
#include "qkv/io/npy.h"
#include "qkv/io/safetensors.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/goldens.h"

namespace qkv::app {
namespace {

const char* const kText = "The house is green.";

LanguageModel Open(const std::string& name) {
  return LanguageModel::Open({.path = GoldenFolder("tasks/" + name).string()});
}
io::SafeTensors Reference(const std::string& name) {
  return io::SafeTensors::Open(GoldenFolder("tasks/" + name) / "attentions.safetensors");
}

TextAttendRequest Everything(const LanguageModel& model, std::optional<inspect::PartKind> part = {}) {
  TextAttendRequest request{.part = part, .layers = "all", .head = "all"};
  request.settings = model.Settings();
  request.settings.max_tokens = 10;
  return request;
}

std::vector<int32_t> Ids(const io::SafeTensors& file, const char* name) {
  const Tensor<int64_t> ids = ReadTokenTensor(*file.Find(name), name);
  return {ids.data(), ids.data() + ids.size()};
}

// Each row of an unfused head is a distribution.
void ExpectRowsSumToOne(const TextAttention& attention) {
  const int64_t N = std::ssize(attention.columns);
  for (int64_t row = 0; row < attention.weights.size() / N; ++row) {
    const float* const begin = attention.weights.data() + row * N;
    EXPECT_NEAR(std::accumulate(begin, begin + N, 0.0), 1, 1e-5) << row;
  }
}

struct PartOf {
  const char *model, *part;
};
class Parts : public testing::TestWithParam<PartOf> {};
INSTANTIATE_TEST_SUITE_P(Models, Parts,
                         testing::Values(PartOf{"bert", "encoder"}, PartOf{"gpt2", "decoder"}, PartOf{"t5", "encoder"},
                                         PartOf{"t5", "decoder"}, PartOf{"t5", "cross"}, PartOf{"marian", "encoder"},
                                         PartOf{"marian", "decoder"}, PartOf{"marian", "cross"}),
                         [](const auto& test) { return std::string(test.param.model) + "_" + test.param.part; });

TEST_P(Parts, AttendAsTransformersDoes) {
  const auto& [name, part] = GetParam();
  const LanguageModel model = Open(name);
  const io::SafeTensors reference = Reference(name);
  const TextAttender attender(model, Everything(model, ParsePart(part, "--part")));
  const TextAttention attention = attender.Compute(kText);
  const Tensor<float> expected = io::Convert<float>(*reference.Find(part));
  ASSERT_EQ(attention.weights.shape(), expected.shape());
  for (int64_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(attention.weights[i], expected[i], 2e-6) << i;
  ExpectRowsSumToOne(attention);
  const bool written = reference.Find("written") != nullptr && attention.part != inspect::PartKind::kEncoder;
  EXPECT_EQ(attention.row_ids, Ids(reference, written ? "written" : "source"));
  EXPECT_EQ(attention.rows.size(), attention.row_ids.size());
  EXPECT_EQ(attention.columns.size(), attention.column_ids.size());
  EXPECT_EQ(attention.target.empty(), !written);
}

// What is written token by token attends as the one pass over what was written; and row t is the step that wrote t.
TEST(TextAttention, RowsAreTheStepsThatWriteThem) {
  for (const char* name : {"marian", "t5"}) {
    const LanguageModel model = Open(name);
    const TextAttention whole = TextAttender(model, Everything(model)).Compute(kText);
    ASSERT_EQ(whole.part, inspect::PartKind::kCross);
    const io::SafeTensors reference = Reference(name);
    model::TextWorkspace workspace;
    const std::vector<int32_t> source = Ids(reference, "source");
    const auto N = std::ssize(source);
    for (int64_t t = 0; t < std::ssize(whole.row_ids); ++t) {
      // The decoder has read the start and the t tokens before, and its last logits choose token t.
      std::vector<int32_t> fed = {model.StartToken()};
      fed.insert(fed.end(), whole.row_ids.begin(), whole.row_ids.begin() + t);
      Tensor<float> weights({1, 3, 1, N}), logits({1, t + 1, model.model().decoder().config().outputs});
      model.model().Forward({.ids = {source.data(), {1, N}}, .decoder_ids = {fed.data(), {1, t + 1}}}, workspace,
                            {.logits = logits, .cross_attention = {{1, {t, t + 1, weights}}}});
      const float* const last = logits.view().at(0, t);
      const bool end_was_forced = t + 1 == std::ssize(whole.row_ids) && std::string(name) == "marian";
      if (!end_was_forced) {
        const int64_t best = std::max_element(last, last + logits.dim(2)) - last;
        EXPECT_EQ(best, whole.row_ids[static_cast<size_t>(t)]) << name << ", step " << t;
      }
      for (int64_t h = 0; h < 3; ++h) {
        for (int64_t n = 0; n < N; ++n) {
          EXPECT_NEAR(*weights.view().at(0, h, 0, n), *whole.weights.view().at(1, h, t, n), 2e-6) << name;
        }
      }
    }
  }
}

TEST(TextAttention, IsWhatRunGives) {
  for (const char* name : {"marian", "t5"}) {
    const LanguageModel model = Open(name);
    const TextAttention cross = TextAttender(model, Everything(model)).Compute(kText),
                        decoder = TextAttender(model, Everything(model, inspect::PartKind::kDecoder)).Compute(kText);
    const TemporaryFolder folder;
    const auto as_tensor = [](const std::vector<int32_t>& ids) {
      Tensor<int64_t> tensor({1, std::ssize(ids)});
      std::copy(ids.begin(), ids.end(), tensor.data());
      return tensor;
    };
    const Tensor<int64_t> source = as_tensor(cross.column_ids), fed = as_tensor(decoder.column_ids);
    const std::filesystem::path file = folder / "ids.safetensors";
    io::WriteSafeTensors(file,
                         {io::Stored<int64_t>("input_ids", source), io::Stored<int64_t>("decoder_input_ids", fed)});
    const Captured run = CaptureText(model.model(), io::SafeTensors::Open(file), file.string(), {0, 1});
    for (int64_t block = 0; block < 2; ++block) {
      const Tensor<float>& of_cross = run.at(fmt::format("cross_attention.{}", block));
      const Tensor<float>& of_decoder = run.at(fmt::format("attention.{}", block));
      for (int64_t i = 0; i < of_cross.size(); ++i) ASSERT_EQ(cross.weights.view()[block].data()[i], of_cross[i]);
      for (int64_t i = 0; i < of_decoder.size(); ++i) ASSERT_EQ(decoder.weights.view()[block].data()[i], of_decoder[i]);
    }
    EXPECT_EQ(decoder.column_ids[0], model.StartToken());
    EXPECT_EQ(decoder.rows, cross.rows);
  }
}

TEST(TextAttention, HeadsAreChosenAndFused) {
  const LanguageModel model = Open("marian");
  const TextAttention all = TextAttender(model, Everything(model)).Compute(kText);
  const auto with = [&](const std::string& layers, const std::string& head) {
    TextAttendRequest request = Everything(model);
    request.layers = layers, request.head = head;
    return TextAttender(model, request).Compute(kText);
  };
  const TextAttention chosen = with("1,0", "2"), mean = with("", "mean"), most = with("0", "max");
  EXPECT_EQ(chosen.layers, (std::vector<std::string>{"block 1", "block 0"}));
  EXPECT_EQ(chosen.heads, std::vector<std::string>{"head 2"});
  EXPECT_EQ(mean.layers, std::vector<std::string>{"block 1"});
  for (int64_t t = 0; t < 10; ++t) {
    for (int64_t n = 0; n < 14; ++n) {
      const auto of = [&](int64_t l, int64_t h) { return *all.weights.view().at(l, h, t, n); };
      EXPECT_EQ(*chosen.weights.view().at(1, 0, t, n), of(0, 2));
      EXPECT_NEAR(*mean.weights.view().at(0, 0, t, n), (of(1, 0) + of(1, 1) + of(1, 2)) / 3, 1e-7);
      EXPECT_EQ(*most.weights.view().at(0, 0, t, n), std::max({of(0, 0), of(0, 1), of(0, 2)}));
    }
  }
  ExpectRowsSumToOne(mean);
}

TEST(TextAttention, ATargetIsForced) {
  const LanguageModel model = Open("marian");
  TextAttendRequest request = Everything(model);
  request.target = "una casa";
  const TextAttention given = TextAttender(model, request).Compute(kText);
  EXPECT_EQ(given.target, "una casa");
  EXPECT_EQ(given.row_ids, model.target_tokenizer().Encode("una casa"));
  EXPECT_EQ(given.rows.back(), "</s>");
  ExpectRowsSumToOne(given);
  // What the model wrote, given as a target, attends the same.
  const TextAttention own = TextAttender(model, Everything(model)).Compute(kText);
  EXPECT_EQ(Facts(own)["target"], own.target);
  const io::Json json = ToJson(given);
  EXPECT_EQ(json["part"], "cross");
  EXPECT_EQ(json["columns"].size(), 14u);
  EXPECT_EQ(json["weights"][1][2].size(), given.rows.size());
  // A prefix is read, too.
  request.prefix = "a ";
  const TextAttention prefixed = TextAttender(model, request).Compute(kText);
  EXPECT_EQ(prefixed.source, std::string("a ") + kText);
  EXPECT_GT(prefixed.columns.size(), given.columns.size());
}

TEST(TextAttention, RefusesWhatAModelDoesNotHave) {
  const LanguageModel bert = Open("bert"), gpt2 = Open("gpt2"), marian = Open("marian");
  const auto refusal = [](const LanguageModel& model, TextAttendRequest request, const std::string& text = kText) {
    return ErrorMessage([&] { TextAttender(model, std::move(request)).Compute(text); });
  };
  const auto has = [](const std::string& message, const char* part) {
    return message.find(part) != std::string::npos ? testing::AssertionSuccess()
                                                   : testing::AssertionFailure() << message;
  };
  EXPECT_TRUE(has(refusal(bert, {.part = inspect::PartKind::kCross}), "leave out --cross"));
  EXPECT_TRUE(has(refusal(gpt2, {.part = inspect::PartKind::kEncoder}), "--part decoder"));
  EXPECT_TRUE(has(refusal(bert, {.part = inspect::PartKind::kDecoder}), "--part encoder"));
  EXPECT_TRUE(has(refusal(bert, {.target = "a"}), "--target"));
  EXPECT_TRUE(has(refusal(marian, {.part = inspect::PartKind::kEncoder, .target = "a"}), "--target"));
  EXPECT_TRUE(has(refusal(marian, {.target = " "}), "--target is empty"));
  EXPECT_TRUE(has(refusal(marian, {.target = std::string(500, 'x')}), "the model writes 128"));
  EXPECT_TRUE(has(refusal(marian, {.layers = "2"}), "from 0 to 1"));
  EXPECT_TRUE(has(refusal(marian, {.head = "3"}), "from 0 to 2"));
  EXPECT_TRUE(has(refusal(bert, {}, " \n"), "the text is empty"));
  EXPECT_TRUE(has(refusal(bert, {}, "a b c d e f g h i j k l m n o p q r s t u v w"), "give a shorter one"));
  EXPECT_TRUE(has(ErrorMessage([] { ParsePart("both", "--part"); }), "encoder, decoder or cross"));
  const int64_t limit = MemoryLimit();
  SetMemoryLimit(2000);
  EXPECT_TRUE(has(refusal(gpt2, {.layers = "all", .head = "all"}, "seven of them and more of them, too"),
                  "attend: 2 blocks, 3 heads"));
  SetMemoryLimit(limit);
}

TEST(TextAttention, IsWrittenInEachFormat) {
  const TemporaryFolder folder;
  const LanguageModel model = Open("t5");
  const TextAttention all = TextAttender(model, Everything(model)).Compute(kText);
  for (const char* name : {"a.png", "a.npy", "a.safetensors", "a.html", "a.json"}) {
    WriteTextAttention(all, ParseOutputFormat(name), folder / name);
    EXPECT_TRUE(std::filesystem::exists(folder / name)) << name;
  }
  const Tensor<float> npy = io::ReadNpy<float>(folder / "a.npy");
  const io::SafeTensors file = io::SafeTensors::Open(folder / "a.safetensors");
  const Tensor<float> stored = io::Convert<float>(*file.Find("weights"));
  ASSERT_EQ(npy.shape(), all.weights.shape());
  ASSERT_EQ(stored.shape(), all.weights.shape());
  for (int64_t i = 0; i < npy.size(); ++i) ASSERT_TRUE(npy[i] == all.weights[i] && stored[i] == all.weights[i]);
  EXPECT_EQ(io::ReadJson(folder / "a.tokens.json"), Facts(all));
  EXPECT_EQ(io::Json::parse(file.metadata().at("rows")), io::Json(all.rows));
  EXPECT_EQ(file.metadata().at("target"), all.target);
  EXPECT_EQ(io::ReadJson(folder / "a.json"), ToJson(all));
  const image::Image sheet = AlignmentPicture(all);
  TextAttendRequest one = Everything(model);
  one.layers = "0", one.head = "1";
  const image::Image single = AlignmentPicture(TextAttender(model, one).Compute(kText));
  EXPECT_EQ(sheet.channels(), 3);
  EXPECT_GT(single.width(), 14 * 30);
  EXPECT_GT(sheet.width(), 3 * 14 * 12);
}

TEST(TextAttention, PicturesHaveBounds) {
  TextAttention large{.model = "m", .layers = {"block 0"}, .heads = {"head 0"}};
  large.rows.resize(700, "a"), large.columns.resize(700, "b");
  large.weights = Tensor<float>({1, 1, 700, 700});
  EXPECT_NE(ErrorMessage([&] { AlignmentPicture(large); }).find("--layer or --head"), std::string::npos);
  large.rows.resize(100), large.columns.resize(100);
  large.rows[0] = std::string(5000, 'w');  // a name is shortened
  large.weights = Tensor<float>({1, 1, 100, 100});
  EXPECT_LT(AlignmentPicture(large).width(), 2000);
}

// The bar of a decoder's matrix that has more in its first row than the scale's end says so: it needs more room.
TEST(TextAttention, BarsSayThatTheFirstRowIsBrighter) {
  TextAttention a{.model = "m", .part = inspect::PartKind::kDecoder, .layers = {"block 0"}, .heads = {"head 0"}};
  a.rows.resize(40, "a"), a.columns.resize(40, "b");
  a.weights = Tensor<float>({1, 1, 40, 40});
  std::fill_n(a.weights.data(), a.weights.size(), 0.025F);
  const int64_t width = AlignmentPicture(a).width();
  a.weights[0] = 1;
  EXPECT_GT(AlignmentPicture(a).width(), width);
  // Where every row sets the scale, its end is the greatest weight ("100 %" is as wide as "2.5 %", or narrower).
  a.part = inspect::PartKind::kEncoder;
  EXPECT_LE(AlignmentPicture(a).width(), width + 12);
}

TEST(TextAttention, PageHoldsItsData) {
  const LanguageModel model = Open("bert");
  TextAttendRequest request{.format = MapFormat::kHtml, .model = "<b>"};
  const std::string text = "a </script><i> & b";
  const TextAttention attention = TextAttender(model, request).Compute(text);
  EXPECT_EQ(attention.layers.size(), 2u);
  EXPECT_EQ(attention.heads.size(), 3u);
  const std::string html = AlignmentPage(attention);
  EXPECT_TRUE(html.starts_with("<!DOCTYPE html>"));
  for (const char* absent : {"{{", "<b>", "<i>", "https:"}) EXPECT_EQ(html.find(absent), html.npos) << absent;
  EXPECT_NE(html.find("<title>Attention: a &lt;/script&gt;"), html.npos);
  EXPECT_NE(html.find("\"part\":\"encoder\""), html.npos);
  const size_t begin = html.find("id=\"weights\">") + 13, bytes = 2 * static_cast<size_t>(attention.weights.size());
  EXPECT_EQ(html.find('<', begin) - begin, (bytes + 2) / 3 * 4);
}

}  // namespace
}  // namespace qkv::app
