// The process that OpenSlide runs in, with a library that misbehaves: every end of it is an Error that says how, the
// next region is read by another process, and nothing is left behind.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <set>
#include <thread>

#include "qkv/core/memory.h"
#include "qkv/core/rng.h"
#include "qkv/core/work.h"
#include "qkv/slide/read/openslide_search.h"
#include "qkv/slide/read/openslide_slide.h"
#include "qkv/slide/read/readers.h"
#include "tests/slide/fake_openslide.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/forks.h"

namespace qkv::slide {
namespace {

namespace fs = std::filesystem;

// Whether a message has a text in it.
testing::AssertionResult Says(const char*, const char*, const std::string& message, const std::string& text) {
  if (message.find(text) != message.npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "\"" << message << "\" does not say \"" << text << "\"";
}

// Processes whose parent this is.
std::set<pid_t> Children() {
  std::set<pid_t> children;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != name.npos) continue;
    std::string line;
    std::getline(std::ifstream(entry.path() / "stat"), line);
    const size_t state = line.rfind(')');
    if (state != line.npos && std::atoi(line.c_str() + state + 4) == ::getpid()) children.insert(std::stoi(name));
  }
  return children;
}

// Kills the only process, and returns when it is dead, and still the slide's to collect.
void KillChild() {
  const pid_t child = *Children().begin();
  ::kill(child, SIGKILL);
  siginfo_t ended = {};
  ::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT);
}

class OpenSlideProcess : public testing::Test {
 protected:
  void TearDown() override { EXPECT_TRUE(Children().empty()) << "a process is left"; }

  // A slide of the fake library that misbehaves so.
  std::unique_ptr<Slide> Open(const std::string& words, int most = 4) {
    const fs::path file = folder_ / "slide.fake";
    std::ofstream(file) << "fake " << words;
    openslide::ProcessOptions process;
    process.program = openslide::FindProgram(why_);
    process.libraries = {QKV_FAKE_OPENSLIDE};
    process.slide = file;
    process.seconds = seconds_;
    process.address_space = int64_t{1} << 29;
    return openslide::OpenIn(process, options_, most, why_);
  }

  TemporaryFolder folder_;
  SlideOptions options_;
  std::string why_;
  uint32_t seconds_ = 60;
};

// What Read makes of the fake's pixel: over the background.
void ExpectPixel(const uint8_t* rgb, int64_t x, int64_t y, int level, uint32_t background = 0xffffff) {
  const uint32_t pixel = fake::Pixel(x, y, level);
  for (int c = 0; c < 3; ++c) {
    const int shift = 16 - 8 * c;
    const double over = (pixel >> shift & 255) + (255 - (pixel >> 24)) / 255.0 * (background >> shift & 255);
    ASSERT_NEAR(rgb[c], over, 0.51) << x << " " << y << " channel " << c;
  }
}

void ExpectRegion(const Slide& slide, int level, const Region& region, uint32_t background = 0xffffff,
                  int64_t step = 1) {
  image::Image pixels;
  slide.Read(level, region, pixels);
  ASSERT_EQ(pixels.pixels.shape(), Shape({region.height, region.width, 3}));
  const double downsample = fake::kDownsamples[level];
  for (int64_t y = 0; y < region.height; y += step) {
    for (int64_t x = 0; x < region.width; x += step) {
      const uint8_t* const rgb = pixels.pixels.data() + 3 * (y * region.width + x);
      const Level& of = slide.facts().levels[level];
      const int64_t column = region.x + x, row = region.y + y;
      if (column < 0 || row < 0 || column >= of.width || row >= of.height) {
        for (int c = 0; c < 3; ++c) ASSERT_EQ(rgb[c], background >> (16 - 8 * c) & 255);
        continue;
      }
      const auto place = [&](int64_t begin, int64_t offset) {
        return std::llround(std::max<int64_t>(begin, 0) * downsample) +
               static_cast<int64_t>((offset + std::min<int64_t>(begin, 0)) * downsample);
      };
      ASSERT_NO_FATAL_FAILURE(ExpectPixel(rgb, place(region.x, x), place(region.y, y), level, background));
    }
  }
}

