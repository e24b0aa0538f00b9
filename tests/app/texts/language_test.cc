// Text models with their tokenizers: vectors and texts as transformers gives them (tests/golden/tasks), and long
// texts in pieces.
#include "qkv/app/texts/language.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "qkv/app/texts/pieces.h"
#include "qkv/core/lines.h"
#include "qkv/core/work.h"
#include "qkv/io/json.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/goldens.h"

namespace qkv::app {
namespace {

std::string Task(const std::string& name) { return GoldenFolder("tasks") / name; }

io::Json Expected(const std::string& name) { return io::ReadJson(std::filesystem::path(Task(name)) / "expected.json"); }

TEST(Language, VectorsAreThoseOfTransformers) {
  const auto model = LanguageModel::Open({.path = Task("bert")});
  const io::Json expected = Expected("bert");
  const auto texts = expected["texts"].get<std::vector<std::string>>();
  std::string note;
  const Tensor<float> vectors = model.Embed(texts, [&](const std::string& text) { note += text; });
  for (size_t i = 0; i < texts.size(); ++i) {
    for (int64_t d = 0; d < vectors.dim(1); ++d) {
      EXPECT_NEAR(vectors.view().row(static_cast<int64_t>(i))[d],
                  expected["vectors"][i][static_cast<size_t>(d)].get<double>(), 2e-6)
          << texts[i];
    }
  }
  EXPECT_NE(note.find("more than the model's 12 tokens and are cut"), std::string::npos) << note;
}

TEST(Language, TextsTogetherAreTextsAlone) {
  const auto model = LanguageModel::Open({.path = Task("bert")});
  const auto texts = Expected("bert")["texts"].get<std::vector<std::string>>();
  const Tensor<float> together = model.Embed(texts);
  for (size_t i = 0; i < texts.size(); ++i) {
    const Tensor<float> alone = model.Embed({&texts[i], 1});
    for (int64_t d = 0; d < alone.size(); ++d) {
      EXPECT_NEAR(alone[d], together.view().row(static_cast<int64_t>(i))[d], 1e-6) << texts[i];
    }
  }
}

class Writers : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Tasks, Writers, testing::Values("gpt2", "llama", "t5", "marian"),
                         [](const auto& name) { return name.param; });

TEST_P(Writers, WriteWhatTransformersWrites) {
  const auto model = LanguageModel::Open({.path = Task(GetParam())});
  const io::Json expected = Expected(GetParam());
  const auto texts = expected["texts"].get<std::vector<std::string>>();
  for (const char* how : {"greedy", "beam"}) {
    model::GenerationSettings settings = model.Settings();
    settings.max_tokens = 10;
    if (how == std::string("beam")) settings.beams = 3;
    if (model.model().has_encoder()) {
      const std::vector<Written> written = model.Write(texts, {.together = 3, .settings = settings});
      for (size_t i = 0; i < texts.size(); ++i) {
        EXPECT_EQ(written[i].text, expected[how][i].get<std::string>()) << how << ": " << texts[i];
        // One text, as it comes.
        std::string shown;
        const Written one = model.WriteOne(texts[i], {.settings = settings}, [&](std::string_view piece) {
          shown += piece;
          return true;
        });
        EXPECT_EQ(one.ids, written[i].ids);
        EXPECT_EQ(one.text, written[i].text);
        EXPECT_EQ(Trim(shown), written[i].text);
      }
      continue;
    }
    for (size_t i = 0; i < texts.size(); ++i) {
      std::string shown;
      const Written written = model.Continue(texts[i], settings, [&](std::string_view text) {
        shown += text;
        return true;
      });
      // Alone, without the prompt, Llama's first token loses its space.
      const auto answer = expected[how][i].get<std::string>();
      // Llama's bytes that are no UTF-8 are shown before that is known.
      if (GetParam() == "llama" && answer.find("\xEF\xBF\xBD") != std::string::npos) continue;
      EXPECT_TRUE(written.text == answer || written.text == " " + answer)
          << how << ": " << texts[i] << ": " << written.text << ", expected " << answer;
      EXPECT_EQ(shown, written.text) << "it streams what it returns";
    }
  }
}

TEST(Language, EachDoesWhatItCan) {
  const std::vector<std::string> texts = {"a house"};
  EXPECT_NE(ErrorMessage([&] { LanguageModel::Open({.path = Task("gpt2")}).Embed(texts); }).find("writes texts"),
            std::string::npos);
  EXPECT_NE(ErrorMessage([&] { LanguageModel::Open({.path = Task("bert")}).Write(texts, {}); }).find("Marian, T5"),
            std::string::npos);
  EXPECT_NE(ErrorMessage([&] {
              LanguageModel::Open({.path = Task("t5")}).Continue("a", {}, [](std::string_view) { return true; });
            }).find("GPT-2, Llama"),
            std::string::npos);
}

// Counted in steps: refusing costs nothing that grows with the text.
TEST(Language, TextsThatAreTooLongAreRefusedBeforeTheyAreEncoded) {
  const auto refused = [](const auto& read, size_t bytes) {
    const std::string text(bytes, 'a');
    const int64_t before = StepsDone();
    EXPECT_NE(ErrorMessage([&] { read(text); }).find("expected up to"), std::string::npos);
    EXPECT_LT(StepsDone() - before, 1000);
  };
  const auto encoder = LanguageModel::Open({.path = Task("bert")});
  const auto pair = LanguageModel::Open({.path = Task("marian")});
  const auto decoder = LanguageModel::Open({.path = Task("gpt2")});
  const auto most = [](const LanguageModel& model) {
    return static_cast<size_t>(MaxTextBytes(model.model().text_length()));
  };
  const auto embedded = static_cast<size_t>(MaxTextBytes(12));  // tokens of a sentence; the model reads more
  refused([&](const std::string& text) { encoder.Read({&text, 1}); }, embedded + 1);
  refused([&](const std::string& text) { encoder.CountTokens(text); }, most(encoder) + 1);
  refused([&](const std::string& text) { pair.ReadSources({&text, 1}, "say: "); }, most(pair) - 4);
  refused([&](const std::string& text) { pair.CountTokens(text); }, most(pair) + 1);
  refused([&](const std::string& text) { decoder.ReadPrompt(text); }, most(decoder) + 1);
  refused([&](const std::string& text) { CutTexts({&text, 1}, pair, "", true, "x"); }, (size_t{4} << 20) + 1);
  const std::string fits(embedded, ' ');
  EXPECT_EQ(encoder.Read({&fits, 1}).size(), 1u);
}

TEST(Language, SaysWhatIsReadOfATextThatIsCut) {
  const auto model = LanguageModel::Open({.path = Task("bert")});
  const int64_t length = model.model().text_length();
  std::vector<std::string> texts = {"a", ""};
  for (int64_t i = 0; i < length; ++i) texts[1] += "a ";
  const std::vector<TextIds> read = model.Read(texts);
  EXPECT_FALSE(read[0].is_cut());
  EXPECT_TRUE(read[1].is_cut());
  EXPECT_EQ(read[1].read, std::ssize(read[1].ids));
  EXPECT_EQ(read[1].tokens, model.CountTokens(texts[1]));
  const Tensor<float> by_texts = model.Embed(texts), by_ids = model.Embed(read);
  for (int64_t i = 0; i < by_texts.size(); ++i) EXPECT_EQ(by_texts[i], by_ids[i]);
}

TEST(Pieces, LongTextsAreCutAtSentences) {
  const auto model = LanguageModel::Open({.path = Task("marian")});
  const auto limit = static_cast<size_t>(model.usual_length());
  std::string text;
  while (static_cast<size_t>(model.CountTokens(text)) < 3 * limit) text += "The house is green. It has a door! ";
  const std::vector<std::string> texts = {"attention", text};
  EXPECT_NE(ErrorMessage([&] { CutTexts(texts, model, "", false, "translate"); }).find("--cut"), std::string::npos);
  const Pieces pieces = CutTexts(texts, model, "", true, "translate");
  EXPECT_EQ(pieces.cut, 1u);
  std::string joined;
  for (size_t i = 1; i < pieces.texts.size(); ++i) {
    EXPECT_EQ(pieces.of[i], 1u);
    EXPECT_LE(static_cast<size_t>(model.CountTokens(pieces.texts[i])), limit);
    EXPECT_TRUE(pieces.texts[i].ends_with(". ") || pieces.texts[i].ends_with("! ")) << pieces.texts[i];
    joined += pieces.texts[i];
  }
  EXPECT_EQ(joined, text) << "nothing is lost";
  EXPECT_GT(CutTexts(std::vector<std::string>{std::string(20'000, 'x')}, model, "", true, "").texts.size(), 1u);
  std::vector<Written> written(pieces.texts.size());
  for (size_t i = 0; i < written.size(); ++i) written[i] = {.text = std::to_string(i), .tokens = 2, .ended = true};
  const std::vector<Written> whole = JoinPieces(pieces, written);
  ASSERT_EQ(whole.size(), 2u);
  EXPECT_TRUE(whole[1].text.starts_with("1 2 ")) << whole[1].text;
  EXPECT_EQ(whole[1].tokens, 2 * static_cast<int64_t>(written.size() - 1));
}

}  // namespace
}  // namespace qkv::app
