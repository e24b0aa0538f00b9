// Kept images are the decoded ones, and a cache never answers for other files.
#include "qkv/train/data/image_store.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>

#include "qkv/train/stopped.h"
#include "tests/support/errors.h"
#include "tests/train/data.h"

namespace qkv::train {
namespace {

namespace fs = std::filesystem;

// Three classes of images of several sizes; one of them cannot be read.
struct Files {
  TemporaryFolder folder;
  Dataset dataset;

  Files() {
    WriteImages(folder / "data/a", 20, 0, 12, 16);
    WriteImages(folder / "data/b", 20, 100, 20, 9);
    WriteImages(folder / "data/c", 3, 200, 40, 40);
    WriteFile(folder / "data/b/007.png", ReadFile(folder / "data/b/007.png").substr(0, 60));
    dataset = OpenDataset(folder / "data");
  }
  const Split& split() const { return dataset.splits[0]; }
};

image::Preprocess Crop(int64_t side) {
  return {.resize = image::Preprocess::Resize::kShortestEdge,
          .resize_height = side + 2,
          .crop = image::Preprocess::Crop::kTorchvision,
          .crop_height = side,
          .crop_width = side,
          .mean = {0.5f, 0.4f, 0.3f},
          .std = {0.2f, 0.3f, 0.4f}};
}

image::Image Get(const ImageStore& store, int64_t i) {
  image::Workspace workspace;
  image::Image image;
  store.Get(i, workspace, image);
  EXPECT_EQ(image.height(), store.height(i));
  EXPECT_EQ(image.width(), store.width(i));
  return image;
}

bool Same(const image::Image& a, const image::Image& b) {
  return a.pixels.shape() == b.pixels.shape() && std::ranges::equal(a.pixels.span(), b.pixels.span());
}

// What is kept, image by image.
void ExpectSame(const ImageStore& a, const ImageStore& b) {
  ASSERT_EQ(a.size(), b.size());
  for (int64_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a.label(i), b.label(i));
    EXPECT_TRUE(Same(Get(a, i), Get(b, i))) << i;
  }
  EXPECT_TRUE(std::ranges::equal(a.unreadable(), b.unreadable()));
}

TEST(ImageStore, KeepsImagesAsTheyAre) {
  const Files files;
  std::vector<int64_t> progress;
  const ImageStore store(files.split(), {.progress = [&](int64_t done, int64_t total) {
                           EXPECT_EQ(total, 43);
                           progress.push_back(done);
                         }});
  EXPECT_EQ(progress.back(), 43);
  ASSERT_EQ(store.size(), 42);
  ASSERT_EQ(store.unreadable().size(), 1u);
  EXPECT_NE(store.unreadable()[0].find("b/007.png"), std::string::npos) << store.unreadable()[0];
  int64_t i = 0;
  for (int64_t file = 0; file < files.split().size(); ++file) {
    if (files.split().SampleName(file).ends_with("b/007.png")) continue;
    EXPECT_TRUE(Same(Get(store, i), image::DecodeFile(files.split().files[static_cast<size_t>(file)]))) << i;
    EXPECT_EQ(store.label(i), files.split().labels[static_cast<size_t>(file)]);
    ++i;
  }
}

// Preparing and normalising in two steps gives the same floats as the model's own preprocessing in one.
TEST(ImageStore, PreparedImagesAreWhatTheModelWouldSee) {
  const Files files;
  image::Preprocess preprocess = Crop(11), rest = preprocess;
  rest.resize = image::Preprocess::Resize::kNone;
  rest.crop = image::Preprocess::Crop::kNone;
  const ImageStore whole(files.split(), {}), store(files.split(), {.prepare = preprocess});
  Tensor<float> once({3, 11, 11}), twice({3, 11, 11});
  for (int64_t i = 0; i < store.size(); ++i) {
    image::Apply(preprocess, Get(whole, i), once);
    image::Apply(rest, Get(store, i), twice);
    EXPECT_TRUE(std::ranges::equal(once.span(), twice.span())) << i;
  }
}

TEST(ImageStore, LargeImagesAreMadeSmaller) {
  const Files files;
  const ImageStore store(files.split(), {.channels = 1, .shorter_side = 10});
  EXPECT_EQ(Get(store, 0).pixels.shape(), (Shape{10, 13, 1}));   // 12 x 16
  EXPECT_EQ(Get(store, 20).pixels.shape(), (Shape{20, 9, 1}));   // small already
  EXPECT_EQ(Get(store, 41).pixels.shape(), (Shape{10, 10, 1}));  // 40 x 40
}

TEST(ImageStore, CacheOnDiskIsUsedAgain) {
  const Files files;
  for (const StoreOptions& options :
       {StoreOptions{}, StoreOptions{.prepare = Crop(8)}, StoreOptions{.shorter_side = 7}}) {
    StoreOptions cached = options;
    cached.cache = files.folder / "cache";
    const ImageStore memory(files.split(), options), made(files.split(), cached), again(files.split(), cached);
    EXPECT_FALSE(made.from_cache());
    EXPECT_TRUE(again.from_cache());
    ExpectSame(memory, made);
    ExpectSame(memory, again);
    StoreOptions unkept = options;
    unkept.keep = false;
    ExpectSame(memory, ImageStore(files.split(), unkept));
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(files.folder / "cache"), {}), 3);  // one for each choice
}