TEST_F(OpenSlideProcess, HasFactsAndPixels) {
  const auto slide = Open("");
  ASSERT_NE(slide, nullptr) << why_;
  const SlideFacts& facts = slide->facts();
  EXPECT_EQ(facts.reader, "OpenSlide 9.9.9");
  EXPECT_EQ(facts.format, "fake");
  ASSERT_EQ(facts.levels.size(), 3u);
  EXPECT_EQ(facts.levels[2].width, 1212);
  EXPECT_EQ(facts.levels[2].downsample, 16.5);
  EXPECT_EQ(facts.mpp_x, 0.25);
  EXPECT_EQ(facts.mpp_y, 0.26);
  EXPECT_EQ(facts.magnification, 40);
  EXPECT_EQ(facts.associated, (std::vector<std::string>{"huge", "label", "macro"}));
  for (int level = 0; level < 3; ++level) {
    ExpectRegion(*slide, level, {0, 0, 256, 256});
    ExpectRegion(*slide, level, {37, 101, 300, 5});
    ExpectRegion(*slide, level, {-20, -7, 64, 64});
    const Level& of = facts.levels[level];
    ExpectRegion(*slide, level, {of.width - 10, of.height - 10, 64, 64});
    ExpectRegion(*slide, level, {of.width + 10, 0, 4, 4});
    ExpectRegion(*slide, level, {-100, -100, 4, 4});
  }
}

TEST_F(OpenSlideProcess, ReadsLargeRegionsInBlocks) {
  ExpectRegion(*Open(""), 0, {150, 100, 4200, 4200}, 0xffffff, 13);
}

TEST_F(OpenSlideProcess, HasTheSlidesBackground) {
  ExpectRegion(*Open("background"), 0, {-20, -20, 300, 30}, 0x102030);
}

TEST_F(OpenSlideProcess, TakesMppOfSlidesThatDoNotSay) {
  options_.mpp = 0.7;
  EXPECT_EQ(Open("")->facts().mpp_x, 0.25);
  EXPECT_EQ(Open("mpp=none")->facts().mpp_y, 0.7);
  EXPECT_EQ(Open("mpp=bad")->facts().mpp_x, 0.7);
}

TEST_F(OpenSlideProcess, ReadsPicturesBesideTheLevels) {
  const auto slide = Open("read=segv");
  const image::Image label = slide->ReadAssociated("label");
  ASSERT_EQ(label.pixels.shape(), Shape({10, 20, 3}));
  for (int i = 0; i < 200; ++i) EXPECT_EQ(label.pixels[3 * i + 2], i);
  EXPECT_PRED_FORMAT2(Says, ErrorMessage([&] { slide->ReadAssociated("thumbnail"); }), "no picture \"thumbnail\"");
  EXPECT_PRED_FORMAT2(Says, ErrorMessage([&] { slide->ReadAssociated("huge"); }), "its size is out of bounds");
  EXPECT_PRED_FORMAT2(Says, ErrorMessage([&] { slide->ReadAssociated("macro"); }), "SIGSEGV");
}

TEST_F(OpenSlideProcess, RefusesRegionsThatAreNone) {
  const auto slide = Open("");
  image::Image pixels;
  const auto error = [&](int level, const Region& region) {
    return ErrorMessage([&] { slide->Read(level, region, pixels); });
  };
  EXPECT_PRED_FORMAT2(Says, error(3, {0, 0, 1, 1}), "level 3, expected 0 to 2");
  EXPECT_PRED_FORMAT2(Says, error(-1, {0, 0, 1, 1}), "level -1");
  EXPECT_PRED_FORMAT2(Says, error(0, {0, 0, 0, 1}), "0 × 1");
  EXPECT_PRED_FORMAT2(Says, error(0, {INT64_MIN, 0, 1, 1}), "expected sides");
  EXPECT_PRED_FORMAT2(Says, error(0, {0, INT64_MAX, 1, INT64_MAX}), "expected sides");
  EXPECT_PRED_FORMAT2(Says, error(0, {0, 0, int64_t{1} << 35, int64_t{1} << 35}), "may be used");
}

