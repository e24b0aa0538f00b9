// DICOM slides by DCMTK: levels, places and pixels, of small slides made by tests/image/generate_dicom.py, and of those
// that OpenSlide refuses.
#include <gtest/gtest.h>

#include "qkv/core/file.h"
#include "qkv/io/safetensors.h"
#include "qkv/slide/read/readers.h"
#include "tests/support/files.h"

// DCMTK keeps its list of codecs until the process ends.
extern "C" const char* __lsan_default_suppressions() { return "leak:DcmCodecList"; }  // NOLINT: LeakSanitizer's name

namespace qkv::slide {
namespace {

class DicomSlides : public testing::Test {
 protected:
  DicomSlides() : golden_(io::SafeTensors::Open(SourceFolder() / "tests/image/golden/dicom_slides.safetensors")) {
    for (const io::StoredTensor& tensor : golden_.tensors()) {
      if (!tensor.name.starts_with("slide/") && !tensor.name.starts_with("sparse/")) continue;
      std::filesystem::create_directories((folder_ / tensor.name).parent_path());
      WriteFile(folder_ / (tensor.name + ".dcm"), [&](FileSink& sink) { sink.Write(tensor.bytes); });
    }
  }
  std::unique_ptr<Slide> Open(const std::filesystem::path& path) const {
    std::string why;
    std::unique_ptr<Slide> slide = OpenDicom(path, {}, why);
    EXPECT_NE(slide, nullptr) << why;
    return slide;
  }
  // Reads regions that begin and end anywhere, also outside; what is outside is white.
  void ExpectPixels(const Slide& slide, int level, const std::string& name) const {
    const io::StoredTensor& matrix = *golden_.Find("matrix/" + name);
    const int64_t height = matrix.shape[0], width = matrix.shape[1];
    image::Image got;
    for (const Region& r : {Region{0, 0, width, height}, Region{-3, -2, width + 9, height + 7}, Region{13, 7, 5, 3},
                            Region{width - 2, height - 3, 4, 4}, Region{width, 0, 4, 4}}) {
      slide.Read(level, r, got);
      for (int64_t y = 0; y < r.height; ++y) {
        for (int64_t x = 0; x < r.width; ++x) {
          const int64_t row = r.y + y, column = r.x + x;
          const bool inside = row >= 0 && column >= 0 && row < height && column < width;
          for (int64_t c = 0; c < 3; ++c) {
            const int expected =
                inside ? static_cast<int>(matrix.bytes[static_cast<size_t>((row * width + column) * 3 + c)]) : 255;
            ASSERT_EQ(got.pixels.view().at(y, x)[c], expected) << name << " at " << column << ", " << row;
          }
        }
      }
    }
  }

