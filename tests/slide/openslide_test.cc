// OpenSlide itself, where it is found (QKV_OPENSLIDE, or as qkv finds it): pixels equal those that its functions give
// in this process, and those of openslide-python (golden/generate_openslide.py).
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "qkv/core/rng.h"
#include "qkv/slide/read/openslide_search.h"
#include "qkv/slide/read/readers.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"

namespace qkv::slide {
namespace {

namespace fs = std::filesystem;

class RealOpenSlide : public testing::Test {
 protected:
  void SetUp() override {
    if (DataFolder().empty()) GTEST_SKIP() << "QKV_DATA is not set";
    if (const char* const library = std::getenv("QKV_OPENSLIDE")) options_.openslide = library;
    for (const std::string& name : openslide::FindLibraries(options_.openslide)) {
      library_ = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (library_ != nullptr) return;
    }
    GTEST_SKIP() << "no OpenSlide";
  }

  template <typename R, typename... Args>
  R Call(const char* name, Args... args) const {
    const auto function = reinterpret_cast<R (*)(Args...)>(::dlsym(library_, name));
    return function(args...);
  }

  std::unique_ptr<Slide> Open(const std::string& name, std::string& why) const {
    return OpenByOpenSlide(DataFolder() / "medical" / name, options_, why);
  }

