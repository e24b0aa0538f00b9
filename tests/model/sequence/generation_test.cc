// Texts by decoders: what transformers' generate gives for every golden; sequences together as alone; rules and
// settings.
#include "qkv/model/sequence/generation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "qkv/core/work.h"
#include "qkv/io/safetensors.h"
#include "qkv/model/sequence/pair_generation.h"
#include "qkv/model/sequence/text_model.h"
#include "tests/support/errors.h"
#include "tests/support/goldens.h"
#include "tests/support/integers.h"

namespace qkv::model {
namespace {

namespace fs = std::filesystem;

// Told by a file: every process of a test asks for this list, and headers take their time to read.
std::vector<std::string> Writers() {
  std::vector<std::string> names = TextGoldenNames();
  std::erase_if(names,
                [](const std::string& name) { return !fs::exists(TextGoldenFolder(name) / "generation_config.json"); });
  return names;
}

class GenerationGolden : public testing::TestWithParam<std::string> {
 protected:
  GenerationGolden()
      : model_(TextModel::Load(TextGoldenFolder(GetParam()))),
        expected_(io::SafeTensors::Open(TextGoldenFolder(GetParam()) / "expected.safetensors")) {
    const auto ids = ReadIntegers<int32_t>(*expected_.Find("input_ids")),
               mask = ReadIntegers<int32_t>(*expected_.Find("attention_mask"));
    for (int64_t b = 0; b < ids.dim(0); ++b) {
      const int32_t* const row = ids.view().row(b);
      texts_.emplace_back(row, row + std::count(mask.view().row(b), mask.view().row(b) + ids.dim(1), 1));
    }
  }

  // What transformers wrote, without its padding and, of a pair, its first token.
  std::vector<std::vector<int32_t>> Expected(const std::string& name) const {
    const auto table = ReadIntegers<int32_t>(*expected_.Find("generated." + name));
    std::vector<std::vector<int32_t>> texts;
    for (int64_t b = 0; b < table.dim(0); ++b) {
      const int32_t* const row = table.view().row(b);
      const int32_t* const end = std::find(row, row + table.dim(1), -1);
      texts.emplace_back(row + (model_.has_encoder() ? 1 : 0), end);
    }
    return texts;
  }

  // Texts of those at `which`, decoded together.
  std::vector<Generated> Write(const GenerationSettings& settings, const std::vector<size_t>& which,
                               const std::function<bool()>& stop = {}) {
    std::vector<std::vector<int32_t>> prompts;
    for (const size_t i : which) prompts.push_back(texts_[i]);
    const auto B = std::ssize(prompts);
    Decoder<float> decoder(model_.decoder(), B * settings.beams);
    if (!model_.has_encoder()) return Generate(decoder, prompts, nullptr, settings, {}, stop);
    size_t N = 0;
    for (const auto& prompt : prompts) N = std::max(N, prompt.size());
    Tensor<int32_t> ids({B, static_cast<int64_t>(N)});
    Tensor<bool> mask({B, static_cast<int64_t>(N)});
    for (int64_t b = 0; b < B; ++b) {
      const std::vector<int32_t>& prompt = prompts[static_cast<size_t>(b)];
      std::ranges::copy(prompt, ids.view().row(b));
      std::fill_n(mask.view().row(b), prompt.size(), true);
    }
    TextWorkspace workspace;
    model_.ReadSource({.ids = ids, .mask = mask}, workspace);
    const std::vector<std::vector<int32_t>> starts(prompts.size(), {*model_.description().generation.start});
    return Generate(decoder, starts, &workspace.source, settings, {}, stop);
  }

  void Compare(const std::string& name, const GenerationSettings& settings) {
    const std::vector<std::vector<int32_t>> expected = Expected(name);
    const std::vector<Generated> together = Write(settings, {0, 1});
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(together[i].tokens, expected[i]) << name << " of text " << i;
      EXPECT_EQ(Write(settings, {i})[0].tokens, expected[i]) << name << " of text " << i << " alone";
    }
  }

  GenerationSettings Settings() const {
    GenerationSettings settings = SettingsOf(model_.description().generation, 1);
    settings.max_tokens = 12, settings.beams = 1;
    return settings;
  }

