// Loading within a budget, eviction, reloading, and what the explorer shares.
#include "qkv/server/models.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <thread>

#include "qkv/core/file.h"
#include "qkv/explore/explorer.h"
#include "qkv/server/engine.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/goldens.h"

namespace qkv::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Until it holds, or for ten seconds.
template <typename Condition>
bool Await(Condition condition) {
  for (int i = 0; i < 1000 && !condition(); ++i) std::this_thread::sleep_for(milliseconds(10));
  return condition();
}

class ServerModels : public testing::Test {
 protected:
  ServerModels() : bytes_(LoadedModel({.id = "x", .path = GoldenFolder("hf_vit_labels").string()}).bytes()) {}

  // A copy of one small model, so that all have the same size.
  ModelEntry Copy(const std::string& id, bool at_start = false) const {
    const std::filesystem::path folder = folder_ / id;
    std::filesystem::create_directories(folder);
    for (const char* name : {"config.json", "preprocessor_config.json", "model.safetensors"}) {
      const std::filesystem::path from = GoldenFolder("hf_vit_labels") / name;
      if (std::filesystem::exists(from)) WriteFile(folder / name, ReadFile(from));
    }
    ModelEntry entry{.id = id, .path = folder.string()};
    entry.at_start = at_start;
    return entry;
  }
  Models Make(std::vector<ModelEntry> entries, double models_that_fit, int64_t max_waiting = 64) {
    return {std::move(entries), {}, Options(models_that_fit, max_waiting), Recorder()};
  }
  ModelsOptions Options(double models_that_fit, int64_t max_waiting = 64) const {
    return {.memory = static_cast<int64_t>(models_that_fit * static_cast<double>(bytes_)), .max_waiting = max_waiting};
  }
  ModelEvent Recorder() {
    return [this](const std::string& id, std::string_view event, const std::string&) {
      const std::lock_guard lock(mutex_);
      events_.push_back(id + " " + std::string(event));
    };
  }
  int64_t Events(const std::string& event) const {
    const std::lock_guard lock(mutex_);
    return std::count(events_.begin(), events_.end(), event);
  }
  static int StatusOf(const std::function<void()>& call) {
    try {
      call();
    } catch (const HttpError& error) {
      return error.status();
    } catch (const Cancelled&) {
      return 0;
    }
    return 200;
  }

  const TemporaryFolder folder_;
  const int64_t bytes_;
  mutable std::mutex mutex_;
  std::vector<std::string> events_;
};

TEST_F(ServerModels, LoadOnceForAllWhoAsk) {
  Models models = Make({Copy("a"), Copy("b")}, 4);
  EXPECT_FALSE(models.Status("a").loaded);
  std::vector<std::future<std::shared_ptr<const LoadedModel>>> found;
  for (int i = 0; i < 8; ++i) found.push_back(std::async(std::launch::async, [&] { return models.Get("a"); }));
  const auto first = found[0].get();
  for (size_t i = 1; i < found.size(); ++i) EXPECT_EQ(found[i].get(), first);
  EXPECT_EQ(models.Get(""), first) << "the first is the default";
  EXPECT_EQ(Events("a loaded"), 1);
  EXPECT_EQ(models.Status("a").bytes, bytes_);
  EXPECT_EQ(StatusOf([&] { models.Get("c"); }), 404);
}

TEST_F(ServerModels, DropsTheLeastRecentlyUsed) {
  Models models = Make({Copy("a"), Copy("b"), Copy("c", /*at_start=*/true)}, 2.5);
  models.LoadAtStart();
  models.Get("a");
  models.Get("b");
  EXPECT_FALSE(models.Status("a").loaded);
  EXPECT_TRUE(models.Status("b").loaded);
  EXPECT_TRUE(models.Status("c").loaded) << "kept";
  models.Get("a");
  EXPECT_FALSE(models.Status("b").loaded);
  EXPECT_EQ(Events("a loaded"), 2);
  EXPECT_EQ(Events("b unloaded"), 1);
}

