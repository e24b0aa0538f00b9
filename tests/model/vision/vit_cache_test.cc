// The cache gives the model that was built, to the bit, or none at all.
#include "qkv/model/vision/vit_cache.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>

#include "qkv/model/model.h"
#include "tests/support/files.h"
#include "tests/support/goldens.h"
#include "tests/support/isas.h"
#include "tests/support/sampler.h"

namespace qkv::model {
namespace {

namespace fs = std::filesystem;

// A folder for the cache, and what it says.
struct TestCache {
  TemporaryFolder folder;
  std::string notes;
  std::chrono::nanoseconds rest{0};  // so that a test need not wait
  bool verify = false;

  Cache cache() {
    return {folder / "made/when/needed", [this](const std::string& text) { notes += text + "\n"; }, rest, verify};
  }
  Tensor<float> Logits(const fs::path& model, const BuildOptions& options = {}) {
    notes.clear();
    return ComputeLogits(Model::Load(model, options, cache()));
  }
  fs::path StoredLayersFile(const fs::path& model, const BuildOptions& options = {}) {
    return CacheFile(Checkpoint::Open(model), options, cache().folder);
  }
  static Tensor<float> ComputeLogits(const Model& model) {
    const VitConfig& c = model.config();
    return model.Logits(Sampler(7).Normal<float>({2, c.channels, c.image_height, c.image_width}));
  }
};

bool SameBits(const Tensor<float>& a, const Tensor<float>& b) {
  return a.shape() == b.shape() && std::memcmp(a.data(), b.data(), static_cast<size_t>(a.size()) * sizeof(float)) == 0;
}

// A model of the test's own, to be changed.
void CopyModel(const std::string& golden, const fs::path& to) {
  for (const char* name : {"config.json", "model.safetensors"}) {
    fs::copy_file(GoldenFolder(golden) / name, to / name, fs::copy_options::overwrite_existing);
  }
}

// Overwrites bytes in place.
void Overwrite(const fs::path& path, int64_t at, const std::string& bytes) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_EQ(::pwrite(fd, bytes.data(), bytes.size(), at), static_cast<ssize_t>(bytes.size()));
  ::close(fd);
}

class CacheOfModels : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(
    Models, CacheOfModels,
    testing::Values("timm_vit", "timm_layerscale", "timm_scale_norms", "timm_qk_norm", "timm_swiglu", "timm_geglu",
                    "timm_qkv_bias_off", "timm_proj_bias_off", "timm_distilled", "timm_map", "timm_map_cls",
                    "timm_pre_norm", "timm_avg_fcnorm", "timm_cls_avg", "timm_reg4_cls", "timm_no_pos_embed",
                    "timm_no_final_norm", "timm_odd_width", "timm_features", "timm_f16", "hf_dinov2_swiglu",
                    "hf_dinov2_registers", "hf_vit_model_pooler", "hf_vit_sharded", "hf_vit_resized", "vit_pytorch_vit",
                    "vit_pytorch_old", "vit_pytorch_simple", "vit_pytorch_one_head", "timm_one_head_wide",
                    "timm_kind_shared", "timm_kind_unified", "timm_kind_shared_kv", "timm_kind_merged",
                    "timm_kind_low_rank", "timm_kind_symmetric", "timm_kind_gaussian", "timm_kind_positional",
                    "timm_differential", "hf_dinov3", "hf_dinov3_7b", "timm_eva", "timm_eva02_norms", "timm_rope_axial",
                    "timm_rope_mixed", "timm_pe_core", "hf_ijepa", "hf_beit_both", "timm_beit_shared"));

TEST_P(CacheOfModels, AnswersWithTheSameBits) {
  std::vector<BuildOptions> variants{
      {}, {.precision = simd::Precision::kBfloat16}, {.precision = simd::Precision::kInt8}};
  variants.push_back({.fold_norms = false,
                      .fold_scales = false,
                      .fold_key_value_bias = false,
                      .read_rows = false,
                      .merge = false,
                      .absorb = false});
  const fs::path model = GoldenFolder(GetParam());
  TestCache test;
  for (const BuildOptions& options : variants) {
    const Tensor<float> built = TestCache::ComputeLogits(Model::Load(model, options));
    const fs::path file = test.StoredLayersFile(model, options);
    EXPECT_FALSE(fs::exists(file));
    EXPECT_TRUE(SameBits(test.Logits(model, options), built)) << "while it is kept";
    EXPECT_TRUE(fs::exists(file)) << test.notes;
    const FileStamp kept = ReadFileStamp(file);
    EXPECT_TRUE(SameBits(test.Logits(model, options), built)) << "from the cache";
    EXPECT_EQ(test.notes, "");
    EXPECT_EQ(ReadFileStamp(file), kept) << "it was written again";
  }
}

class CacheIsas : public IsaTest {};
QKV_FOR_ALL_ISAS(CacheIsas);

TEST_P(CacheIsas, EachRestoresItsOwnPanels) {
  for (const auto precision : {simd::Precision::kFloat32, simd::Precision::kBfloat16, simd::Precision::kInt8}) {
    TestCache test;
    const BuildOptions options{.precision = precision};
    const Tensor<float> first = test.Logits(GoldenFolder("timm_vit"), options);
    EXPECT_TRUE(SameBits(test.Logits(GoldenFolder("timm_vit"), options), first));
    EXPECT_EQ(test.notes, "");
  }
}

TEST(CacheFile, IsAnotherForOtherChoices) {
  const Checkpoint checkpoint = Checkpoint::Open(GoldenFolder("timm_vit"));
  std::vector<BuildOptions> variants(9);
  variants[1].precision = simd::Precision::kBfloat16;
  variants[2].precision = simd::Precision::kInt8;
  variants[3].fold_norms = false;
  variants[4].fold_scales = false;
  variants[5].fold_key_value_bias = false;
  variants[6].read_rows = false;
  variants[7].absorb = false;
  variants[8].merge = false;
  std::vector<fs::path> files{CacheFile(Checkpoint::Open(GoldenFolder("hf_vit")), {}, "/x")};
  for (const BuildOptions& options : variants) files.push_back(CacheFile(checkpoint, options, "/x"));
  const simd::Isa before = simd::ActiveIsa();
  for (const simd::Isa isa : simd::AvailableIsas()) {
    if (isa == before) continue;
    simd::SetIsa(isa);
    files.push_back(CacheFile(checkpoint, {}, "/x"));
  }
  simd::SetIsa(before);
  std::sort(files.begin(), files.end());
  EXPECT_EQ(std::adjacent_find(files.begin(), files.end()), files.end());
}

// The weights change in the middle of a tensor, the file's size and its time of modification do not.
TEST(CacheOfAChangedModel, IsMadeAnew) {
  const TemporaryFolder model;
  CopyModel("timm_vit", model.path());
  TestCache test;
  const Tensor<float> before = test.Logits(model.path());
  const fs::path weights = model / "model.safetensors", file = test.StoredLayersFile(model.path());
  const auto modified = fs::last_write_time(weights);
  // The last tensor's last bytes: 1.5f.
  Overwrite(weights, static_cast<int64_t>(fs::file_size(weights)) - 4, std::string("\x00\x00\xC0\x3F", 4));
  fs::last_write_time(weights, modified);
  const Tensor<float> after = test.Logits(model.path());
  EXPECT_NE(test.notes.find("other files"), std::string::npos) << test.notes;
  EXPECT_FALSE(SameBits(after, before));
  EXPECT_TRUE(SameBits(after, TestCache::ComputeLogits(Model::Load(model.path()))));
  EXPECT_TRUE(SameBits(test.Logits(model.path()), after));
  EXPECT_EQ(test.notes, "");
  // One file, which took the old one's place.
  EXPECT_EQ(std::distance(fs::directory_iterator(file.parent_path()), {}), 1);
}

TEST(CacheOfAChangedModel, ConfigurationCounts) {
  const TemporaryFolder model;
  CopyModel("timm_vit", model.path());
  TestCache test;
  test.Logits(model.path());
  std::string config = ReadFile(model / "config.json");
  config.replace(config.find("\"crop_pct\": 0.9"), 15, "\"crop_pct\": 0.8");
  WriteFile(model / "config.json", config);
  test.Logits(model.path());
  EXPECT_NE(test.notes.find("other files"), std::string::npos) << test.notes;
}

TEST(CacheOfAChangedModel, WaitsUntilTheFileHasRested) {
  const TemporaryFolder model;
  CopyModel("timm_vit", model.path());
  fs::permissions(model / "model.safetensors", fs::perms::owner_read | fs::perms::owner_write);  // changes it now
  TestCache test;
  test.rest = std::chrono::hours(1);
  test.Logits(model.path());
  EXPECT_NE(test.notes.find("just now"), std::string::npos) << test.notes;
  EXPECT_FALSE(fs::exists(test.StoredLayersFile(model.path())));
}

// Whatever happened to the file: the answer is right, the reason is noted, and the next start finds a good one.
TEST(BrokenCache, IsRefusedAndMadeAnew) {
  const fs::path model = GoldenFolder("timm_vit");
  TestCache test;
  const Tensor<float> built = test.Logits(model);
  const fs::path file = test.StoredLayersFile(model);
  const std::string good = ReadFile(file);
  std::vector<std::string> broken{
      "", "foreign", good.substr(0, 7), good.substr(0, 100), good.substr(0, good.size() - 1), good + "x"};
  const size_t header = static_cast<unsigned char>(good[0]) + 256 * static_cast<unsigned char>(good[1]) + 8;
  // Every bit of the header matters but those of a blank; one bit in each of many bytes is tried.
  // And but those of the checksums, which are asked for by --cache=verify alone.
  const size_t sums = good.find("qkv.checksum"), identity = good.find("qkv.identity");
  for (size_t i = 0; i < header; i += 31) {
    if (good[i] == ' ' || (i > sums && i < identity)) continue;
    broken.push_back(good);
    broken.back()[i] ^= 1 << (i % 7);
  }
  ReadFile(GoldenFolder("hf_vit") / "model.safetensors").swap(broken.emplace_back());
  for (const std::string& bytes : broken) {
    WriteFile(file, bytes);
    EXPECT_TRUE(SameBits(test.Logits(model), built));
    EXPECT_NE(test.notes.find("not used"), std::string::npos) << test.notes;
    EXPECT_EQ(ReadFile(file), good);
  }
}

TEST(BrokenCache, UnwritableFolderIsNotedOnly) {
  const fs::path model = GoldenFolder("timm_vit");
  const TemporaryFolder folder;
  WriteFile(folder / "file", "");  // no folder can be made below it, not even by root
  std::string notes;
  const Cache cache{folder / "file", [&](const std::string& text) { notes += text; }};
  EXPECT_TRUE(
      SameBits(TestCache::ComputeLogits(Model::Load(model, {}, cache)), TestCache::ComputeLogits(Model::Load(model))));
  EXPECT_NE(notes.find("not kept"), std::string::npos) << notes;
}

// A pipe with no other end would be waited for for ever, to be read and to be written.
TEST(BrokenCache, APipeInItsPlaceIsNotWaitedFor) {
  const fs::path model = GoldenFolder("timm_vit");
  TestCache test;
  const Tensor<float> built = test.Logits(model);
  const fs::path file = test.StoredLayersFile(model);
  fs::remove(file);
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  EXPECT_TRUE(SameBits(test.Logits(model), built));
  EXPECT_NE(test.notes.find("not used"), std::string::npos) << test.notes;
  EXPECT_NE(test.notes.find("no regular file"), std::string::npos) << test.notes;
}

// What --cache=verify is for: the answer without it is not right.
TEST(VerifiedCache, FindsABitThatFlipped) {
  const fs::path model = GoldenFolder("timm_vit");
  TestCache test;
  const Tensor<float> built = test.Logits(model);
  const fs::path file = test.StoredLayersFile(model);
  const std::string good = ReadFile(file);
  std::string broken = good;
  broken[broken.size() - 2] ^= 0x20;
  WriteFile(file, broken);
  EXPECT_FALSE(SameBits(test.Logits(model), built));
  test.verify = true;
  EXPECT_TRUE(SameBits(test.Logits(model), built));
  EXPECT_NE(test.notes.find("not those that were kept"), std::string::npos) << test.notes;
  EXPECT_EQ(ReadFile(file), good);
  EXPECT_TRUE(SameBits(test.Logits(model), built));
  EXPECT_EQ(test.notes, "");
}

// A write through a mapping moves no time before the page is written back.
TEST(VerifiedCache, FindsWeightsThatWereChangedThroughAMapping) {
  const TemporaryFolder model;
  CopyModel("timm_vit", model.path());
  TestCache test;
  const Tensor<float> before = test.Logits(model.path());
  const fs::path weights = model / "model.safetensors";
  const FileStamp stamp = ReadFileStamp(weights);
  const int fd = ::open(weights.c_str(), O_RDWR | O_CLOEXEC);
  void* const mapped = ::mmap(nullptr, stamp.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  const float weight = 1.5f;
  // The first write to a page moves the times, those that follow do not.
  char* const last = static_cast<char*>(mapped) + stamp.size - sizeof(weight);
  *const_cast<volatile char*>(last) = *last;
  test.Logits(model.path());
  const FileStamp touched = ReadFileStamp(weights);
  std::memcpy(last, &weight, sizeof(weight));
  ASSERT_EQ(ReadFileStamp(weights), touched);
  test.verify = true;
  const Tensor<float> after = test.Logits(model.path());
  EXPECT_NE(test.notes.find("not those that it was made of"), std::string::npos) << test.notes;
  EXPECT_FALSE(SameBits(after, before));
  EXPECT_TRUE(SameBits(after, TestCache::ComputeLogits(Model::Load(model.path()))));
  ::munmap(mapped, stamp.size);
  ::close(fd);
}

// Each sees a whole file or none.
TEST(CacheTogether, ConcurrentStartsAnswerAlike) {
  const fs::path model = GoldenFolder("timm_map");
  const Tensor<float> built = TestCache::ComputeLogits(Model::Load(model));
  TestCache test;
  const Cache quiet{test.cache().folder, {}};
  std::vector<int> same(8);
  std::vector<std::thread> threads;
  for (int& ok : same) {
    threads.emplace_back([&] { ok = SameBits(TestCache::ComputeLogits(Model::Load(model, {}, quiet)), built); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::count(same.begin(), same.end(), 1), 8);
  EXPECT_EQ(std::distance(fs::directory_iterator(quiet.folder), {}), 1);
}

}  // namespace
}  // namespace qkv::model
