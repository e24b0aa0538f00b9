// The handler of SIGBUS beside those of others, each time in a child, whose handlers are its own.
#include "qkv/core/mapping_guard.h"

#include <gtest/gtest.h>
#include <setjmp.h>
#include <signal.h>
#include <unistd.h>

#include <string>

#include "qkv/core/file.h"
#include "tests/support/files.h"
#include "tests/support/forks.h"

namespace qkv {
namespace {

// Another's handler: how often it was called, and what it replaced.
volatile sig_atomic_t g_calls = 0;
struct sigaction g_replaced;
sigjmp_buf g_place;

// Ends the process with this value if a signal goes in a circle.
constexpr int kCircle = 5;

void Count(int, siginfo_t*, void*) {
  g_calls = g_calls + 1;
  if (g_calls > 10) ::_exit(kCircle);
}

// As many do.
void CountAndCall(int number, siginfo_t* info, void* context) {
  Count(number, info, context);
  if ((g_replaced.sa_flags & SA_SIGINFO) != 0) g_replaced.sa_sigaction(number, info, context);
}

// As Python's faulthandler does.
void CountAndRestore(int number, siginfo_t* info, void* context) {
  Count(number, info, context);
  ::sigaction(number, &g_replaced, nullptr);
  ::raise(number);
}

void CountAndJump(int number, siginfo_t* info, void* context) {
  Count(number, info, context);
  ::siglongjmp(g_place, 1);
}

// True if the handler is called once, and jumps.
bool JumpsBack() {
  g_calls = 0;
  if (sigsetjmp(g_place, 1) == 0) ::raise(SIGBUS);
  return g_calls == 1;
}

void Install(void (*function)(int, siginfo_t*, void*)) {
  struct sigaction action {};
  action.sa_sigaction = function;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, &g_replaced);
}

class MappingGuard : public testing::Test {
 protected:
  MappingGuard() { WriteFile(path_, std::string(100'000, 'a')); }

  // Reads a byte that the file no longer has. True if it is 0.
  bool SurvivesACut() const {
    const MappedFile file(path_);
    if (::truncate(path_.c_str(), 10) != 0) return false;
    const bool zero = file.bytes().back() == std::byte{0};
    WriteFile(path_, std::string(100'000, 'a'));
    return zero;
  }

  const TemporaryFolder folder_;
  const std::filesystem::path path_ = folder_ / "a";
};

TEST_F(MappingGuard, PassesOnWhatIsNotItsOwn) {
  EXPECT_TRUE(ExitsAfter(3, [&] {
    Install(Count);
    if (!SurvivesACut() || g_calls != 0) return 1;
    ::raise(SIGBUS);
    return g_calls == 1 ? 3 : 2;
  }));
}

TEST_F(MappingGuard, IsInFrontOfALaterHandlerFromTheNextMappingOn) {
  EXPECT_TRUE(ExitsAfter(3, [&] {
    if (!SurvivesACut()) return 1;
    const MappedFile file(path_);
    Install(CountAndCall);
    if (::truncate(path_.c_str(), 10) != 0 || file.bytes().back() != std::byte{0} || g_calls != 1) return 2;
    WriteFile(path_, std::string(100'000, 'a'));
    return SurvivesACut() && g_calls == 1 ? 3 : 4;
  }));
}

// Neither 0, to which the children below come if they survive, nor a signal that went in a circle.
bool Ended(int status) { return WIFSIGNALED(status) || (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != kCircle); }

TEST_F(MappingGuard, AHandlerThatPutsItBackIsCalledOnce) {
  EXPECT_EXIT(
      {
        SurvivesACut();
        Install(CountAndRestore);
        SurvivesACut();
        if (g_calls == 0) ::raise(SIGBUS);
        ::_exit(0);
      },
      Ended, "");
}

TEST_F(MappingGuard, AHandlerInstalledTwiceMakesNoCircle) {
  EXPECT_EXIT(
      {
        SurvivesACut();
        for (int i = 0; i < 2; ++i) {
          Install(CountAndCall);
          SurvivesACut();
        }
        if (g_calls == 0) ::raise(SIGBUS);
        ::_exit(0);
      },
      Ended, "");
}

TEST_F(MappingGuard, AHandlerMayComeAndGoAndJump) {
  EXPECT_TRUE(ExitsAfter(3, [&] {
    if (!SurvivesACut()) return 1;
    for (int i = 0; i < 100; ++i) {
      Install(CountAndJump);
      if (!SurvivesACut()) return 2;
      if (!JumpsBack() || !JumpsBack()) return 4;
      ::sigaction(SIGBUS, &g_replaced, nullptr);
    }
    return SurvivesACut() ? 3 : 5;
  }));
}

}  // namespace
}  // namespace qkv
