// qkv_openslide: reads a slide by OpenSlide for another process of qkv (slide/read/openslide_process.h), so that code
// of others that reads untrusted files cannot touch that process. It loads OpenSlide, gives up what it does not need
// (sandbox.h), opens one slide, and answers requests until its socket closes. It uses the C library only.
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "qkv/openslide/sandbox.h"
#include "qkv/slide/read/openslide_protocol.h"

namespace {

using namespace qkv::slide::openslide;

struct openslide_t;

// OpenSlide's functions that are used, which 3.4.1 and 4.0 have alike.
struct Library {
  const char* (*get_version)();
  const char* (*detect_vendor)(const char* path);
  openslide_t* (*open)(const char* path);
  const char* (*get_error)(openslide_t*);
  void (*close)(openslide_t*);
  int32_t (*get_level_count)(openslide_t*);
  void (*get_level_dimensions)(openslide_t*, int32_t level, int64_t* width, int64_t* height);
  double (*get_level_downsample)(openslide_t*, int32_t level);
  void (*read_region)(openslide_t*, uint32_t* to, int64_t x, int64_t y, int32_t level, int64_t width, int64_t height);
  const char* (*get_property_value)(openslide_t*, const char* name);
  const char* const* (*get_associated_image_names)(openslide_t*);
  void (*get_associated_image_dimensions)(openslide_t*, const char* name, int64_t* width, int64_t* height);
  void (*read_associated_image)(openslide_t*, const char* name, uint32_t* to);
};

Library library;
openslide_t* slide = nullptr;  // null after an error, which OpenSlide keeps for all later calls
OpenRequest opening;
void* memory = nullptr;

// Copies as much of the text as there is room for, with a zero byte behind it; null counts as empty.
template <size_t size>
void CopyText(const char* from, char (&to)[size]) {
  memset(to, 0, size);
  if (from != nullptr) memcpy(to, from, strnlen(from, size - 1));
}

template <typename F>
bool Look(void* loaded, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(loaded, name));
  return function != nullptr;
}

bool LookAll(void* loaded) {
  return Look(loaded, "openslide_get_version", library.get_version) &&
         Look(loaded, "openslide_detect_vendor", library.detect_vendor) &&
         Look(loaded, "openslide_open", library.open) && Look(loaded, "openslide_get_error", library.get_error) &&
         Look(loaded, "openslide_close", library.close) &&
         Look(loaded, "openslide_get_level_count", library.get_level_count) &&
         Look(loaded, "openslide_get_level_dimensions", library.get_level_dimensions) &&
         Look(loaded, "openslide_get_level_downsample", library.get_level_downsample) &&
         Look(loaded, "openslide_read_region", library.read_region) &&
         Look(loaded, "openslide_get_property_value", library.get_property_value) &&
         Look(loaded, "openslide_get_associated_image_names", library.get_associated_image_names) &&
         Look(loaded, "openslide_get_associated_image_dimensions", library.get_associated_image_dimensions) &&
         Look(loaded, "openslide_read_associated_image", library.read_associated_image);
}

// Takes the first library that loads; dlerror() or the last reason into `reply`.
bool LoadLibrary(Reply& reply) {
  const char* const end = opening.libraries + sizeof(opening.libraries);
  for (const char* name = opening.libraries; name < end && *name != '\0'; name += strnlen(name, end - name) + 1) {
    void* const loaded = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (loaded != nullptr && LookAll(loaded)) return true;
    CopyText(dlerror(), reply.message);
  }
  return false;
}

void Close() {
  if (slide != nullptr) library.close(slide);
  slide = nullptr;
}

// True if the slide has no error. Otherwise it goes into `reply`, and the slide is closed, to be opened anew.
bool Good(Reply& reply) {
  const char* const error = slide == nullptr ? "the slide cannot be opened" : library.get_error(slide);
  if (error == nullptr) return true;
  reply.status = Status::kFailed;
  CopyText(error, reply.message);
  Close();
  return false;
}

bool OpenAgain(Reply& reply) {
  if (slide == nullptr) slide = library.open(opening.slide);
  return Good(reply);
}

