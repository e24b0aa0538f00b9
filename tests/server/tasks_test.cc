// Work on the images and texts of requests: when it is cancelled, when it is short, and its scratch memory.
#include "qkv/server/tasks.h"

#include <gtest/gtest.h>

#include "qkv/core/file.h"
#include "qkv/core/work.h"
#include "qkv/server/images.h"
#include "tests/support/files.h"
#include "tests/support/goldens.h"

namespace qkv::server {
namespace {

TEST(PixelsOf, AsksBetweenImagesWhetherItIsCancelled) {
  ServerConfig config;
  config.models = {{.id = "digits"}};
  Context context(config, [](const std::string&, std::string_view, const std::string&) {});
  const auto model = context.models().Get("digits");
  const std::string file = ReadFile(SourceFolder() / "examples/digits/7-black.png");
  const std::vector<Upload> images(5, Upload("7.png", std::string_view(file)));
  int asked = 0, last = 2;
  Call call;
  call.memory = std::make_shared<ImageMemory>(context.image_bytes, int64_t{1} << 30);
  const CancelScope scope([&] { return ++asked > last; });
  EXPECT_THROW(PixelsOf(context, call, *model->image(), images), Cancelled);
  EXPECT_EQ(asked, 3);
  last = 1'000'000;
  EXPECT_EQ(PixelsOf(context, call, *model->image(), images).size(), 5u);
}

TEST(WriteTask, IsShortByItsCost) {
  const ModelEntry entry{.id = "t5", .path = GoldenFolder("tasks/t5").string()};
  const auto model = std::make_shared<const LoadedModel>(entry, app::Note());
  const auto is_short = [&](int64_t tokens, int64_t beams) {
    app::WritingOptions options;
    options.together = 1;
    options.settings.max_tokens = tokens;
    options.settings.beams = beams;
    const auto texts = model->language()->ReadSources({{"The house is green."}}, "");
    const TaskClass as_stream = WritingClass(*model, options.settings);
    EXPECT_EQ(WriteTask(model, texts, options).task_class(), as_stream);
    return as_stream == TaskClass::kShort;
  };
  EXPECT_TRUE(is_short(50, 4));
  // No more than the decoder's 8,192 positions.
  EXPECT_TRUE(is_short(1'000'000, 1));
  EXPECT_FALSE(is_short(1'000'000, 64));
}

class Writing : public testing::Test {
 protected:
  static app::WritingOptions Options(int64_t tokens, int64_t beams) {
    app::WritingOptions options;
    options.settings.max_tokens = options.settings.min_tokens = tokens;
    options.settings.beams = beams;
    options.settings.ends = {1};
    return options;
  }
  WriteTask Task(const app::WritingOptions& options) {
    const std::vector<std::string> texts = {"The house is green.", "Yes."};
    return WriteTask(model_, model_->language()->ReadSources(texts, ""), options, [this] { ++gave_way_; });
  }

  const std::shared_ptr<const LoadedModel> model_ = std::make_shared<const LoadedModel>(
      ModelEntry{.id = "t5", .path = GoldenFolder("tasks/t5").string()}, app::Note());
  int gave_way_ = 0;
};

TEST_F(Writing, EndsWhenNobodyWaits) {
  for (const int64_t beams : {1, 64}) {
    WriteTask task = Task(Options(1'000'000, beams));
    qkv::server::Task* const batch[] = {&task};
    gave_way_ = 0;
    const CancelScope scope([&] { return gave_way_ > 5; });
    EXPECT_THROW(task.Run(batch), Cancelled);
    EXPECT_EQ(gave_way_, 6) << "once for each step";
  }
}

TEST_F(Writing, CostsByItsTokensBeamsAndTexts) {
  const double one = Task(Options(10, 1)).operations();
  EXPECT_DOUBLE_EQ(one, 2 * 10 * static_cast<double>(model_->bytes())) << "two texts";
  EXPECT_DOUBLE_EQ(Task(Options(110, 8)).operations(), 88 * one);
}

TEST_F(Writing, JoinsOnlyThoseOfEqualSettings) {
  const app::WritingOptions usual = Options(20, 2);
  const WriteTask first = Task(usual), same = Task(usual);
  EXPECT_EQ(first.Key(), same.Key());
  EXPECT_EQ(first.rows(), 4);
  EXPECT_TRUE(first.Joins(same));
  using Change = void (*)(model::GenerationSettings&);
  for (const Change change : std::initializer_list<Change>{
           [](auto& s) { ++s.min_tokens; }, [](auto& s) { s.suppressed = {7}; }, [](auto& s) { s.forced_first = 3; },
           [](auto& s) { s.forced_last = 3; }, [](auto& s) { s.renormalise = true; },
           [](auto& s) { s.length_penalty = 2; }, [](auto& s) { s.cross.bandwidth = 2; },
           [](auto& s) {
             s.cross.heads = {{0, 0}};
           },
           [](auto& s) { s.repetition_penalty = 1.0000001; }}) {
    app::WritingOptions other = usual;
    change(other.settings);
    EXPECT_FALSE(first.Joins(Task(other)));
  }
  // Seeds of texts that are not drawn.
  app::WritingOptions seeded = usual;
  seeded.settings.sampling.seed = 5;
  EXPECT_TRUE(first.Joins(Task(seeded)));
}

TEST(ServerTasks, ScratchIsKeptWithinABound) {
  const auto model = std::make_shared<const LoadedModel>(app::ModelEntry{.id = "digits"});
  const auto pass = [&] {
    std::vector<Tensor<float>> pixels;
    for (int i = 0; i < 3; ++i) pixels.emplace_back(Shape{1, 1, 28, 28});
    PassTask task(model, app::Wanted::kLogits, std::move(pixels));
    Task* const batch[] = {&task};
    task.Run(batch);
    return task.TakeResults();
  };
  const auto first = pass();
  const int64_t bytes = ScratchBytes();
  EXPECT_GT(bytes, 0);
  EXPECT_LT(bytes, int64_t{256} << 20);
  TrimScratch(bytes);
  EXPECT_EQ(ScratchBytes(), bytes);
  TrimScratch(bytes - 1);
  EXPECT_EQ(ScratchBytes(), 0);
  const auto second = pass();
  for (size_t i = 0; i < first.size(); ++i) {
    for (int64_t c = 0; c < first[i].size(); ++c) EXPECT_EQ(first[i][c], second[i][c]);
  }
}

}  // namespace
}  // namespace qkv::server
