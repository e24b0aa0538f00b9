// Models in the hub's cache, as huggingface_hub lays it out.
#include "qkv/app/open/hub.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "qkv/app/open/open.h"
#include "qkv/core/file.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/goldens.h"

namespace qkv::app {
namespace {

namespace fs = std::filesystem;

constexpr const char* kVariables[] = {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME", "HOME"};

class Hub : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : kVariables) {
      const char* value = std::getenv(name);
      saved_.emplace_back(value ? std::optional<std::string>(value) : std::nullopt);
      unsetenv(name);
    }
    setenv("HF_HOME", folder_.path().c_str(), 1);
  }
  void TearDown() override {
    for (size_t i = 0; i < saved_.size(); ++i) {
      if (saved_[i]) {
        setenv(kVariables[i], saved_[i]->c_str(), 1);
      } else {
        unsetenv(kVariables[i]);
      }
    }
  }
  // A snapshot whose files are links to blobs. golden: the files, or empty.
  fs::path AddSnapshot(const std::string& repository, const std::string& commit, const fs::path& golden = {}) const {
    const fs::path root = folder_ / "hub" / repository, snapshot = root / "snapshots" / commit;
    fs::create_directories(snapshot);
    fs::create_directories(root / "blobs");
    if (golden.empty()) return snapshot;
    for (const char* name : {"config.json", "model.safetensors", "pytorch_model.bin"}) {
      if (!fs::exists(golden / name)) continue;
      fs::copy(golden / name, root / "blobs" / (commit + name));
      fs::create_symlink(fs::path("../../blobs") / (commit + name), snapshot / name);
    }
    return snapshot;
  }
  void PointMain(const std::string& repository, const std::string& commit) const {
    WriteFile(folder_ / "hub" / repository / "refs/main", commit + "\n");
  }

  const TemporaryFolder folder_;
  std::vector<std::optional<std::string>> saved_;
};

TEST_F(Hub, FindsTheSnapshotOfARevision) {
  const fs::path one = AddSnapshot("models--google--vit", "aaaa"), two = AddSnapshot("models--google--vit", "bbbb");
  fs::create_directories(folder_ / "hub/models--google--vit/refs");
  PointMain("models--google--vit", "bbbb");
  EXPECT_EQ(FindModel("google/vit"), two);
  EXPECT_EQ(FindModel("google/vit@main"), two);
  EXPECT_EQ(FindModel("google/vit@aaaa"), one);
  EXPECT_EQ(HubIdOf(two), "google/vit");
  EXPECT_EQ(HubIdOf("/models/vit"), "");
  const std::string error = ErrorMessage([] { FindModel("google/vit@cccc"); });
  EXPECT_NE(error.find("google/vit@aaaa"), std::string::npos) << error;
}

TEST_F(Hub, SaysHowToFetchWhatIsNotThere) {
  const std::string error = ErrorMessage([] { FindModel("google/vit"); });
  EXPECT_NE(error.find("hf download google/vit"), std::string::npos) << error;
  EXPECT_NE(error.find((folder_ / "hub").string()), std::string::npos) << error;
}

TEST_F(Hub, LeavesOtherNamesAlone) {
  for (const char* name : {"vit", "/a/b", "a/b/c", "../x", "./x", "a//b", "", "models/.."}) {
    EXPECT_EQ(FindModel(name), fs::path(name)) << name;
  }
}

TEST_F(Hub, TheBuiltInModelHasAnEmptyPath) {
  EXPECT_EQ(FindModel("digits"), "");
  EXPECT_EQ(FindModel("models/digits"), "models/digits");
}

TEST_F(Hub, SearchesTheCacheThatTheEnvironmentNames) {
  EXPECT_EQ(HubCache(), folder_ / "hub");
  unsetenv("HF_HOME");
  setenv("HOME", "/home/x", 1);
  EXPECT_EQ(HubCache(), "/home/x/.cache/huggingface/hub");
  setenv("XDG_CACHE_HOME", "/cache", 1);
  EXPECT_EQ(HubCache(), "/cache/huggingface/hub");
  setenv("HF_HUB_CACHE", "/hub", 1);
  EXPECT_EQ(HubCache(), "/hub");
}