// The region is damaged, and says how; the one beside it is read.
TEST_F(OpenSlideProcess, NamesWhatEndedIt) {
  for (const auto& [words, reason] : {std::pair{"abort", "SIGABRT"},
                                      {"segv", "SIGSEGV"},
                                      {"exit", "exit status 3"},
                                      {"loop", "longer than 2 s"},
                                      {"error", "OpenSlide: the tile is made of cheese"},
                                      {"short", "its answer is none"},
                                      {"nonsense", "its answer is none"},
                                      {"long", "its answer is none"},
                                      {"mute", "it stopped to answer"},
                                      {"greedy", "SIGABRT"}}) {
    SCOPED_TRACE(words);
    seconds_ = std::string(words) == "loop" ? 2 : 60;
    const auto slide = Open(std::string("read=") + words, 1);
    image::Image pixels;
    for (int again = 0; again < 2; ++again) {
      try {
        slide->Read(0, {fake::kBadX - 10, 3, 20, 20}, pixels);
        ADD_FAILURE() << "no error";
      } catch (const DamagedRegion& damaged) {
        EXPECT_PRED_FORMAT2(Says, damaged.what(), reason);
        EXPECT_PRED_FORMAT2(Says, damaged.what(), "slide.fake: level 0, 20 × 20 pixels at (9990, 3)");
      }
      ExpectRegion(*slide, 0, {fake::kBadX + 10, 3, 20, 20});
    }
  }
}

