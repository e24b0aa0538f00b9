// Pairs of texts: their files, the tokens and batches that come of them, and the model in Marian's layout.
#include "qkv/train/sequences/pairs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "qkv/core/file.h"
#include "qkv/io/safetensors.h"
#include "qkv/model/checkpoint/text_checkpoint.h"
#include "qkv/train/network/loss.h"
#include "qkv/train/run/pair_model.h"
#include "tests/support/files.h"
#include "tests/support/goldens.h"
#include "tests/support/pairs.h"
#include "tests/train/networks.h"

namespace qkv::train {
namespace {

namespace fs = std::filesystem;

class Pairs : public testing::Test {
 protected:
  fs::path Write(const std::string& text, const std::string& name = "pairs.tsv") const {
    WriteFile(folder_ / name, text);
    return folder_ / name;
  }
  void ExpectRefusal(const std::string& text, const std::string& part) const {
    try {
      ReadPairs(Write(text));
      ADD_FAILURE() << text << " was read";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }
  // Lines of 1 to 9 words.
  static PairTexts SomeTexts(int count) {
    PairTexts texts;
    for (int i = 0; i < count; ++i) {
      std::string source, target;
      for (int word = 0; word <= i % 9; ++word) source += "wort ", target += "the word ";
      texts.sources.push_back(source + std::to_string(i)), texts.targets.push_back(target + std::to_string(i));
    }
    return texts;
  }

  const TemporaryFolder folder_;
};

TEST_F(Pairs, AreKnownByTheirFirstLine) {
  EXPECT_TRUE(IsPairs(Write("guten Tag\tgood day\n")));
  EXPECT_TRUE(IsPairs(Write("guten Tag\tgood day", "upper.TSV")));
  EXPECT_FALSE(IsPairs(Write("guten Tag\tgood day\n", "pairs.txt")));
  EXPECT_FALSE(IsPairs(Write("path\tlabel\na.png\tcat\n")));
  EXPECT_FALSE(IsPairs(Write("photos/a.JPG\tcat\n")));
  EXPECT_FALSE(IsPairs(Write("a\tb\tc\n")));
  EXPECT_FALSE(IsPairs(Write("no tab\n")));
  EXPECT_FALSE(IsPairs(Write("")));
  EXPECT_FALSE(IsPairs(folder_ / "nowhere.tsv"));
}

TEST_F(Pairs, AreReadLineByLine) {
  const PairTexts texts =
      ReadPairs(Write("\xef\xbb\xbf"
                      "eins \tone\r\n zwei\t two\n\n\n"));
  EXPECT_EQ(texts.sources, (std::vector<std::string>{"eins", "zwei"}));
  EXPECT_EQ(texts.targets, (std::vector<std::string>{"one", "two"}));
}

TEST_F(Pairs, WithFaultsAreRefusedByTheirLine) {
  ExpectRefusal("", "is empty");
  ExpectRefusal("a\tb\nc d\n", ":2: 0 tabs");
  ExpectRefusal("a\tb\tc\n", ":1: 2 tabs");
  ExpectRefusal("a\tb\n\nc\td\n", ":2: 0 tabs");
  ExpectRefusal("a\tb\n \td\n", ":2: the source is empty");
  ExpectRefusal("a\t\n", ":1: the target is empty");
  ExpectRefusal("a\tb\n\xff\td\n", ":2: not UTF-8");
}

TEST_F(Pairs, AreSplitByTheirNumbersAlone) {
  const auto [train, validation] = SplitPairs(SomeTexts(100), 0.1);
  EXPECT_EQ(train.size(), 90);
  EXPECT_EQ(validation.size(), 10);
  const auto [again, same] = SplitPairs(SomeTexts(100), 0.1);
  EXPECT_EQ(same.sources, validation.sources);
  EXPECT_EQ(again.targets, train.targets);
  std::set<std::string> all(train.sources.begin(), train.sources.end());
  all.insert(validation.sources.begin(), validation.sources.end());
  EXPECT_EQ(all.size(), 100u);
  EXPECT_THROW(SplitPairs(SomeTexts(1), 0.1), Error);
}

TEST_F(Pairs, BecomeTokensThatEnd) {
  const PairTexts texts = SomeTexts(40);
  const PairTokenizer tokenizer = LearnTokenizer(texts, 300);
  EXPECT_LE(tokenizer.tokenizer.size(), 300);
  const PairSet set = EncodePairs(texts, tokenizer, 256);
  ASSERT_EQ(set.size(), 40);
  for (int64_t i = 0; i < set.size(); ++i) {
    EXPECT_EQ(set.source[i].back(), tokenizer.tokens.end);
    EXPECT_EQ(tokenizer.tokenizer.Decode(set.target[i]), " " + texts.targets[static_cast<size_t>(i)]);
  }
  const PairSet few = EncodePairs(texts, tokenizer, 8);
  EXPECT_EQ(few.size() + few.left_out, 40);
  EXPECT_GT(few.left_out, 0);
  for (int64_t i = 0; i < few.size(); ++i) EXPECT_LE(std::max(few.source.length(i), few.target.length(i)), 8);

  // Written and opened again it is the same.
  for (const auto& [name, content] : tokenizer.files) WriteFile(folder_ / name, content);
  const PairTokenizer opened = OpenTokenizer(folder_ / "");
  EXPECT_EQ(opened.tokens.end, tokenizer.tokens.end);
  EXPECT_EQ(opened.tokens.padding, tokenizer.tokens.padding);
  EXPECT_EQ(opened.files.size(), 2u);
  EXPECT_EQ(opened.tokenizer.Encode("wort the", {.add_special_tokens = false}),
            tokenizer.tokenizer.Encode("wort the", {.add_special_tokens = false}));
}

TEST_F(Pairs, FillBatchesWithShiftedTargets) {
  PairSet set;
  set.source.Add(std::vector<int32_t>{5, 6, 0}), set.target.Add(std::vector<int32_t>{7, 0});
  set.source.Add(std::vector<int32_t>{8, 0}), set.target.Add(std::vector<int32_t>{3, 4, 9, 0});
  PairBatch batch;
  FillPairBatch(set, std::vector<int64_t>{1, 0}, {.start = 2, .end = 0, .padding = 1}, &batch);
  const auto values = [](const auto& tensor) {
    return std::vector<int64_t>(tensor.span().begin(), tensor.span().end());
  };
  EXPECT_EQ(values(batch.source), (std::vector<int64_t>{8, 0, 1, 5, 6, 0}));
  EXPECT_EQ(values(batch.source_lengths), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(values(batch.target), (std::vector<int64_t>{2, 3, 4, 9, 2, 7, 1, 1}));
  EXPECT_EQ(values(batch.labels), (std::vector<int64_t>{3, 4, 9, 0, 7, 0, kIgnoredLabel, kIgnoredLabel}));
  // A part of a batch is padded as the whole is.
  FillPairBatch(set, std::vector<int64_t>{0}, {.start = 2, .end = 0, .padding = 1}, &batch, std::vector<int64_t>{0, 1});
  EXPECT_EQ(batch.source.shape(), Shape({1, 3}));
  EXPECT_EQ(batch.target.shape(), Shape({1, 4}));
}

TEST_F(Pairs, ComeOnceAnEpochInBatchesOfSimilarLengths) {
  const PairTexts texts = SomeTexts(500);
  const PairTokenizer tokenizer = LearnTokenizer(texts, 280);
  const PairSet set = EncodePairs(texts, tokenizer, 256);
  const PairBatches batches(set, 400, 1), same(set, 400, 1), other(set, 400, 2);
  ASSERT_GT(batches.size(), 10);
  std::vector<std::vector<int64_t>> firsts;
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    std::set<int64_t> seen;
    int64_t padded = 0, tokens = 0;
    for (int64_t i = 0; i < batches.size(); ++i) {
      const std::vector<int64_t> lines = batches.Lines(epoch * batches.size() + i);
      EXPECT_EQ(lines, same.Lines(epoch * batches.size() + i));
      if (i == 0) firsts.push_back(lines);
      PairBatch batch;
      FillPairBatch(set, lines, tokenizer.tokens, &batch);
      const int64_t size = batch.size() * (batch.source.dim(1) + batch.target.dim(1));
      EXPECT_TRUE(size <= 400 || batch.size() == 1) << size;
      padded += size;
      for (const int64_t line : lines) {
        seen.insert(line);
        tokens += set.source.length(line) + set.target.length(line);
      }
    }
    EXPECT_EQ(seen.size(), 500u);
    EXPECT_LT(static_cast<double>(padded), 1.25 * static_cast<double>(tokens));
  }
  EXPECT_NE(firsts[0], firsts[1]);
  EXPECT_NE(firsts[0], other.Lines(0));
}

// Every kind that a pair can have is opened as it was written, with the same weights.
TEST_F(Pairs, AreWrittenInMariansLayout) {
  const model::TextTokens tokens{.start = 2, .end = 0, .padding = 2};
  for (const auto& [name, config] : NamedPairs()) {
    SCOPED_TRACE(name);
    PairConfig c = config;
    const bool scaled = c.encoder.embedding_scale != 1;
    if (scaled) c.encoder.embedding_scale = c.decoder.embedding_scale = std::sqrt(8.0);
    const PairNetwork<float> network(c);
    const Tensor<float> weights = RandomWeights<float>(network.layout()), zeros({11});
    const fs::path folder = folder_ / name;
    fs::create_directory(folder);
    WriteFile(folder / "config.json", PairConfigJson(c, tokens));
    WriteFile(folder / "generation_config.json", model::HfMarianGeneration(c.decoder, tokens).dump());
    io::WriteSafeTensors(folder / "model.safetensors", PairTensors(network, weights, zeros), {{"format", "pt"}});
    const model::TextCheckpoint checkpoint = model::TextCheckpoint::Open(folder);
    const PairConfig read = PairOfCheckpoint(checkpoint);
    EXPECT_EQ(read, c);
    const bool plain = name == "marian" || name == "unscaled_with_bias";
    EXPECT_EQ(checkpoint.description.model_type, plain ? "marian" : "qkv_marian");
    EXPECT_EQ(model::HfMarianObstruction(c.encoder, c.decoder).empty(), plain);
    Tensor<float> copied({network.layout().size()});
    CopyPairWeights(checkpoint, network, copied);
    for (const Slot& slot : network.layout().slots()) {
      for (int64_t i = 0; i < slot.shape.size(); ++i) {
        ASSERT_EQ(copied[slot.offset + i], weights[slot.offset + i]) << slot.name;
      }
    }
    const model::TextTokens found = TokensOfCheckpoint(checkpoint);
    EXPECT_EQ(found.start, 2);
    EXPECT_EQ(found.end, 0);
    EXPECT_EQ(checkpoint.description.generation.beams, 4);
  }
  PairConfig other = SmallPair();
  other.encoder.embedding_scale = other.decoder.embedding_scale = 3;
  EXPECT_THROW(PairConfigJson(other, tokens), Error);
}

// The golden is a run that transformers opens, with its answers (tests/golden/text): what is written today is the same.
TEST_F(Pairs, AreWrittenAsTransformersOpenedThem) {
  const fs::path folder = GoldenFolder("text/marian_trained");
  const model::TextCheckpoint checkpoint = model::TextCheckpoint::Open(folder);
  const PairConfig config = PairOfCheckpoint(checkpoint);
  const model::TextTokens tokens = TokensOfCheckpoint(checkpoint);
  EXPECT_EQ(PairConfigJson(config, tokens), ReadFile(folder / "config.json"));
  EXPECT_EQ(model::HfMarianGeneration(config.decoder, tokens).dump(2) + "\n",
            ReadFile(folder / "generation_config.json"));
  const PairNetwork<float> network(config);
  Tensor<float> weights({network.layout().size()});
  const Tensor<float> zeros({config.decoder.outputs});
  CopyPairWeights(checkpoint, network, weights);
  io::WriteSafeTensors(folder_ / "model.safetensors", PairTensors(network, weights, zeros), {{"format", "pt"}});
  EXPECT_TRUE(ReadFile(folder_ / "model.safetensors") == ReadFile(folder / "model.safetensors"));
}

}  // namespace
}  // namespace qkv::train
