// A library with OpenSlide's functions and a slide made up of a formula (fake_openslide.h), which misbehaves on
// request: what tests of the process need, without OpenSlide. The words of the slide's file say how: "open=segv
// read=loop".
#include "tests/slide/fake_openslide.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "qkv/slide/read/openslide_protocol.h"

namespace {

using namespace qkv::slide;

char words[1024];
const char* error = nullptr;
int slide = 0;

bool Asked(const char* word) { return strstr(words, word) != nullptr; }

void Answer(size_t bytes) {
  char garbage[8192] = {1, 2, 3};
  if (write(openslide::kSocket, garbage, bytes) < 0) abort();
}

// Does what stands behind "open=" or "read=".
void Misbehave(const char* when) {
  const char* const at = strstr(words, when);
  if (at == nullptr) return;
  const char* const what = at + strlen(when);
  const auto is = [what](const char* word) { return strncmp(what, word, strlen(word)) == 0; };
  if (is("abort")) abort();
  if (is("segv")) *static_cast<volatile int*>(nullptr) = 1;
  if (is("exit")) _exit(3);
  for (volatile int forever = 1; is("loop") && forever == 1;) {
  }
  if (is("error")) error = "the tile is made of cheese";
  if (is("short")) Answer(5);
  if (is("nonsense")) Answer(sizeof(openslide::Reply));
  if (is("long")) Answer(8192);
  if (is("mute")) {
    close(openslide::kSocket);
    pause();
    for (;;) usleep(1000);
  }
  if (is("greedy")) {
    for (;;) {
      volatile char* const block = static_cast<char*>(malloc(size_t{64} << 20));
      if (block == nullptr) abort();
      *block = 1;
    }
  }
}

// Bits of fake::Refusal: what the process cannot do.
uint32_t Refused() {
  uint32_t refused = 0;
  const auto note = [&refused](fake::Refusal what, bool failed) { refused |= failed ? what : 0u; };
  note(fake::kNetwork, socket(AF_INET, SOCK_STREAM, 0) < 0);
  const pid_t child = fork();
  if (child == 0) _exit(0);
  note(fake::kFork, child < 0);
  note(fake::kWrite, open("/tmp/qkv_openslide_probe", O_WRONLY | O_CREAT, 0600) < 0);
  char* const arguments[] = {nullptr};
  note(fake::kExecute, execve("/bin/true", arguments, arguments) < 0);
  note(fake::kSignal, kill(getppid(), 0) < 0);
  note(fake::kCode,
       mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED);
  void* const page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  note(fake::kMakeCode, mprotect(page, 4096, PROT_READ | PROT_EXEC) < 0);
  note(fake::kAsync, fcntl(openslide::kSocket, F_SETOWN, getpid()) < 0);
  note(fake::kEnvironment, getenv("PATH") == nullptr);
  int others = 0;
  for (int descriptor = 4; descriptor < 1000; ++descriptor) others += fcntl(descriptor, F_GETFD) >= 0;
  note(fake::kDescriptors, others == 0);
  const int file = open("/proc/self/status", O_RDONLY);  // reading is allowed
  note(fake::kRead, file < 0);
  return refused;
}

}  // namespace

extern "C" {

const char* openslide_get_version() { return "9.9.9"; }
const char* openslide_detect_vendor(const char*) { return Asked("dicom") ? "dicom" : "fake"; }

void* openslide_open(const char* path) {
  error = nullptr;
  FILE* const file = fopen(path, "rb");
  if (file == nullptr) return nullptr;
  memset(words, 0, sizeof(words));
  const bool read = fread(words, 1, sizeof(words) - 1, file) > 0;
  fclose(file);
  if (!read || strncmp(words, "fake", 4) != 0) return nullptr;
  Misbehave("open=");
  return &slide;
}

const char* openslide_get_error(void*) { return error; }
void openslide_close(void*) {}
int32_t openslide_get_level_count(void*) { return Asked("levels=many") ? 1000 : Asked("levels=none") ? 0 : 3; }

void openslide_get_level_dimensions(void*, int32_t level, int64_t* width, int64_t* height) {
  *width = Asked("sides=negative") ? -5 : static_cast<int64_t>(fake::kWidth / fake::kDownsamples[level % 3]);
  *height = Asked("sides=huge") ? INT64_MAX : static_cast<int64_t>(fake::kHeight / fake::kDownsamples[level % 3]);
}

double openslide_get_level_downsample(void*, int32_t level) {
  if (Asked("downsample=nan")) return __builtin_nan("");
  return Asked("levels=many") ? 1 + level : fake::kDownsamples[level];
}

void openslide_read_region(void*, uint32_t* to, int64_t x, int64_t y, int32_t level, int64_t width, int64_t height) {
  if (x <= fake::kBadX && fake::kBadX < x + width * fake::kDownsamples[level]) Misbehave("read=");
  if (Asked("slow")) usleep(2000);
  for (int64_t row = 0; row < height; ++row) {
    for (int64_t column = 0; column < width; ++column) {
      *to++ = fake::Pixel(x + static_cast<int64_t>(column * fake::kDownsamples[level]),
                          y + static_cast<int64_t>(row * fake::kDownsamples[level]), level);
    }
  }
  if (Asked("read=probe")) to[-width * height] = 0xff000000 | Refused();
}

const char* openslide_get_property_value(void*, const char* name) {
  if (strcmp(name, "openslide.vendor") == 0) return "fake";
  if (strcmp(name, "openslide.mpp-x") == 0) return Asked("mpp=none") ? nullptr : Asked("mpp=bad") ? "-3" : "0.25";
  if (strcmp(name, "openslide.mpp-y") == 0) return Asked("mpp=none") ? nullptr : Asked("mpp=bad") ? "1e999" : "0.26";
  if (strcmp(name, "openslide.objective-power") == 0) return "40";
  if (strcmp(name, "openslide.background-color") == 0) return Asked("background") ? "102030" : nullptr;
  return nullptr;
}

const char* const* openslide_get_associated_image_names(void*) {
  static const char* const names[] = {"huge", "label", "macro", nullptr};
  return names;
}

void openslide_get_associated_image_dimensions(void*, const char* name, int64_t* width, int64_t* height) {
  *width = strcmp(name, "huge") == 0 ? int64_t{1} << 31 : 20;
  *height = strcmp(name, "huge") == 0 ? int64_t{1} << 31 : 10;
}

void openslide_read_associated_image(void*, const char* name, uint32_t* to) {
  if (strcmp(name, "macro") == 0) Misbehave("read=");
  for (int i = 0; i < 200; ++i) to[i] = 0xff000000u | static_cast<uint32_t>(i);
}
}