TEST(ImageStore, StaleAndDamagedCachesAreMadeAnew) {
  const Files files;
  const StoreOptions cached{.cache = files.folder / "cache"};
  const auto from_cache = [&] {
    const ImageStore store(files.split(), cached);
    ExpectSame(store, ImageStore(files.split(), {}));
    return store.from_cache();
  };
  EXPECT_FALSE(from_cache());
  EXPECT_TRUE(from_cache());
  // Another picture of the same size in bytes or not: its times have moved.
  image::WritePng(files.folder / "data/a/003.png", NoiseImage(12, 16, 3, 999));
  EXPECT_FALSE(from_cache());
  EXPECT_TRUE(from_cache());
  fs::remove(files.folder / "data/a/004.png");  // unreadable now
  EXPECT_FALSE(from_cache());
  EXPECT_TRUE(from_cache());
  const fs::path file = fs::directory_iterator(files.folder / "cache")->path();
  const std::string whole = ReadFile(file);
  std::string turned = whole;
  turned[turned.size() - 20] ^= 0x40;
  for (const std::string& damaged : {std::string(), whole.substr(0, whole.size() - 1), whole.substr(0, 100), turned,
                                     "x" + whole.substr(1), whole + "x"}) {
    WriteFile(file, damaged);
    EXPECT_FALSE(from_cache());
  }
  EXPECT_EQ(ReadFile(file), whole);
  EXPECT_EQ(std::distance(fs::directory_iterator(files.folder / "cache"), {}), 1);
}

TEST(ImageStore, PixelsInMemoryAreUsedWhereTheyLie) {
  const Split split = NoiseSplit(30, 3, 9, 7);
  image::Preprocess same{.resize = image::Preprocess::Resize::kExact,
                         .resize_height = 9,
                         .resize_width = 7,
                         .crop = image::Preprocess::Crop::kTorchvision,
                         .crop_height = 9,
                         .crop_width = 7};
  for (const StoreOptions& options : {StoreOptions{}, StoreOptions{.prepare = same}}) {
    const ImageStore store(split, options);
    ASSERT_EQ(store.size(), 30);
    const View<const uint8_t> third = split.pixels.view()[3];
    EXPECT_TRUE(std::ranges::equal(Get(store, 3).pixels.span(), std::span(third.data(), 9 * 7 * 3)));
    EXPECT_EQ(store.label(4), 1);
  }
  EXPECT_EQ(Get(ImageStore(split, {.channels = 1}), 3).channels(), 1);
  EXPECT_EQ(Get(ImageStore(split, {.prepare = Crop(8)}), 3).pixels.shape(), (Shape{8, 8, 3}));
  EXPECT_EQ(Get(ImageStore(split, {.shorter_side = 5}), 3).pixels.shape(), (Shape{6, 5, 3}));
}

// As a model that expects a dark background does it itself when it is asked.
TEST(ImageStore, BrightBordersAreInvertedOnRequest) {
  Split split = NoiseSplit(2, 2, 6, 6, 1);
  for (int64_t i = 0; i < split.pixels.size(); ++i) split.pixels[i] = static_cast<uint8_t>(i < 36 ? 250 - i : i - 36);
  const TemporaryFolder folder;
  for (const auto& [name, image] : {std::pair("a", 0), {"b", 1}}) {
    fs::create_directories(folder / "data" / name);
    image::Image file{Tensor<uint8_t>({6, 6, 1})};
    std::copy_n(split.pixels.view().at(image), 36, file.pixels.data());
    image::WritePng(folder / "data" / name / "0.png", file);
  }
  const Dataset files = OpenDataset(folder / "data");
  for (const Split* from : std::initializer_list<const Split*>{&split, &files.splits[0]}) {
    const ImageStore store(*from, {.channels = 1, .dark_background = true});
    EXPECT_EQ(Get(store, 0).pixels[7], 255 - (250 - 7));
    EXPECT_EQ(Get(store, 1).pixels[7], 7);
  }
  const fs::path cache = folder / "cache";
  const ImageStore as_they_are(files.splits[0], {.channels = 1, .cache = cache});
  const ImageStore dark(files.splits[0], {.channels = 1, .dark_background = true, .cache = cache});
  EXPECT_FALSE(dark.from_cache());
}

