// Work on the images and texts of requests: when it is cancelled, when it is short, and its scratch memory.
#include "qkv/server/tasks.h"

#include <gtest/gtest.h>

#include "qkv/core/file.h"
#include "qkv/server/images.h"
#include "tests/support/files.h"

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
  Call call{.cancelled = [&] { return ++asked > last; }};
  call.memory = std::make_shared<ImageMemory>(context.image_bytes, int64_t{1} << 30);
  EXPECT_THROW(PixelsOf(context, call, *model->image(), images), Cancelled);
  EXPECT_EQ(asked, 3);
  last = 100;
  EXPECT_EQ(PixelsOf(context, call, *model->image(), images).size(), 5u);
}

TEST(WriteTask, IsShortByItsCost) {
  const ModelEntry entry{.id = "t5", .path = (SourceFolder() / "tests/golden/tasks/t5").string()};
  const auto model = std::make_shared<const LoadedModel>(entry, app::Note());
  const auto is_short = [&](int64_t tokens, int64_t beams) {
    app::WritingOptions options;
    options.settings.max_tokens = tokens;
    options.settings.beams = beams;
    return WriteTask(model, {"The house is green."}, options).is_short();
  };
  EXPECT_TRUE(is_short(50, 4));
  // No more than the decoder's 8,192 positions.
  EXPECT_TRUE(is_short(1'000'000, 1));
  EXPECT_FALSE(is_short(1'000'000, 64));
}

class Writing : public testing::Test {
 protected:
  using Asked = std::function<bool()>;

  static app::WritingOptions Options(int64_t tokens, int64_t beams) {
    app::WritingOptions options;
    options.settings.max_tokens = options.settings.min_tokens = tokens;
    options.settings.beams = beams;
    options.settings.ends = {1};
    return options;
  }
  WriteTask Task(const app::WritingOptions& options, Asked cancelled) {
    return WriteTask(model_, {"The house is green.", "Yes."}, options, std::move(cancelled), [this] { ++gave_way_; });
  }

  const std::shared_ptr<const LoadedModel> model_ = std::make_shared<const LoadedModel>(
      ModelEntry{.id = "t5", .path = (SourceFolder() / "tests/golden/tasks/t5").string()}, app::Note());
  int gave_way_ = 0;
};

TEST_F(Writing, EndsWhenNobodyWaits) {
  for (const int64_t beams : {1, 64}) {
    int asked = 0;
    WriteTask task = Task(Options(1'000'000, beams), [&] { return ++asked > 5; });
    qkv::server::Task* const batch[] = {&task};
    gave_way_ = 0;
    EXPECT_THROW(task.Run(batch), Cancelled);
    EXPECT_LE(asked, 8);
    EXPECT_EQ(gave_way_, beams > 1 ? asked : 0) << "only a long one gives way";
  }
}

TEST_F(Writing, GoesOnForOneWhoWaits) {
  WriteTask gone = Task(Options(20, 2), [] { return true; }), waits = Task(Options(20, 2), [] { return false; }),
            alone = Task(Options(20, 2), {});
  EXPECT_EQ(gone.Key(), waits.Key());
  EXPECT_EQ(gone.rows(), 4);
  qkv::server::Task* const batch[] = {&gone, &waits};
  gone.Run(batch);
  qkv::server::Task* const one[] = {&alone};
  alone.Run(one);
  ASSERT_EQ(waits.written().size(), 2u);
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(waits.written()[i].text, alone.written()[i].text);
  qkv::server::Task* const cancelled[] = {&gone};
  EXPECT_THROW(gone.Run(cancelled), Cancelled);
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