// Each takes as long as it may: thousands would take days.
TEST_F(OpenSlideProcess, GivesUpASlideWhoseRegionsTakeTooLong) {
  seconds_ = 4;
  const auto slide = Open("read=loop", 8);
  std::atomic<int> damaged = 0, given_up = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      image::Image pixels;
      try {
        slide->Read(0, {fake::kBadX - 10, 3, 20, 20}, pixels);
      } catch (const DamagedRegion&) {
        ++damaged;
      } catch (const Error& error) {
        EXPECT_PRED_FORMAT2(Says, error.what(), "given up after 8 regions");
        ++given_up;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(damaged, 7);
  EXPECT_EQ(given_up, 1);
}

TEST_F(OpenSlideProcess, NamesASlideThatEndsItWhenItIsOpened) {
  for (const auto& [words, reason] : {std::pair{"open=abort", "SIGABRT"},
                                      {"open=segv", "SIGSEGV"},
                                      {"open=exit", "exit status 3"},
                                      {"open=loop", "longer than 2 s"},
                                      {"open=error", "(fake): the tile is made of cheese"},
                                      {"open=long", "its answer is none"},
                                      {"open=mute", "it stopped to answer"},
                                      {"levels=none", "0 levels"},
                                      {"sides=negative", "-5 ×"},
                                      {"sides=huge", "9223372036854775807 pixels"},
                                      {"downsample=nan", "nan times"}}) {
    seconds_ = std::string(words) == "open=loop" ? 2 : 60;
    const std::string error = ErrorMessage([this, asked = std::string(words)] { Open(asked); });
    EXPECT_PRED_FORMAT2(Says, error, reason) << words;
    EXPECT_PRED_FORMAT2(Says, error, "slide.fake") << words;
  }
  EXPECT_EQ(Open("levels=many")->facts().levels.size(), 64u);
}

TEST_F(OpenSlideProcess, LeavesOthersToOtherReaders) {
  EXPECT_EQ(Open("open=error dicom"), nullptr);
  EXPECT_PRED_FORMAT2(Says, why_, "OpenSlide 9.9.9: the tile is made of cheese");
  const fs::path other = folder_ / "other";
  std::ofstream(other) << "other";
  options_.openslide = QKV_FAKE_OPENSLIDE;
  EXPECT_EQ(OpenByOpenSlide(other, options_, why_), nullptr);
  EXPECT_PRED_FORMAT2(Says, why_, "OpenSlide 9.9.9 does not know its format");
}

TEST_F(OpenSlideProcess, SaysWhichLibraryDoesNotLoad) {
  const fs::path file = folder_ / "slide.fake";
  std::ofstream(file) << "fake";
  options_.openslide = file;
  EXPECT_PRED_FORMAT2(Says, ErrorMessage([&] { OpenByOpenSlide(file, options_, why_); }),
                      "cannot be loaded as OpenSlide");
  options_.openslide = folder_ / "none";
  EXPECT_PRED_FORMAT2(Says, ErrorMessage([&] { OpenByOpenSlide(file, options_, why_); }), "no such file");
  options_.openslide = folder_.path();
  EXPECT_PRED_FORMAT2(Says, ErrorMessage([&] { OpenByOpenSlide(file, options_, why_); }), "has neither");
  fs::create_symlink(QKV_FAKE_OPENSLIDE, folder_ / "libopenslide.so.0");
  EXPECT_NE(OpenByOpenSlide(file, options_, why_), nullptr);
  openslide::ProcessOptions process;
  process.program = openslide::FindProgram(why_);
  process.libraries = {"libqkv_of_no_such_name.so"};
  process.slide = file;
  EXPECT_EQ(openslide::OpenIn(process, {}, 1, why_), nullptr);
  EXPECT_PRED_FORMAT2(Says, why_, "OpenSlide is not there: libqkv_of_no_such_name.so");
  EXPECT_PRED_FORMAT2(Says, why_, "pip install openslide-bin");
}

TEST_F(OpenSlideProcess, HasNoRightsButToRead) {
  const auto slide = Open("read=probe");
  image::Image pixels;
  slide->Read(0, {fake::kBadX, 0, 1, 1}, pixels);
  const uint32_t refused = pixels.pixels[0] << 16 | pixels.pixels[1] << 8 | pixels.pixels[2];
  EXPECT_EQ(refused, fake::kNetwork | fake::kFork | fake::kWrite | fake::kExecute | fake::kSignal | fake::kCode |
                         fake::kMakeCode | fake::kAsync | fake::kEnvironment | fake::kDescriptors);
  const std::set<pid_t> children = Children();
  ASSERT_EQ(children.size(), 1u);
  EXPECT_EQ(::getpgid(*children.begin()), *children.begin());
}

TEST_F(OpenSlideProcess, SaysThatTheSlideHasChanged) {
  const auto slide = Open("", 1);
  std::ofstream(folder_ / "slide.fake") << "fake mpp=none";
  KillChild();
  image::Image pixels;
  EXPECT_PRED_FORMAT2(Says, ErrorMessage([&] { slide->Read(0, {0, 0, 1, 1}, pixels); }), "it has changed");
  fs::remove(folder_ / "slide.fake");
  EXPECT_PRED_FORMAT2(Says, ErrorMessage([&] { slide->Read(0, {0, 0, 1, 1}, pixels); }), "cannot open it again");
  std::ofstream(folder_ / "slide.fake") << "fake open=segv";
  EXPECT_THROW(slide->Read(0, {0, 0, 1, 1}, pixels), DamagedRegion);
  EXPECT_THROW(slide->Read(0, {0, 0, 1, 1}, pixels), DamagedRegion);
  EXPECT_PRED_FORMAT2(Says, ErrorMessage([&] { slide->Read(0, {0, 0, 1, 1}, pixels); }), "3 times in a row");
  std::ofstream(folder_ / "slide.fake") << "fake ";
  ExpectRegion(*slide, 0, {500, 0, 16, 16});
}

TEST_F(OpenSlideProcess, OneThatEndedIdleCostsNoRegion) {
  const auto slide = Open("", 1);
  for (int i = 0; i < 5; ++i) {
    KillChild();
    ExpectRegion(*slide, 0, {500, 0, 16, 16});
  }
}

TEST_F(OpenSlideProcess, CanBeCancelled) {
  const auto slide = Open("read=loop", 1);
  const auto begin = std::chrono::steady_clock::now();
  image::Image pixels;
  {
    const CancelScope scope([&] { return std::chrono::steady_clock::now() > begin + std::chrono::milliseconds(50); });
    EXPECT_THROW(slide->Read(0, {fake::kBadX, 0, 1, 1}, pixels), Cancelled);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  ExpectRegion(*slide, 0, {500, 0, 16, 16});
}

// Every region is right or DamagedRegion, whoever is killed when.
TEST_F(OpenSlideProcess, ServesThreadsWhileItIsKilled) {
  const auto slide = Open("slow", 4);
  std::atomic<int> reading = 8, right = 0, damaged = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      Rng rng(t);
      for (int i = 0; i < 40; ++i) {
        const Region region = {200 + static_cast<int64_t>(rng.Next() % 1000), static_cast<int64_t>(rng.Next() % 500),
                               16, 16};
        try {
          ExpectRegion(*slide, i % 2, region);
          ++right;
        } catch (const DamagedRegion& error) {
          EXPECT_PRED_FORMAT2(Says, error.what(), "SIGKILL");
          ++damaged;
        } catch (const Error& error) {
          EXPECT_PRED_FORMAT2(Says, error.what(), "times in a row");
          ++damaged;
        }
      }
      --reading;
    });
  }
  Rng rng(99);
  int killed = 0;
  while (reading > 0) {
    const std::set<pid_t> children = Children();
    EXPECT_LE(children.size(), 8u);  // 4, but some end and begin while they are listed
    if (!children.empty() && killed < 40) {
      ++killed;
      ::kill(*std::next(children.begin(), static_cast<int64_t>(rng.Next() % children.size())), SIGKILL);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(15));
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right + damaged, 320);
  EXPECT_GT(damaged, 0);
  EXPECT_LE(damaged, killed);
}