TEST(ImageStore, SaysWhenNothingCanBeRead) {
  const TemporaryFolder folder;
  for (const char* name : {"a/1.png", "b/1.png"}) {
    fs::create_directories((folder / name).parent_path());
    WriteFile(folder / name, "no image at all");
  }
  const Dataset dataset = OpenDataset(folder.path());
  const std::string said = ErrorMessage([&] { ImageStore(dataset.splits[0], {}); });
  EXPECT_NE(said.find("none of the 2 images"), std::string::npos) << said;
  EXPECT_NE(said.find("a/1.png"), std::string::npos) << said;
  EXPECT_THROW(ImageStore(dataset.splits[0], {.cache = folder / "cache"}), Error);
  EXPECT_THROW(ImageStore(Split{.name = "train"}, {}), Error);
}

// What it said, and that images are the same whatever became of the cache.
struct Made {
  std::vector<std::string> notes;
  bool from_cache = false;
};
Made Make(const Split& split, StoreOptions options) {
  Made made;
  options.note = [&](const std::string& note) { made.notes.push_back(note); };
  const ImageStore store(split, options);
  ExpectSame(store, ImageStore(split, {}));
  made.from_cache = store.from_cache();
  return made;
}

TEST(ImageStore, ACacheThatCannotBeWrittenIsANote) {
  const Files files;
  WriteFile(files.folder / "file", "");
  const Made made = Make(files.split(), {.cache = files.folder / "file/cache"});
  ASSERT_EQ(made.notes.size(), 1u);
  EXPECT_NE(made.notes[0].find("are not kept in"), std::string::npos) << made.notes[0];
  // The folder cannot be listed, so no space can be found in it: the same.
  fs::create_directories(files.folder / "taken");
  EXPECT_EQ(Make(files.split(), {.cache = files.folder / "taken"}).notes.size(), 1u);
  for (const auto& entry : fs::directory_iterator(files.folder / "taken")) {
    const fs::path file = entry.path();
    fs::remove(file);
    fs::create_directories(file / "x");  // where the file would be
  }
  EXPECT_GE(Make(files.split(), {.cache = files.folder / "taken"}).notes.size(), 2u);
}

TEST(ImageStore, SaysWhereItKeepsImagesAndNoMoreThanItMay) {
  const Files files;
  const fs::path cache = files.folder / "cache";
  EXPECT_NE(Make(files.split(), {.cache = cache, .cache_bytes = 1e6, .expected_bytes = 2e4})
                .notes.at(0)
                .find("are kept in " + cache.string() + ", about 20 kB"),
            std::string::npos);
  EXPECT_TRUE(Make(files.split(), {.cache = cache, .cache_bytes = 1e6}).from_cache);
  fs::remove_all(cache);
  // By the estimate, before anything is read; or when it is too much, which leaves nothing behind.
  for (const double expected : {2e6, 0.0}) {
    const Made made =
        Make(files.split(), {.cache = cache, .cache_bytes = expected > 0 ? 1e6 : 5e3, .expected_bytes = expected});
    EXPECT_FALSE(made.from_cache);
    EXPECT_NE(made.notes.back().find("are not kept in"), std::string::npos) << made.notes.back();
    EXPECT_TRUE(fs::is_empty(cache));
  }
  for (const double expected : {2e6, 0.0}) {
    const Made made = Make(files.split(), {.memory_bytes = expected > 0 ? 1e6 : 5e3, .expected_bytes = expected});
    EXPECT_NE(made.notes.at(0).find("each is decoded"), std::string::npos) << made.notes[0];
  }
}