  SlideOptions options_;
  void* library_ = nullptr;
};

constexpr const char* kFiles[] = {"slides/cmu_small_region.svs",   "dicom-wsi/small.svs",
                                  "dicom-wsi/boxes.tiff",          "dicom-wsi/boxes_0.dcm",
                                  "dicom-wsi/boxes_1.dcm",         "dicom-wsi/sm_image.dcm",
                                  "dicom-wsi/sm_image_dots.dcm",   "dicom-wsi/sm_image_control.dcm",
                                  "dicom-wsi/sm_image_numbers.dcm"};

TEST_F(RealOpenSlide, PixelsAreThoseOfThisProcess) {
  const bool old = std::string(Call<const char*>("openslide_get_version"))[0] == '3';
  int opened = 0;
  for (const char* const name : kFiles) {
    SCOPED_TRACE(name);
    std::string why;
    const auto slide = Open(name, why);
    void* const own = Call<void*>("openslide_open", (DataFolder() / "medical" / name).c_str());
    ASSERT_EQ(slide == nullptr, own == nullptr || Call<const char*>("openslide_get_error", own) != nullptr) << why;
    if (slide == nullptr) continue;
    ++opened;
    const SlideFacts& facts = slide->facts();
    ASSERT_EQ(static_cast<int>(facts.levels.size()), Call<int>("openslide_get_level_count", own));
    for (int l = 0; l < static_cast<int>(facts.levels.size()); ++l) {
      const Level& level = facts.levels[l];
      // Debian's 3.4.1 gives uninitialised memory for levels smaller than a tile (MALLOC_PERTURB_ shows it).
      if (old && level.width < 100) continue;
      const int64_t side = 256;
      for (int64_t y = 0; y < level.height; y += 3 * side / 2) {
        for (int64_t x = 0; x < level.width; x += side) {
          image::Image pixels;
          slide->Read(l, {x, y, side, side}, pixels);
          std::vector<uint32_t> argb(side * side);
          Call<void>("openslide_read_region", own, argb.data(),
                     static_cast<int64_t>(std::llround(x * level.downsample)),
                     static_cast<int64_t>(std::llround(y * level.downsample)), l, side, side);
          int64_t different = 0;
          for (int64_t i = 0; i < side * side; ++i) {
            const uint32_t alpha = argb[i] >> 24;
            if (alpha != 0 && alpha != 255) continue;
            const uint32_t expected = alpha == 0 ? 0xffffff : argb[i] & 0xffffff;
            const uint8_t* const rgb = pixels.pixels.data() + 3 * i;
            different += expected != static_cast<uint32_t>(rgb[0] << 16 | rgb[1] << 8 | rgb[2]);
          }
          ASSERT_EQ(different, 0) << "level " << l << " at " << x << " " << y;
        }
      }
    }
    Call<void>("openslide_close", own);
  }
  EXPECT_GE(opened, 3);
}

// Lines of the golden: file level x y width height checksum, of tiles that lie within the level.
TEST_F(RealOpenSlide, PixelsAreThoseOfPython) {
  std::ifstream golden(SourceFolder() / "tests/slide/golden/openslide.txt");
  std::string line, version, name, why;
  std::getline(golden, version);
  if (Call<const char*>("openslide_get_version") != version) GTEST_SKIP() << "the golden is of OpenSlide " << version;
  int tiles = 0;
  std::unique_ptr<Slide> slide;
  for (std::string before; std::getline(golden, line); ++tiles, before = name) {
    int level = 0;
    Region region;
    uLong checksum = 0;
    std::istringstream(line) >> name >> level >> region.x >> region.y >> region.width >> region.height >> checksum;
    if (name != before) slide = Open(name, why);
    ASSERT_NE(slide, nullptr) << name << why;
    image::Image pixels;
    slide->Read(level, region, pixels);
    EXPECT_EQ(::crc32(0, pixels.pixels.data(), static_cast<uInt>(pixels.pixels.size())), checksum) << line;
  }
  EXPECT_GT(tiles, 50);
}

TEST_F(RealOpenSlide, HasFacts) {
  std::string why;
  const auto slide = Open("slides/cmu_small_region.svs", why);
  ASSERT_NE(slide, nullptr) << why;
  const SlideFacts& facts = slide->facts();
  EXPECT_EQ(facts.format, "Aperio");
  EXPECT_EQ(facts.reader.find("OpenSlide "), 0u);
  EXPECT_EQ(facts.levels[0].width, 2220);
  EXPECT_EQ(facts.levels[0].height, 2967);
  EXPECT_EQ(facts.mpp_x, 0.499);
  EXPECT_EQ(facts.magnification, 20);
  EXPECT_EQ(facts.associated, (std::vector<std::string>{"label", "macro", "thumbnail"}));
  for (const std::string& name : facts.associated) EXPECT_GT(slide->ReadAssociated(name).width(), 100);
}

TEST_F(RealOpenSlide, SaysWhatItDoesNotRead) {
  std::string why;
  EXPECT_EQ(Open("dicom-wsi/sm_image_jpegls.dcm", why), nullptr);
  EXPECT_EQ(why.find("OpenSlide "), 0u) << why;
  EXPECT_EQ(Open("dicom/CT_small.dcm", why), nullptr);
  EXPECT_EQ(why.find("OpenSlide "), 0u) << why;
}

// Files cut anywhere: an Error, a slide with damaged regions, or none.
TEST_F(RealOpenSlide, SurvivesFilesThatAreCut) {
  const TemporaryFolder folder;
  for (const char* const name : {"dicom-wsi/small.svs", "dicom-wsi/sm_image.dcm"}) {
    const fs::path whole = DataFolder() / "medical" / name, cut = folder / ("cut" + whole.extension().string());
    const auto bytes = static_cast<int64_t>(fs::file_size(whole));
    for (int part = 0; part < 12; ++part) {
      fs::copy_file(whole, cut, fs::copy_options::overwrite_existing);
      fs::resize_file(cut, static_cast<uintmax_t>(bytes * part / 12));
      std::string why;
      ErrorMessage([&] {
        const auto slide = OpenByOpenSlide(cut, options_, why);
        image::Image pixels;
        if (slide != nullptr) slide->Read(0, {0, 0, 256, 256}, pixels);
      });
    }
  }
}

// Bytes changed anywhere: likewise, and the same process reads the whole slide afterwards.
TEST_F(RealOpenSlide, SurvivesBytesThatAreChanged) {
  const TemporaryFolder folder;
  Rng rng(47);
  for (const char* const name : {"dicom-wsi/small.svs", "dicom-wsi/boxes.tiff", "dicom-wsi/sm_image.dcm"}) {
    const fs::path whole = DataFolder() / "medical" / name, changed = folder / ("changed" + whole.extension().string());
    for (int round = 0; round < 30; ++round) {
      fs::copy_file(whole, changed, fs::copy_options::overwrite_existing);
      std::fstream file(changed, std::ios::in | std::ios::out | std::ios::binary);
      const uint64_t bytes = fs::file_size(whole);
      for (int i = 0; i < 8; ++i) {
        // Half of them near the ends, where headers are.
        const uint64_t place = i % 2 == 0   ? rng.Next() % bytes
                               : i % 4 == 1 ? rng.Next() % 400
                                            : bytes - 1 - rng.Next() % 400;
        file.seekp(static_cast<std::streamoff>(place));
        file.put(static_cast<char>(rng.Next()));
      }
      file.close();
      std::string why;
      ErrorMessage([&] {
        const auto slide = OpenByOpenSlide(changed, options_, why);
        image::Image pixels;
        if (slide != nullptr) slide->Read(0, {0, 0, 256, 256}, pixels);
      });
    }
  }
}

}  // namespace
}  // namespace qkv::slide