TEST_F(OpenSlideProcess, WorksWhereChildrenAreIgnored) {
  const auto before = ::signal(SIGCHLD, SIG_IGN);
  {
    const auto slide = Open("read=segv", 1);
    image::Image pixels;
    EXPECT_THROW(slide->Read(0, {fake::kBadX, 0, 1, 1}, pixels), DamagedRegion);
    ExpectRegion(*slide, 0, {500, 0, 16, 16});
  }
  ::signal(SIGCHLD, before);
}

TEST_F(OpenSlideProcess, WorksWithoutStandardFiles) {
  EXPECT_TRUE(ExitsAfter(0, [&] {
    for (int descriptor = 0; descriptor < 3; ++descriptor) ::close(descriptor);
    const auto slide = Open("read=segv", 1);
    if (slide == nullptr) return 1;
    for (int descriptor = 0; descriptor < 3; ++descriptor) {  // what this process prints goes nowhere else
      if (::write(descriptor, "text", 4) >= 0) return 2;
    }
    image::Image pixels;
    slide->Read(0, {500, 0, 1, 1}, pixels);
    return 0;
  }));
}

TEST_F(OpenSlideProcess, IsNotSharedWithAForkedProcess) {
  const auto slide = Open("", 1);
  ExpectRegion(*slide, 0, {500, 0, 16, 16});
  auto* const in_child = slide.get();
  EXPECT_TRUE(ExitsAfter(0, [&] {
    image::Image pixels;
    in_child->Read(0, {600, 0, 16, 16}, pixels);
    return Children().size() == 1 ? 0 : 1;
  }));
  ExpectRegion(*slide, 0, {700, 0, 16, 16});
}

}  // namespace
}  // namespace qkv::slide