TEST(ImageStore, ACacheIsCleanedOfItsOwnLeftovers) {
  const Files files;
  const fs::path cache = files.folder / "cache";
  fs::create_directories(cache);
  const std::string old = "train-0123456789abcdef.images", older = "val-0123456789abcdef.images";
  const std::vector<std::string> others = {"notes.tmp", "train-0123456789abcdef.images.tmp", "photos-1.images",
                                           "x-0123456789abcdef.images", "train-0123456789abcdef.images.qkv-a-1.tmp"};
  for (const std::string& name : others) WriteFile(cache / name, name);
  for (const std::string& name : {old, older}) WriteFile(cache / name, std::string(10'000, 'x'));
  fs::last_write_time(cache / older, fs::file_time_type::clock::now() - std::chrono::hours(1));
  WriteFile(cache / (old + ".qkv-1-2.tmp"), "left");
  {
    // Another process is writing: what is unfinished may be its.
    const ImageCacheFolder writing(cache, 0, 0);
    WriteFile(cache / (old + ".qkv-1-3.tmp"), "being written");
    const ImageCacheFolder also(cache, 0, 0);
    EXPECT_FALSE(fs::exists(cache / (old + ".qkv-1-2.tmp")));
    EXPECT_TRUE(fs::exists(cache / (old + ".qkv-1-3.tmp")));
  }
  // The oldest make room.
  const ImageCacheFolder folder(cache, 25'000, 12'000);
  EXPECT_FALSE(fs::exists(cache / (old + ".qkv-1-3.tmp")));
  EXPECT_TRUE(fs::exists(cache / old));
  EXPECT_FALSE(fs::exists(cache / older));
  EXPECT_EQ(folder.room(), 15'000);
  for (const std::string& name : others) EXPECT_EQ(ReadFile(cache / name), name);
}

TEST(ImageStore, ACacheThatChangesWhileItIsReadIsAnError) {
  const Files files;
  const StoreOptions cached{.cache = files.folder / "cache"};
  const ImageStore made(files.split(), cached), store(files.split(), cached);
  ASSERT_TRUE(store.from_cache());
  const fs::path file = fs::directory_iterator(files.folder / "cache")->path();
  fs::resize_file(file, 100);
  const std::string said = ErrorMessage([&] { Get(store, store.size() - 1); });
  EXPECT_NE(said.find(file.string()), std::string::npos) << said;
  EXPECT_NE(said.find("changed"), std::string::npos) << said;
}

TEST(ImageStore, StopsWhileItReads) {
  const Files files;
  EXPECT_THROW(ImageStore(files.split(), {.stop = [] { return true; }}), Stopped);
  std::atomic<int> asked{0};
  EXPECT_THROW(ImageStore(files.split(), {.cache = files.folder / "cache", .stop = [&] { return ++asked > 10; }}),
               Stopped);
  EXPECT_TRUE(fs::is_empty(files.folder / "cache"));
}

// A header without an end, records that lie elsewhere.
TEST(ImageIndex, IsHeldToTheBytesThatThereAre) {
  struct Memory : FileSink {
    using FileSink::Write;
    void Write(std::span<const std::byte> more) override { bytes.insert(bytes.end(), more.begin(), more.end()); }
    std::vector<std::byte> bytes;
  };
  const auto parse = [](const ImageRecord& record, const std::function<void(std::vector<std::byte>&)>& change = {}) {
    Memory memory;
    BeginImages(memory, 7);
    memory.Write(std::string(12, 'x'));
    FinishImages(memory, 7, {.records = {record, {}}, .reasons = {"b: not an image"}}, FirstPixel() + 12);
    if (change) change(memory.bytes);
    return ParseImages(memory.bytes, {.key = 7, .files = 2, .channels = 3});
  };
  const ImageRecord good = {FirstPixel(), 2, 2};
  const std::optional<ImageIndex> index = parse(good);
  ASSERT_TRUE(index.has_value());
  EXPECT_EQ(index->reasons, (std::vector<std::string>{"b: not an image"}));
  for (const ImageRecord& bad :
       std::initializer_list<ImageRecord>{{FirstPixel() + 1, 2, 2},
                                          {FirstPixel() - 1, 2, 2},
                                          {~uint64_t{0}, 2, 2},
                                          {FirstPixel(), -1, 2},
                                          {FirstPixel(), 2, 0},
                                          {FirstPixel(), int64_t{1} << 40, 1},
                                          {FirstPixel(), int64_t{1} << 24, int64_t{1} << 24}}) {
    EXPECT_FALSE(parse(bad).has_value()) << bad.offset << " " << bad.height << " " << bad.width;
  }
  // No zero ends the name of the format.
  EXPECT_FALSE(parse(good, [](auto& bytes) { std::fill_n(bytes.begin(), 16, std::byte{'q'}); }).has_value());
  EXPECT_FALSE(parse(good, [](auto& bytes) { bytes.resize(bytes.size() - 1); }).has_value());
  Memory memory;
  BeginImages(memory, 7);
  memory.Write(std::string(12, 'x'));
  FinishImages(memory, 7, {.records = {good}, .reasons = {}}, FirstPixel() + 12);
  EXPECT_TRUE(ParseImages(memory.bytes, {.key = 7, .files = 1, .height = 2, .width = 2}).has_value());
  EXPECT_FALSE(ParseImages(memory.bytes, {.key = 7, .files = 1, .height = 2, .width = 3}).has_value());
}

}  // namespace
}  // namespace qkv::train
