// What qkv and the program qkv_openslide (qkv/openslide/reader.cc) say to each other. Requests and replies are single
// messages of a socket (SOCK_SEQPACKET); pixels and facts lie in memory that both have mapped. Nothing of a reply is
// trusted: the process may be under the control of the slide that it reads. Internal to slide/read/ and openslide/.
#pragma once

#include <cstddef>
#include <cstdint>

namespace qkv::slide::openslide {

// Descriptors of the child; 0 to 2 are /dev/null, and it has no others.
inline constexpr int kSocket = 3, kMemory = 4;
// Bytes of the shared memory, of which only the pages that were used exist: 4,096 × 4,096 pixels.
inline constexpr int64_t kMemoryBytes = int64_t{64} << 20;
inline constexpr int64_t kMaxPixels = kMemoryBytes / 4;

inline constexpr uint32_t kMagic = 0x534f4b51;  // "QKOS": both sides are of the same build

enum class Operation : uint32_t {
  kOpen = 1,    // OpenRequest; facts into the memory
  kRead,        // a region, premultiplied ARGB as OpenSlide has it, into the memory
  kAssociated,  // a picture beside the levels, likewise; the reply has its size
};

struct Request {
  uint32_t magic = kMagic;
  Operation operation = Operation::kRead;
  uint32_t seconds = 0;                         // after which the child ends by SIGALRM
  int32_t level = 0;                            // kRead
  int64_t x = 0, y = 0, width = 0, height = 0;  // kRead: x and y in pixels of level 0, the others of the level
  char name[256] = {};                          // kAssociated
};

/// Of the first request. Texts end in a zero byte.
struct OpenRequest {
  Request request;
  uint64_t address_space = 0;  // bytes that the child may map
  char slide[4096] = {};
  char libraries[8192] = {};  // names for dlopen, the first that loads is taken; an empty one ends the list
};

enum class Status : uint32_t {
  kDone = 1,
  kNoLibrary,  // none of the libraries loads; `message` says why the last did not
  kUnknown,    // no format of OpenSlide
  kFailed,     // `message` is OpenSlide's
};

struct Reply {
  uint32_t magic = kMagic;
  Status status = Status::kFailed;
  int64_t width = 0, height = 0;  // kAssociated
  char message[1024] = {};
};

struct FactsLevel {
  int64_t width, height;
  double downsample;
};

/// At the beginning of the memory after kOpen. Texts end in a zero byte and are empty if the slide does not have them.
struct Facts {
  static constexpr int kMaxLevels = 64, kMaxAssociated = 64;
  char version[64];  // of OpenSlide
  char vendor[64];
  char mpp_x[64], mpp_y[64], objective_power[64], background[64];  // properties openslide.*
  int32_t levels, associated;                                      // counts
  FactsLevel level[kMaxLevels];
  char name[kMaxAssociated][256];  // of associated pictures
};
static_assert(sizeof(Facts) < 64 * 1024);

}  // namespace qkv::slide::openslide
