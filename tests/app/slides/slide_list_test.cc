#include "qkv/app/slides/slide_list.h"

#include <gtest/gtest.h>

#include "qkv/core/file.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"

namespace qkv::app {
namespace {

namespace fs = std::filesystem;

void Touch(const fs::path& path) {
  fs::create_directories(path.parent_path());
  WriteFile(path, "x");
}

std::vector<std::string> Names(const std::vector<SlideEntry>& slides) {
  std::vector<std::string> names;
  for (const SlideEntry& slide : slides) names.push_back(slide.name);
  return names;
}

TEST(SlideList, FindsSlidesOfFolders) {
  const TemporaryFolder folder;
  for (const char* file : {"b/two.SVS", "a/one.ome.tif", "three.ndpi", "._three.ndpi", "notes.txt", "photo.jpg"}) {
    Touch(folder / file);
  }
  Touch(folder / "scan/1.dcm");
  WriteFile(folder / "scan/2.dcm", "larger");
  std::string notes;
  const auto slides = CollectSlides({folder.path().string()}, "", [&](const std::string& text) { notes += text; });
  EXPECT_NE(notes.find("its 2 DICOM files are taken as one slide"), std::string::npos);
  EXPECT_EQ(Names(slides), (std::vector<std::string>{"one", "two", "scan", "three"}));
  EXPECT_EQ(slides[2].path.filename(), "2.dcm");
}

TEST(SlideList, RefusesWhatWouldBeMixedUp) {
  const TemporaryFolder folder;
  Touch(folder / "a/one.svs");
  Touch(folder / "b/one.svs");
  EXPECT_NE(
      ErrorMessage([&] { CollectSlides({folder.path().string()}, "", {}); }).find("would both have results named one"),
      std::string::npos);
  EXPECT_NE(ErrorMessage([&] { CollectSlides({folder / "c.svs"}, "", {}); }).find("no such file"), std::string::npos);
  fs::create_directory(folder / "empty");
  EXPECT_NE(ErrorMessage([&] { CollectSlides({folder / "empty"}, "", {}); }).find("no slides found"),
            std::string::npos);
}

TEST(SlideList, TakesScalesOfATable) {
  const TemporaryFolder folder;
  Touch(folder / "one.svs");
  Touch(folder / "two.svs");
  WriteFile(folder / "mpp.csv", "wsi,mpp\none.svs,0.25\nother.svs,1\n");
  std::string notes;
  const auto slides =
      CollectSlides({folder.path().string()}, folder / "mpp.csv", [&](const std::string& text) { notes += text; });
  EXPECT_EQ(slides[0].mpp, 0.25);
  EXPECT_FALSE(slides[1].mpp);
  EXPECT_NE(notes.find("other.svs"), std::string::npos);
  for (const char* table : {"", "slide,mpp\n", "wsi,mpp\none.svs\n", "wsi,mpp\none.svs,0\n", "wsi,mpp\none.svs,0.5x\n",
                            "wsi,mpp\none.svs,nan\n"}) {
    WriteFile(folder / "mpp.csv", table);
    EXPECT_NE(ErrorMessage([&] { CollectSlides({folder.path().string()}, folder / "mpp.csv", {}); }), "") << table;
  }
}

TEST(SlideList, ShardsTakeEachSlideOnce) {
  std::vector<SlideEntry> slides(10);
  for (size_t i = 0; i < slides.size(); ++i) slides[i].name = std::to_string(i);
  std::vector<int> taken(10);
  for (const char* part : {"1/3", "2/3", "3/3"}) {
    for (const SlideEntry& slide : TakeShard(slides, ParseShard(part, "--shard"))) ++taken[std::stoul(slide.name)];
  }
  EXPECT_EQ(taken, std::vector<int>(10, 1));
  for (const char* part : {"", "1", "0/3", "4/3", "1/0", "a/b", "1/3x", "-1/3", "1 /3"}) {
    EXPECT_NE(ErrorMessage([&] { ParseShard(part, "--shard"); }).find("expected a part such as 2/8"), std::string::npos)
        << part;
  }
}

}  // namespace
}  // namespace qkv::app