  TextModel model_;
  io::SafeTensors expected_;
  std::vector<std::vector<int32_t>> texts_;
};
INSTANTIATE_TEST_SUITE_P(Cases, GenerationGolden, testing::ValuesIn(Writers()),
                         [](const auto& name) { return name.param; });

TEST_P(GenerationGolden, GreedyIsThatOfTransformers) { Compare("greedy", Settings()); }

TEST_P(GenerationGolden, BeamSearchIsThatOfTransformers) {
  GenerationSettings settings = Settings();
  settings.beams = 4, settings.length_penalty = 0.8;
  Compare("beam", settings);
}

TEST_P(GenerationGolden, RulesAreThoseOfTransformers) {
  GenerationSettings settings = Settings();
  settings.beams = 3, settings.no_repeat_ngram = 2, settings.length_penalty = 1.3, settings.repetition_penalty = 1.2;
  if (model_.has_encoder()) settings.min_tokens = 5;  // transformers counts the prompt
  Compare("options", settings);
}

// A file may repeat ids, in any order, and name some that the vocabulary lacks.
TEST_P(GenerationGolden, RepeatedAndForeignEndsChangeNothing) {
  GenerationSettings settings = Settings();
  for (const int64_t beams : {1, 4}) {
    settings.beams = beams;
    settings.ends = {3, 7, 9};
    settings.suppressed = {5, 11};
    const std::vector<Generated> expected = Write(settings, {0, 1});
    settings.ends.clear(), settings.suppressed.clear();
    for (int i = 0; i < 50'000; ++i) {
      settings.ends.insert(settings.ends.end(), {9, 3, 7, 1'000'000 + i});
      settings.suppressed.insert(settings.suppressed.end(), {11, 5, 1'000'000 + i});
    }
    const std::vector<Generated> texts = Write(settings, {0, 1});
    for (size_t i = 0; i < texts.size(); ++i) {
      EXPECT_EQ(texts[i].tokens, expected[i].tokens) << beams << " beams";
      EXPECT_EQ(texts[i].score, expected[i].score);
      EXPECT_EQ(texts[i].ended, expected[i].ended);
    }
  }
}

// Each beam's best tokens may all be ends: as many others go on as there are beams.
TEST_P(GenerationGolden, ManyEndsLeaveEnoughBeams) {
  GenerationSettings settings = Settings();
  settings.beams = 4, settings.min_tokens = 3, settings.ends.clear();
  for (int32_t id = 1; id < 40; ++id) settings.ends.push_back(id);
  for (const Generated& text : Write(settings, {0, 1})) {
    ASSERT_GE(text.tokens.size(), 3u);
    const auto is_end = [&](int32_t id) { return id > 0 && id < 40; };
    EXPECT_EQ(std::ranges::count_if(text.tokens, is_end), text.ended ? 1 : 0);
    if (text.ended) {
      EXPECT_TRUE(is_end(text.tokens.back()));
    }
  }
}

// At any block of any token.
TEST_P(GenerationGolden, IsGivenUpBetweenBlocks) {
  const std::vector<Generated> whole = Write(Settings(), {0});
  for (const int last : {0, 1, 5}) {
    int asked = 0;
    const CancelScope scope([&] { return asked++ == last; });
    EXPECT_THROW(Write(Settings(), {0}), Cancelled) << last;
  }
  EXPECT_EQ(Write(Settings(), {0})[0].tokens, whole[0].tokens);
}

TEST_P(GenerationGolden, DrawsTheSameTextsTogetherAsAlone) {
  GenerationSettings settings = Settings();
  settings.sampling = {.temperature = 1.5, .min_p = 0.01, .seed = 7};
  const std::vector<Generated> together = Write(settings, {0, 1});
  EXPECT_EQ(Write(settings, {0})[0].tokens, together[0].tokens);
  ++settings.sampling.seed;
  EXPECT_EQ(Write(settings, {1})[0].tokens, together[1].tokens);
  EXPECT_NE(Write(settings, {0})[0].tokens, together[0].tokens);
}

TEST_P(GenerationGolden, StopsBetweenTwoTokens) {
  GenerationSettings settings = Settings();
  settings.min_tokens = 12;
  const std::vector<Generated> whole = Write(settings, {0, 1});
  int asked = 0;
  const auto stop = [&] { return ++asked > 4; };  // before the first token and after each
  const std::vector<Generated> cut = Write(settings, {0, 1}, stop);
  EXPECT_EQ(asked, 5);
  for (size_t i = 0; i < cut.size(); ++i) {
    const std::vector<int32_t>& all = whole[i].tokens;
    EXPECT_EQ(cut[i].tokens, std::vector<int32_t>(all.begin(), all.begin() + 4));
    EXPECT_FALSE(cut[i].ended);
  }
  settings.beams = 3, asked = 0;
  for (const Generated& text : Write(settings, {0, 1}, stop)) EXPECT_TRUE(text.tokens.empty());
  EXPECT_EQ(asked, 5);
}

// One batch alone: on the calling thread, asked at each token.
TEST(GenerateFromSourcesTest, StopsBetweenTwoTokens) {
  const TextModel model = TextModel::Load(TextGoldenFolder("marian"));
  const std::vector<std::vector<int32_t>> sources(3, {1, 2, 3});
  GenerationSettings settings = SettingsOf(model.description().generation, 1);
  settings.max_tokens = settings.min_tokens = 40;
  const auto caller = std::this_thread::get_id();
  for (const int64_t beams : {1, 4}) {
    settings.beams = beams;
    int asked = 0;
    GenerateFromSources(model, sources, 0, settings, 3, [&] {
      EXPECT_EQ(std::this_thread::get_id(), caller);
      return ++asked > 6;
    });
    EXPECT_EQ(asked, 7);
  }
}

TEST(GenerationSettingsTest, AreRead) {
  GenerationDefaults defaults;
  defaults.max_length = 20, defaults.min_length = 5, defaults.beams = 4, defaults.ends = {2}, defaults.sample = true;
  const GenerationSettings settings = SettingsOf(defaults, 1);
  EXPECT_EQ(settings.max_tokens, 19);
  EXPECT_EQ(settings.min_tokens, 4);
  EXPECT_EQ(settings.sampling.temperature, 0) << "a beam search does not draw";
  settings.Validate();
}

TEST(GenerationSettingsTest, RefusesWhatCannotBe) {
  GenerationSettings settings;
  settings.beams = 2, settings.sampling.temperature = 1;
  EXPECT_THROW(settings.Validate(), Error);
  settings = {.repetition_penalty = 0};
  EXPECT_THROW(settings.Validate(), Error);
  settings = {.beams = 0};
  EXPECT_THROW(settings.Validate(), Error);
}

}  // namespace
}  // namespace qkv::model