TEST_F(Hub, OpensAModelThroughTheLinksOfItsSnapshot) {
  AddSnapshot("models--someone--tiny", "cccc", GoldenFolder("timm_vit"));
  const model::Checkpoint checkpoint = OpenCheckpoint({.path = "someone/tiny@cccc"});
  EXPECT_EQ(checkpoint.description.config.architecture,
            model::Checkpoint::Open(GoldenFolder("timm_vit")).description.config.architecture);
}

TEST_F(Hub, DescendsFromTheFolderOfAModel) {
  const fs::path one = AddSnapshot("models--google--vit", "aaaa"), root = folder_ / "hub/models--google--vit";
  EXPECT_EQ(FindModel(root.string()), one);
  const fs::path two = AddSnapshot("models--google--vit", "bbbb");
  const std::string error = ErrorMessage([&] { FindModel(root.string()); });
  EXPECT_NE(error.find("google/vit@bbbb"), std::string::npos) << error;
  fs::create_directories(root / "refs");
  PointMain("models--google--vit", "bbbb");
  EXPECT_EQ(FindModel(root.string()), two);
  EXPECT_EQ(FindModel(root.string() + "/"), two);
}

// As sentence-transformers/clip-ViT-B-32 lies in the hub.
TEST_F(Hub, DescendsToTheOnlyModuleOfSentenceTransformers) {
  const fs::path snapshot = AddSnapshot("models--someone--clip", "aaaa"), module = snapshot / "0_CLIPModel";
  fs::copy(GoldenFolder("hf_clip"), module);
  const auto list = [&](const std::string& modules) { WriteFile(snapshot / "modules.json", modules); };
  const std::string clip = R"({"idx": 0, "path": "0_CLIPModel", "type": "sentence_transformers.models.CLIPModel"})";
  list("[" + clip + "]");
  EXPECT_EQ(FindModel("someone/clip@aaaa"), module);
  EXPECT_EQ(FindModel(snapshot.string()), module);
  EXPECT_NO_THROW(OpenCheckpoint({.path = "someone/clip@aaaa"}));
  for (const std::string& other :
       {"[" + clip + ", " + clip + "]", std::string(R"([{"path": "../x"}])"), std::string("{}"),
        std::string(R"([{"path": "none"}])"), std::string(R"([{"path": ""}])")}) {
    list(other);
    EXPECT_EQ(FindModel(snapshot.string()), snapshot) << other;
  }
}

TEST_F(Hub, SaysHowToFetchAFileThatWasRemoved) {
  const fs::path snapshot = AddSnapshot("models--google--vit", "aaaa", GoldenFolder("timm_vit"));
  fs::remove_all(folder_ / "hub/models--google--vit/blobs");
  for (const fs::path& path : {snapshot, snapshot / "model.safetensors"}) {
    const std::string error = ErrorMessage([&] { FindModel(path.string()); });
    EXPECT_NE(error.find("hf download google/vit"), std::string::npos) << error;
  }
  EXPECT_NE(ErrorMessage([] { FindModel("google/vit@aaaa"); }).find("hf download"), std::string::npos);
}

// The hub's folder has only weights here: the model's name tells the rest.
TEST_F(Hub, KnowsAPublishedModelByItsId) {
  const fs::path golden = GoldenFolder("known/virchow2");
  AddSnapshot("models--paige-ai--Virchow2", "dddd", golden);
  const model::ModelHints given = {.settings = io::ReadJson(golden / "settings.json")};
  const model::Checkpoint checkpoint = OpenCheckpoint({.path = "paige-ai/Virchow2@dddd", .given = given});
  EXPECT_EQ(checkpoint.description.config.registers, 4);
  EXPECT_EQ(checkpoint.description.config.block.mlp.gate, simd::Gate::kFirst);
  EXPECT_EQ(AuthorsPool({.path = "paige-ai/Virchow2@dddd"}), "cls+mean");
  EXPECT_EQ(AuthorsPool({.path = golden.string(), .given = {.architecture = "virchow"}}), "cls+mean");
  EXPECT_EQ(AuthorsPool({.path = golden.string(), .given = {.architecture = "uni"}}), "cls");
  EXPECT_EQ(AuthorsPool({.path = golden.string()}), "");
  EXPECT_NE(checkpoint.description.assumptions.back().find("cls+mean"), std::string::npos);
}

}  // namespace
}  // namespace qkv::app
