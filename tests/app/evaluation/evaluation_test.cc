#include "qkv/app/evaluation/evaluation.h"

#include <gtest/gtest.h>

#include "qkv/app/open/open.h"
#include "qkv/core/file.h"
#include "tests/support/files.h"

namespace qkv::app {
namespace {

namespace fs = std::filesystem;

// Digits in folders of their classes; one 7 lies among the 2s, and one file is broken.
class Evaluated : public testing::Test {
 protected:
  Evaluated() {
    for (const char* digit : {"2", "7"}) fs::create_directories(folder_ / digit);
    Copy("2-black.png", "2/a.png");
    Copy("7-white.png", "2/b.png");
    Copy("7-black.png", "7/a.png");
    WriteFile(folder_ / "7/b.png", "no image");
  }
  void Copy(const char* from, const char* to) {
    fs::copy_file(SourceFolder() / "examples/digits" / from, folder_ / to);
  }
  ImageEvaluation Run() {
    return Evaluate(model_, LabelledImages(folder_.path().string(), ""), {.model = "the model"});
  }
  const TemporaryFolder folder_;
  const model::Model model_ = LoadModel({});
};

TEST_F(Evaluated, HasOneJsonForm) {
  const ImageEvaluation evaluation = Run();
  const io::Json json = ToJson(evaluation);
  EXPECT_EQ(json["images"], 3);
  EXPECT_EQ(json["unreadable"], 1);
  EXPECT_NEAR(json["top1"].get<double>(), 2.0 / 3, 1e-12);
  const double f1 = 2.0 / 3;  // each class has one of 0.5 and 1 for precision and recall
  EXPECT_EQ(
      json["classes"],
      io::Json::array({{{"name", "2"},
                        {"images", 2},
                        {"right", 1},
                        {"precision", 1.0},
                        {"recall", 0.5},
                        {"f1", f1},
                        {"mistake", {{"name", "7"}, {"images", 1}}}},
                       {{"name", "7"}, {"images", 1}, {"right", 1}, {"precision", 0.5}, {"recall", 1.0}, {"f1", f1}}}));
  EXPECT_EQ(json["confusion"], io::Json::parse(R"([[1, 1, 0], [0, 1, 0]])"));
  EXPECT_DOUBLE_EQ(json["mean_precision"], 0.75);
  EXPECT_DOUBLE_EQ(json["mean_recall"], 0.75);
  EXPECT_DOUBLE_EQ(json["mean_f1"], f1);
  int64_t binned = 0;
  for (const io::Json& bin : json["calibration"]) binned += bin["images"].get<int64_t>();
  EXPECT_EQ(binned, 3);
  for (const char* name : {"nll", "ece", "top5", "mean_precision", "mean_recall", "mean_f1"})
    EXPECT_TRUE(json[name].is_number()) << name;
}

TEST_F(Evaluated, IsDrawn) {
  const ImageEvaluation evaluation = Run();
  EXPECT_NE(ConfusionSvg(evaluation).find("<svg"), std::string::npos);
  EXPECT_GT(ConfusionPicture(evaluation).width(), 0);
  const std::string page = EvaluationPage(evaluation);
  EXPECT_NE(page.find("the model"), std::string::npos);
  EXPECT_NE(page.find("4 images of 2 classes"), std::string::npos);
}

TEST_F(Evaluated, RefusesClassesThatTheModelDoesNotKnow) {
  fs::create_directories(folder_ / "cat");
  Copy("2-black.png", "cat/a.png");
  EXPECT_THROW(Run(), Error);
  EXPECT_THROW(LabelledImages(folder_.path().string(), "test"), Error);
}

TEST(SequenceEvaluation, HasOneJsonForm) {
  SequenceEvaluation evaluation;
  evaluation.score.tokens = {.loss = 2, .rows = 4};
  evaluation.score.tokens.correct = 3;
  evaluation.score.sequences = 2, evaluation.score.whole = 1;
  io::Json json = ToJson(evaluation);
  EXPECT_EQ(json["loss"], 0.5);
  EXPECT_EQ(json["top1"], 0.75);
  EXPECT_EQ(json["tokens"], 4);
  EXPECT_EQ(json["sequences"], 2);
  EXPECT_EQ(json["whole_sequences"], 0.5);
  EXPECT_FALSE(json.contains("bits_per_byte"));
  evaluation.text = true;
  json = ToJson(evaluation);
  EXPECT_NEAR(json["bits_per_byte"].get<double>(), 0.5 / 0.6931471805599453, 1e-12);
  EXPECT_FALSE(json.contains("sequences"));
}

}  // namespace
}  // namespace qkv::app