TEST_F(ServerModels, SaysWhatDoesNotFit) {
  Models small = Make({Copy("a")}, 0.5);
  EXPECT_EQ(StatusOf([&] { small.Get("a"); }), 503);
  EXPECT_NE(ErrorMessage([&] { small.Get("a"); }).find("the models' memory is"), std::string::npos);
  Models kept = Make({Copy("a", /*at_start=*/true), Copy("b")}, 1.5);
  kept.LoadAtStart();
  EXPECT_NE(ErrorMessage([&] { kept.Get("b"); }).find("beside the models that stay loaded"), std::string::npos);
  EXPECT_TRUE(kept.Status("a").loaded);
}

// Four models at a time in room for one: each waits until the others are out of use.
TEST_F(ServerModels, LoadsOfSeveralAtATimeStayWithinTheBudget) {
  Models models = Make({Copy("a"), Copy("b"), Copy("c"), Copy("d")}, 1.5);
  std::atomic<int> in_memory{0}, most{0};
  std::vector<std::future<void>> requests;
  for (const char* id : {"a", "b", "c", "d"}) {
    requests.push_back(std::async(std::launch::async, [&, id] {
      auto model = models.Get(id);
      most = std::max(most.load(), ++in_memory);
      std::this_thread::sleep_for(milliseconds(100));
      --in_memory;
      model.reset();
    }));
  }
  for (std::future<void>& request : requests) request.get();
  EXPECT_EQ(most, 1);
}

TEST_F(ServerModels, WaitingEndsWithTheRequestAndIsBounded) {
  Models models = Make({Copy("a"), Copy("b")}, 1.5, /*max_waiting=*/1);
  auto in_use = models.Get("a");  // so b waits for room
  std::atomic<bool> left{false};
  auto waiting = std::async(std::launch::async, [&] {
    while (StatusOf([&] { models.Get("b", [&] { return left.load(); }); }) == 429) {
    }
  });
  ASSERT_TRUE(Await([&] { return StatusOf([&] { models.Get("b", [] { return true; }); }) == 429; }));
  left = true;
  EXPECT_EQ(waiting.wait_for(seconds(2)), std::future_status::ready);
  in_use.reset();  // the load goes on without it
  EXPECT_TRUE(Await([&] { return models.Status("b").loaded; }));
}

TEST_F(ServerModels, FailuresAreToldToAllAndTriedAgainLater) {
  const ModelEntry broken = Copy("a");
  WriteFile(folder_ / "a/model.safetensors", "nothing of this kind");
  Models models = Make({broken, Copy("b")}, 4);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(StatusOf([&] { models.Get("a"); }), 503);
  EXPECT_EQ(Events("a failed"), 1) << "not for every request";
  EXPECT_NE(models.Status("a").error, "");
  EXPECT_EQ(StatusOf([&] { models.Get("b"); }), 200);
}

TEST_F(ServerModels, ChangedFilesAreLoadedBesideTheOldOnes) {
  Models models = Make({Copy("a")}, 2.5);
  const auto old = models.Get("a");
  std::this_thread::sleep_for(milliseconds(2100));
  EXPECT_EQ(models.Get("a"), old);
  Copy("a");
  std::this_thread::sleep_for(milliseconds(2100));
  EXPECT_TRUE(Await([&] { return models.Get("a") != old; }));
  EXPECT_EQ(Events("a reloaded"), 1);
  // The old one serves if the new one is broken, and this is no error of the model.
  const auto good = models.Get("a");
  WriteFile(folder_ / "a/model.safetensors", "nothing of this kind");
  std::this_thread::sleep_for(milliseconds(2100));
  EXPECT_TRUE(Await([&] {
    EXPECT_EQ(models.Get("a"), good);
    return !models.Status("a").reload_error.empty();
  }));
  EXPECT_EQ(models.Status("a").error, "");
  for (int i = 0; i < 30; ++i) {
    EXPECT_EQ(models.Get("a"), good);
    std::this_thread::sleep_for(milliseconds(100));
  }
  EXPECT_EQ(Events("a failed"), 1) << "within five seconds";
}