  io::SafeTensors golden_;
  TemporaryFolder folder_;
};

TEST_F(DicomSlides, FilesOfAFolderAreLevelsAndPictures) {
  for (const char* file : {"slide/a.dcm", "slide/c.dcm", "slide/d.dcm"}) {
    const std::unique_ptr<Slide> slide = Open(folder_ / file);
    const SlideFacts& facts = slide->facts();
    ASSERT_EQ(facts.levels.size(), 2u);
    EXPECT_EQ(facts.levels[0].width, 50);
    EXPECT_EQ(facts.levels[1].height, 15);
    EXPECT_EQ(facts.levels[1].downsample, 2);
    EXPECT_NEAR(*facts.mpp_x, 0.25, 1e-12);
    EXPECT_NEAR(*facts.mpp_y, 0.5, 1e-12);
    EXPECT_EQ(facts.magnification, 20);
    EXPECT_EQ(facts.associated, std::vector<std::string>{"label"});
    ExpectPixels(*slide, 0, "0");
    ExpectPixels(*slide, 1, "1");
    const image::Image label = slide->ReadAssociated("label");
    const io::StoredTensor& expected = *golden_.Find("matrix/label");
    EXPECT_TRUE(std::ranges::equal(std::as_bytes(label.pixels.span()), expected.bytes));
  }
}

TEST_F(DicomSlides, MissingTilesAreWhite) { ExpectPixels(*Open(folder_ / "sparse/a.dcm"), 0, "sparse"); }

TEST_F(DicomSlides, ALabelAloneIsNoSlide) {
  std::filesystem::create_directory(folder_ / "alone");
  std::filesystem::copy(folder_ / "slide/d.dcm", folder_ / "alone/d.dcm");
  std::string why;
  EXPECT_THROW(OpenDicom(folder_ / "alone/d.dcm", {}, why), Error);
}

TEST_F(DicomSlides, OtherFilesAreLeftToOthers) {
  WriteFile(folder_ / "text.dcm", "no slide");
  std::string why;
  EXPECT_EQ(OpenDicom(folder_ / "text.dcm", {}, why), nullptr);
  EXPECT_EQ(why, "no DICOM");
  if (DataFolder().empty()) GTEST_SKIP() << "QKV_DATA is not set";
  EXPECT_EQ(OpenDicom(DataFolder() / "medical/dicom/CT_small.dcm", {}, why), nullptr);
  EXPECT_EQ(why, "DICOM, but no whole-slide image");
}

// A frame of the file by image::Decode, which tests/image compares with pydicom.
TEST_F(DicomSlides, PixelsOfRealFilesAreThoseOfTheirFrames) {
  if (DataFolder().empty()) GTEST_SKIP() << "QKV_DATA is not set";
  for (const char* name :
       {"sm_image.dcm", "sm_image_jpegls.dcm", "sm_image_jpegls_nobot.dcm", "sm_image_numbers.dcm"}) {
    TemporaryFolder alone;
    std::filesystem::copy(DataFolder() / "medical/dicom-wsi" / name, alone / name);
    const std::unique_ptr<Slide> slide = Open(alone / name);
    ASSERT_EQ(slide->facts().levels[0].width, 50) << name;
    image::Image got;
    for (int frame = 0; frame < 25; ++frame) {
      const image::Image expected = image::DecodeFile(alone / name, {.frame = frame});
      slide->Read(0, {frame % 5 * 10, frame / 5 * 10, 10, 10}, got);
      EXPECT_TRUE(std::ranges::equal(got.pixels.span(), expected.pixels.span())) << name << " frame " << frame;
    }
  }
}

TEST_F(DicomSlides, SixteenBitsKeepTheirHighByte) {
  if (DataFolder().empty()) GTEST_SKIP() << "QKV_DATA is not set";
  TemporaryFolder alone;
  std::filesystem::copy(DataFolder() / "medical/dicom-wsi/sm_image_grayscale.dcm", alone / "a.dcm");
  const std::unique_ptr<Slide> slide = Open(alone / "a.dcm");
  image::Image got;
  slide->Read(0, {20, 20, 10, 10}, got);
  const image::Image expected = image::DecodeFile(alone / "a.dcm", {.window = std::pair{0.0, 65535.0}, .frame = 12});
  for (int64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(got.pixels[3 * i], got.pixels[3 * i + 2]);
    EXPECT_NEAR(got.pixels[3 * i], expected.pixels[i], 1);
  }
}

TEST_F(DicomSlides, ADamagedTileIsNamedAndOthersAreRead) {
  if (DataFolder().empty()) GTEST_SKIP() << "QKV_DATA is not set";
  std::string file = ReadFile(DataFolder() / "medical/dicom-wsi/sm_image_jpegls.dcm");
  const size_t second = file.find("\xFF\xD8\xFF", file.find("\xFF\xD8\xFF") + 3);
  file.replace(second, 2, "\0\0", 2);
  WriteFile(folder_ / "damaged.dcm", file);
  const std::unique_ptr<Slide> slide = Open(folder_ / "damaged.dcm");
  image::Image got;
  slide->Read(0, {0, 0, 10, 10}, got);
  try {
    slide->Read(0, {10, 0, 10, 10}, got);
    ADD_FAILURE();
  } catch (const DamagedRegion& error) {
    EXPECT_NE(std::string(error.what()).find("damaged.dcm: level 0, the tile at 10, 0: "), std::string::npos);
  }
}

}  // namespace
}  // namespace qkv::slide
