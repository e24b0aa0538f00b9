// HEIC and AVIF where libheif, which is loaded at the first such file, is damaged or is not what its name says. The
// dynamic linker finds the one that a test puts into a folder before the system's.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <exception>

#include "tests/cli/program.h"

namespace qkv {
namespace {

namespace fs = std::filesystem;

class Libheif : public testing::Test {
 protected:
  Libheif() {
    fs::create_directories(library_.parent_path());
    fs::create_directories(images_);
    const auto golden = io::SafeTensors::Open(SourceFolder() / "tests/image/golden/heif.safetensors");
    for (const char* name : {"exact_rgb.heic", "lossy_444.avif"}) {
      const io::StoredTensor* file = golden.Find(std::string("file/") + name);
      WriteFile(images_ / name, {reinterpret_cast<const char*>(file->bytes.data()), file->bytes.size()});
    }
    fs::copy_file(fs::path(Digits()) / "7-white.png", images_ / "png.png");
  }

  /// Classifies the three images, with `library_` before the system's libheif.
  CommandOutput Classify() const {
    return Qkv(fmt::format("classify --json -m {} {}", Golden("timm_vit"), images_.string()),
               "LD_LIBRARY_PATH=" + library_.parent_path().string());
  }

  /// Both files are named with the reason and left out; the third is classified.
  void ExpectLeftOut(const std::string& reason) const {
    const CommandOutput said = Classify();
    EXPECT_EQ(said.exit_code, 1);
    for (const char* name : {"exact_rgb.heic", "lossy_444.avif"})
      EXPECT_TRUE(Contains(said.err, std::string(name) + ": HEIC and AVIF need libheif" + reason)) << said.err;
    EXPECT_TRUE(Contains(said.err, "2 of 3 files could not be read")) << said.err;
    const std::vector<io::Json> lines = JsonLines(said.out);
    ASSERT_EQ(lines.size(), 1) << said.out;
    EXPECT_EQ(lines[0]["path"], (images_ / "png.png").string());
  }

  const TemporaryFolder folder_;
  const fs::path library_ = folder_ / "libraries/libheif.so.1", images_ = folder_ / "images";
};

TEST_F(Libheif, OfTheSystemIsLoaded) {
  const CommandOutput said = Classify();
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_EQ(JsonLines(said.out).size(), 3) << said.out;
}

TEST_F(Libheif, ThatCannotBeLoadedIsToldWithWhatToInstall) {
  WriteFile(library_, "");
  ExpectLeftOut(", which cannot be loaded: " + library_.string() +
                ": file too short (Debian, Ubuntu: apt install libheif1");
}

TEST_F(Libheif, WithoutAFunctionIsToldToBeTooOld) {
  Dl_info other;
  ASSERT_NE(::dladdr(reinterpret_cast<void*>(&std::terminate), &other), 0);
  fs::create_symlink(fs::canonical(other.dli_fname), library_);
  ExpectLeftOut(" 1.12 or newer: libheif.so.1 lacks heif_context_alloc");
}

// Programs that read no such file do not depend on it, nor on what it brings along.
TEST_F(Libheif, IsNotLinked) {
  const CommandOutput said = Qkv("--version", "LD_TRACE_LOADED_OBJECTS=1");
  EXPECT_TRUE(Contains(said.out, "libc.so.6")) << said.out;
  for (const char* name : {"libheif", "x265", "de265", "dav1d"}) EXPECT_FALSE(Contains(said.out, name)) << said.out;
}

}  // namespace
}  // namespace qkv