// Without room for both, the old one goes first.
TEST_F(ServerModels, ReloadsWithinTheBudget) {
  Models models = Make({Copy("a", /*at_start=*/true)}, 1.5);
  models.LoadAtStart();
  Copy("a");
  std::this_thread::sleep_for(milliseconds(2100));
  models.Get("a");
  EXPECT_TRUE(Await([&] { return Events("a loaded") == 2; }));
  EXPECT_EQ(Events("a unloaded"), 1);
  EXPECT_TRUE(models.IsReady());
}

TEST_F(ServerModels, UnloadsOnRequestWhatMayGo) {
  Models models = Make({Copy("a", /*at_start=*/true), Copy("b")}, 4);
  EXPECT_FALSE(models.IsReady());
  models.LoadAtStart();
  EXPECT_TRUE(models.IsReady());
  models.Get("b");
  models.Unload("b");
  EXPECT_FALSE(models.Status("b").loaded);
  EXPECT_EQ(StatusOf([&] { models.Unload("a"); }), 400);
  EXPECT_TRUE(models.IsReady());
  EXPECT_EQ(StatusOf([&] { models.Get("b"); }), 200);
}

TEST_F(ServerModels, TakesOverAnotherList) {
  Models models = Make({Copy("a"), Copy("b")}, 4);
  const auto a = models.Get("a");
  models.Get("b");
  models.Replace({Copy("c", /*at_start=*/true), {.id = "a", .path = (folder_ / "a").string()}});
  EXPECT_FALSE(models.IsReady());
  EXPECT_TRUE(Await([&] { return models.IsReady(); })) << "loaded by itself";
  EXPECT_TRUE(models.Status("c").loaded);
  EXPECT_EQ(models.Get("a"), a) << "unchanged, so it stays";
  EXPECT_EQ(StatusOf([&] { models.Get("b"); }), 404);
  EXPECT_EQ(models.List().size(), 2u);
  EXPECT_NE(ErrorMessage([&] { models.Replace({Copy("d"), Copy("d")}); }), "");
  EXPECT_EQ(models.List().size(), 2u);
}

TEST_F(ServerModels, DescribesWithoutLoading) {
  Models models = Make({Copy("a")}, 4);
  const auto facts = models.Describe("a");
  EXPECT_TRUE(facts->has_classifier());
  EXPECT_EQ(models.Describe("a"), facts) << "read once";
  EXPECT_FALSE(models.Status("a").loaded);
  EXPECT_EQ(models.Get("a")->facts().config.classes, facts->config.classes);
  WriteFile(folder_ / "a/config.json", "{}");
  models.Unload("a");
  EXPECT_EQ(StatusOf([&] { models.Describe("a"); }), 503);
}

TEST_F(ServerModels, CountWhatIsDerivedOfThem) {
  Models models = Make({Copy("a"), Copy("b")}, 2.5);
  const auto a = models.Get("a");
  auto derived = std::make_shared<int>(7);
  const std::weak_ptr<int> kept = derived;
  EXPECT_EQ(StatusOf([&] { models.Keep(*a, derived, 2 * bytes_); }), 503);
  models.Keep(*a, derived, bytes_);
  derived.reset();
  EXPECT_EQ(models.Status("a").bytes, 2 * bytes_);
  EXPECT_FALSE(kept.expired());
  models.Get("b");  // takes its room, and leaves the model
  EXPECT_TRUE(kept.expired());
  EXPECT_TRUE(models.Status("a").loaded);
  derived = std::make_shared<int>(8);
  models.Keep(*a, derived, 10);
  const std::weak_ptr<int> second = derived;
  derived.reset();
  models.Unload("a");
  EXPECT_TRUE(second.expired()) << "goes with the model";
}

