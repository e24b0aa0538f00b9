// Folders are walked once each, however links lead.
#include "qkv/image/find.h"

#include <gtest/gtest.h>

#include "qkv/core/file.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"

namespace qkv::image {
namespace {

namespace fs = std::filesystem;

void Write(const fs::path& file) {
  fs::create_directories(file.parent_path());
  WriteFile(file, "");
}

std::vector<std::string> Names(ImageFinder finder, const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::path& file : finder.Find(folder)) names.push_back(fs::relative(file, folder).string());
  return names;
}

TEST(ImageFinder, FindsImagesHoweverDeep) {
  const TemporaryFolder folder;
  for (const char* name : {"b.png", "a/c.JPG", "a/d/e.webp", "a/notes.txt", "z.gif/inside.bmp"}) Write(folder / name);
  EXPECT_EQ(Names({}, folder.path()), (std::vector<std::string>{"a/c.JPG", "a/d/e.webp", "b.png", "z.gif/inside.bmp"}));
}

TEST(ImageFinder, SkipsWhatSystemsAndToolsLeaveAndCountsOtherTypes) {
  const TemporaryFolder folder;
  for (const char* name : {"a.png", "._a.png", ".git/x.png", ".thumbnails/a.png", "__MACOSX/._a.png", "b/.c.jpg",
                           "scan.NII", "b/slide.svs", "b/other.svs", "README"}) {
    Write(folder / name);
  }
  EXPECT_EQ(Names({}, folder.path()), std::vector<std::string>{"a.png"});
  // A walk may begin in such a folder.
  EXPECT_EQ(Names({}, folder / ".git"), std::vector<std::string>{"x.png"});
  ImageFinder finder;
  finder.Find(folder.path());
  EXPECT_EQ(finder.others(), (std::map<std::string, int64_t>{{"", 1}, {".nii", 1}, {".svs", 2}}));
}

TEST(ImageFinder, GoesIntoAFolderOnce) {
  const TemporaryFolder folder;
  Write(folder / "a/1.png");
  Write(folder / "b/2.png");
  fs::create_symlink(".", folder / "a/self");
  fs::create_symlink(".", folder / "a/self2");
  fs::create_symlink("..", folder / "a/up");
  fs::create_symlink("b", folder / "c");
  EXPECT_EQ(Names({}, folder.path()), (std::vector<std::string>{"a/1.png", "b/2.png"}));
  // What is marked is not gone into from elsewhere, but may be where a walk begins.
  ImageFinder finder;
  EXPECT_TRUE(finder.Mark(folder.path()));
  EXPECT_TRUE(finder.Mark(folder / "b"));
  EXPECT_FALSE(finder.Mark(folder / "c"));
  EXPECT_EQ(finder.Find(folder / "a").size(), 1u);
  EXPECT_EQ(finder.Find(folder / "b").size(), 1u);
}

TEST(ImageFinder, HasLimits) {
  const TemporaryFolder folder;
  Write(folder / "a/b/c/1.png");
  EXPECT_EQ(ImageFinder({.depth = 3}).Find(folder.path()).size(), 1u);
  EXPECT_NE(ErrorMessage([&] { ImageFinder({.depth = 2}).Find(folder.path()); }).find("more than 2 folders"),
            std::string::npos);
  EXPECT_EQ(ImageFinder({.entries = 4}).Find(folder.path()).size(), 1u);
  EXPECT_NE(ErrorMessage([&] { ImageFinder({.entries = 3}).Find(folder.path()); }).find("more than 3 files"),
            std::string::npos);
  EXPECT_NE(ErrorMessage([&] { ImageFinder().Find(folder / "nowhere"); }), "");
}

}  // namespace
}  // namespace qkv::image