void WriteFacts() {
  Facts& facts = *static_cast<Facts*>(memory);
  memset(&facts, 0, sizeof(facts));
  CopyText(library.get_version(), facts.version);
  if (slide == nullptr) {
    CopyText(library.detect_vendor(opening.slide), facts.vendor);
    return;
  }
  CopyText(library.get_property_value(slide, "openslide.vendor"), facts.vendor);
  CopyText(library.get_property_value(slide, "openslide.mpp-x"), facts.mpp_x);
  CopyText(library.get_property_value(slide, "openslide.mpp-y"), facts.mpp_y);
  CopyText(library.get_property_value(slide, "openslide.objective-power"), facts.objective_power);
  CopyText(library.get_property_value(slide, "openslide.background-color"), facts.background);
  const int32_t levels = library.get_level_count(slide);
  facts.levels = levels < Facts::kMaxLevels ? levels : Facts::kMaxLevels;
  for (int32_t l = 0; l < facts.levels; ++l) {
    library.get_level_dimensions(slide, l, &facts.level[l].width, &facts.level[l].height);
    facts.level[l].downsample = library.get_level_downsample(slide, l);
  }
  for (const char* const* name = library.get_associated_image_names(slide); *name != nullptr; ++name) {
    if (facts.associated == Facts::kMaxAssociated) break;
    if (strlen(*name) < sizeof(facts.name[0])) CopyText(*name, facts.name[facts.associated++]);
  }
}

void Open(Reply& reply) {
  if (!LoadLibrary(reply)) {
    reply.status = Status::kNoLibrary;
    return;
  }
  LimitSystemCalls();  // before the first byte of the slide
  slide = library.open(opening.slide);
  reply.status = Status::kUnknown;
  if (slide != nullptr && Good(reply)) reply.status = Status::kDone;
  WriteFacts();
}

void Read(const Request& request, Reply& reply) {
  if (request.width < 1 || request.height < 1 || request.width > kMaxPixels / request.height) return;
  if (!OpenAgain(reply)) return;
  library.read_region(slide, static_cast<uint32_t*>(memory), request.x, request.y, request.level, request.width,
                      request.height);
  if (Good(reply)) reply.status = Status::kDone;
}

void ReadAssociated(const Request& request, Reply& reply) {
  if (!OpenAgain(reply)) return;
  library.get_associated_image_dimensions(slide, request.name, &reply.width, &reply.height);
  if (!Good(reply)) return;
  if (reply.width < 1 || reply.height < 1 || reply.width > kMaxPixels / reply.height) {
    CopyText("its size is out of bounds", reply.message);
    return;
  }
  library.read_associated_image(slide, request.name, static_cast<uint32_t*>(memory));
  if (Good(reply)) reply.status = Status::kDone;
}

// One message of exactly `bytes` bytes; false if the socket has closed or has anything else.
bool Receive(void* to, size_t bytes) {
  ssize_t got = 0;
  do {
    got = read(kSocket, to, bytes);
  } while (got < 0 && errno == EINTR);
  return got == static_cast<ssize_t>(bytes) && static_cast<Request*>(to)->magic == kMagic;
}

}  // namespace

int main() {
  memory = mmap(nullptr, kMemoryBytes, PROT_READ | PROT_WRITE, MAP_SHARED, kMemory, 0);
  if (memory == MAP_FAILED || !Receive(&opening, sizeof(opening))) return 2;
  close(kMemory);
  LimitResources(opening.address_space);
  for (Request request = opening.request;;) {
    Reply reply;
    alarm(request.seconds);  // also if the other process has gone meanwhile
    switch (request.operation) {
      case Operation::kOpen:
        Open(reply);
        break;
      case Operation::kRead:
        Read(request, reply);
        break;
      case Operation::kAssociated:
        ReadAssociated(request, reply);
        break;
    }
    alarm(0);
    // _exit: what the slide has left behind is not run through again.
    if (write(kSocket, &reply, sizeof(reply)) != static_cast<ssize_t>(sizeof(reply))) _exit(0);
    if (!Receive(&request, sizeof(request))) _exit(0);
  }
}