TEST_F(ServerModels, UnlistedOnesAreForTheExplorer) {
  Models models({Copy("a")}, {{.id = "a"}, {.id = "digits"}}, Options(1000), Recorder());
  EXPECT_EQ(models.List().size(), 1u);
  EXPECT_EQ(StatusOf([&] { models.Get("digits"); }), 404);
  ASSERT_EQ(models.Entries().size(), 2u);
  EXPECT_NE(models.Entries()[0].path, "");
  EXPECT_EQ(models.Load("digits", {})->id(), "digits");
}

TEST_F(ServerModels, WhatComesWithQkvIsOfferedOnceUnderTheOwnersName) {
  const std::vector<ModelEntry> shipped = {{.id = "digits"}, {.id = "english-italian", .path = "english-italian"}};
  const auto ids = [](const Models& models) {
    std::vector<std::string> ids;
    for (const ModelEntry& entry : models.Entries()) ids.push_back(entry.id);
    return ids;
  };
  EXPECT_EQ(ids(Models({{.id = "en-it", .path = "english-italian"}}, shipped, Options(1000), Recorder())),
            (std::vector<std::string>{"en-it", "digits"}));
  // In another precision it is another model.
  EXPECT_EQ(ids(Models({{.id = "d8", .path = "", .build = {.precision = simd::Precision::kInt8}}}, shipped,
                       Options(1000), Recorder()))
                .size(),
            3u);
}

TEST_F(ServerModels, OneCopyServesTheExplorerToo) {
  ModelEntry vit = Copy("vit"), sized = Copy("sized");
  std::string names;
  for (int64_t i = 0; i < app::DescribeModel(vit).config.classes; ++i) names += fmt::format("class {}\n", i);
  WriteFile(folder_ / "names.txt", names);
  vit.build.precision = simd::Precision::kInt8, vit.labels = (folder_ / "names.txt").string(), vit.title = "A model";
  sized.size = app::InputSize{48, 48};
  Models models({vit, sized}, {}, {.memory = int64_t{1} << 30, .max_waiting = 8}, Recorder());
  explore::Explorer explorer(models, {});
  const io::Json list = explorer.Models().json["models"];
  EXPECT_EQ(list[0]["labels"][1], "class 1");
  EXPECT_EQ(list[0]["dtype"], "int8");
  EXPECT_EQ(list[0]["title"], "A model");
  EXPECT_EQ(list[1]["input"], io::Json({3, 48, 48})) << list[1];
  EXPECT_EQ(Events("vit loaded"), 0) << "described from its files";
  explore::Packet request;
  request.json = {{"model", "vit"}, {"sample", "digit-3"}};
  const explore::Packet pass = explorer.Call("pass", request);
  EXPECT_TRUE(pass.json["top"][0]["label"].get<std::string>().starts_with("class ")) << pass.json["top"];
  const auto model = models.Get("vit");
  EXPECT_EQ(Events("vit loaded"), 1);
  const auto logits = pass.Find("logits")->As<float>();
  const auto photo = image::Decode(std::as_bytes(std::span(explore::Samples()[3].file)), {}, "test");
  const Tensor<float> expected = model->image()->Logits(model->image()->Pixels(photo));
  for (size_t i = 0; i < logits.size(); ++i) EXPECT_NEAR(logits[i], expected[static_cast<int64_t>(i)], 0.05) << "int8";
  // What edits need is counted with the model, and goes with it.
  request.json["edits"] = io::Json::array({{{"kind", "head"}, {"block", 0}, {"head", 1}}});
  explorer.Call("pass", request);
  EXPECT_GE(models.Status("vit").bytes, model->bytes() + 4 * model->facts().parameters);
  models.Replace({sized});
  EXPECT_EQ(explorer.Models().json["models"].size(), 1u) << "the page's list follows the server's";
  EXPECT_NE(ErrorMessage([&] { explorer.Call("pass", request); }).find("there is no model vit"), std::string::npos);
}

}  // namespace
}  // namespace qkv::server
