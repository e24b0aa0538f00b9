#include "qkv/slide/read/tiff_file.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "qkv/core/error.h"
#include "qkv/core/memory.h"
#include "qkv/image/tiff_warning.h"

namespace qkv::slide {
namespace {

// More than any slide has, and few enough to read.
constexpr size_t kMaxPages = 4096, kMaxSubPages = 64;
// Texts of all directories together, which may share their bytes in the file.
constexpr size_t kMaxText = size_t{64} << 20;
// libtiff's buffers for a directory that is read bit by bit.
constexpr int64_t kSmallTables = int64_t{1} << 18;
// Memory of codecs for a piece, in multiples of its bytes, as in image/tiff.cc.
constexpr int64_t kCodecBuffers = 4;
constexpr uint32_t kNdpiTag = 65420;

TiffInput& TiffInputOf(thandle_t handle) { return *static_cast<TiffInput*>(handle); }

tmsize_t TiffReadAt(thandle_t handle, void* out, tmsize_t length) {
  TiffInput& input = TiffInputOf(handle);
  tmsize_t done = 0;
  while (done < length) {
    const ssize_t got = ::pread(input.descriptor, static_cast<char*>(out) + done, static_cast<size_t>(length - done),
                                static_cast<off_t>(input.position));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += got;
    input.position += static_cast<uint64_t>(got);
  }
  return done;
}

toff_t TiffSeekTo(thandle_t handle, toff_t offset, int whence) {
  TiffInput& input = TiffInputOf(handle);
  input.position = offset + (whence == SEEK_CUR ? input.position : whence == SEEK_END ? input.size : 0);
  return input.position;
}

int KeepTiffError(TIFF*, void* user, const char*, const char* format, va_list arguments) {
  TiffInput& input = TiffInputOf(user);
  if (!input.message.empty()) return 1;
  char text[256];
  vsnprintf(text, sizeof text, format, arguments);
  const std::string_view message = text;  // libtiff puts the file's name first, which it was not told
  input.message = message.substr(message.starts_with(": ") ? 2 : 0);
  return 1;
}

int KeepFatalTiffWarning(TIFF* tiff, void* user, const char* module, const char* format, va_list arguments) {
  char text[256];
  va_list copy;
  va_copy(copy, arguments);
  vsnprintf(text, sizeof text, format, copy);
  va_end(copy);
  return image::IsFatalTiffWarning(text) ? KeepTiffError(tiff, user, module, format, arguments) : 1;
}

std::string TiffText(TIFF* tiff, uint32_t tag) {
  const char* text = nullptr;
  if (TIFFGetField(tiff, tag, &text) != 1 || text == nullptr) return {};
  return std::string(text, ::strnlen(text, kMaxText));
}

bool TiffHasText(TIFF* tiff, uint32_t tag, std::string_view wanted) {
  uint32_t count = 0;
  const char* bytes = nullptr;
  return TIFFGetField(tiff, tag, &count, &bytes) == 1 && bytes != nullptr &&
         std::string_view(bytes, count).find(wanted) != std::string_view::npos;
}

bool TiffHasTag(TIFF* tiff, uint32_t tag) {
  for (int i = 0; i < TIFFGetTagListCount(tiff); ++i)
    if (TIFFGetTagListEntry(tiff, i) == tag) return true;
  return false;
}

void ReadResolution(TIFF* tiff, TiffPage& page) {
  float x = 0, y = 0;
  if (TIFFGetField(tiff, TIFFTAG_XRESOLUTION, &x) == 1 && std::isfinite(x)) page.resolution_x = x;
  if (TIFFGetField(tiff, TIFFTAG_YRESOLUTION, &y) == 1 && std::isfinite(y)) page.resolution_y = y;
  TIFFGetFieldDefaulted(tiff, TIFFTAG_RESOLUTIONUNIT, &page.resolution_unit);
}

void ReadSubDirectories(TIFF* tiff, TiffPage& page) {
  uint16_t count = 0;
  const uint64_t* offsets = nullptr;
  if (TIFFGetField(tiff, TIFFTAG_SUBIFD, &count, &offsets) != 1 || offsets == nullptr) return;
  page.sub_directories.assign(offsets, offsets + std::min<size_t>(count, kMaxSubPages));
}

/// The directory at which the handle is. False if it says too little for a picture.
bool ReadPage(TIFF* tiff, TiffPage& page) {
  page.offset = TIFFCurrentDirOffset(tiff);
  if (TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &page.width) != 1 ||
      TIFFGetField(tiff, TIFFTAG_IMAGELENGTH, &page.height) != 1 || page.width == 0 || page.height == 0)
    return false;
  TIFFGetFieldDefaulted(tiff, TIFFTAG_BITSPERSAMPLE, &page.bits);
  TIFFGetFieldDefaulted(tiff, TIFFTAG_SAMPLESPERPIXEL, &page.samples);
  TIFFGetFieldDefaulted(tiff, TIFFTAG_SAMPLEFORMAT, &page.sample_format);
  TIFFGetFieldDefaulted(tiff, TIFFTAG_COMPRESSION, &page.compression);
  TIFFGetField(tiff, TIFFTAG_PHOTOMETRIC, &page.photometric);
  TIFFGetField(tiff, TIFFTAG_IMAGEDEPTH, &page.depth);
  TIFFGetField(tiff, TIFFTAG_SUBFILETYPE, &page.subfile_type);
  uint16_t planar = PLANARCONFIG_CONTIG, extras = 0, *kinds = nullptr;
  TIFFGetFieldDefaulted(tiff, TIFFTAG_PLANARCONFIG, &planar);
  page.planar = planar == PLANARCONFIG_SEPARATE && page.samples > 1;
  TIFFGetFieldDefaulted(tiff, TIFFTAG_EXTRASAMPLES, &extras, &kinds);
  if (extras > 0 && kinds != nullptr) page.alpha = kinds[0];
  page.tiled = TIFFIsTiled(tiff) != 0;
  page.piece_width = page.width;
  if (page.tiled) {
    if (TIFFGetField(tiff, TIFFTAG_TILEWIDTH, &page.piece_width) != 1 ||
        TIFFGetField(tiff, TIFFTAG_TILELENGTH, &page.piece_height) != 1)
      return false;
  } else {
    TIFFGetFieldDefaulted(tiff, TIFFTAG_ROWSPERSTRIP, &page.piece_height);
    page.piece_height = std::min(page.piece_height, page.height);
  }
  page.description = TiffText(tiff, TIFFTAG_IMAGEDESCRIPTION);
  page.software = TiffText(tiff, TIFFTAG_SOFTWARE);
  ReadResolution(tiff, page);
  ReadSubDirectories(tiff, page);
  page.has_ndpi_tag = TiffHasTag(tiff, kNdpiTag);
  page.has_iscan = TiffHasText(tiff, TIFFTAG_XMLPACKET, "<iScan");
  return page.piece_width > 0 && page.piece_height > 0;
}

void RequireShortTexts(const std::vector<TiffPage>& pages, const std::filesystem::path& path) {
  size_t bytes = 0;
  for (const TiffPage& page : pages) bytes += page.description.size() + page.software.size();
  Require(bytes <= kMaxText, "slide: {}: TIFF: descriptions of more than {} bytes", path.string(), kMaxText);
}

}  // namespace

TiffHandle::TiffHandle(int descriptor, uint64_t size, int64_t most)
    : input_{descriptor, size, 0, {}}, tiff_(nullptr, TIFFClose) {
  const std::unique_ptr<TIFFOpenOptions, void (*)(TIFFOpenOptions*)> options(TIFFOpenOptionsAlloc(),
                                                                             TIFFOpenOptionsFree);
  Require(options != nullptr, "slide: no memory for libtiff");
  TIFFOpenOptionsSetErrorHandlerExtR(options.get(), KeepTiffError, &input_);
  TIFFOpenOptionsSetWarningHandlerExtR(options.get(), KeepFatalTiffWarning, &input_);
  TIFFOpenOptionsSetMaxSingleMemAlloc(options.get(), static_cast<tmsize_t>(most));
  // Not mapped; the directory is chosen later; of the tables of tiles only those parts are read that are looked at.
  tiff_.reset(TIFFClientOpenExt(
      "", "rmhDO", &input_, TiffReadAt, [](thandle_t, void*, tmsize_t) -> tmsize_t { return -1; }, TiffSeekTo,
      [](thandle_t) { return 0; }, [](thandle_t handle) -> toff_t { return TiffInputOf(handle).size; },
      [](thandle_t, void**, toff_t*) { return 0; }, [](thandle_t, void*, toff_t) {}, options.get()));
}

std::string TiffHandle::TakeMessage() {
  std::string message;
  message.swap(input_.message);
  return message.empty() ? "damaged" : message;
}

bool TiffFile::IsTiff(const InputFile& file) {
  constexpr size_t kDicomPreamble = 128;
  std::array<char, kDicomPreamble + 4> head{};
  const ssize_t got = ::pread(file.descriptor(), head.data(), head.size(), 0);
  if (got < 8) return false;
  using namespace std::string_view_literals;
  const std::string_view text(head.data(), static_cast<size_t>(got));
  if (text.size() == head.size() && text.substr(kDicomPreamble) == "DICM"sv) return false;
  return text.starts_with("II*\0"sv) || text.starts_with("MM\0*"sv) || text.starts_with("II+\0"sv) ||
         text.starts_with("MM\0+"sv);
}

TiffFile::TiffFile(const std::filesystem::path& path) : path_(path), file_(path_) {}

int64_t TiffFile::TableBytes() const {
  // A directory's tables are in the file, with 2 to 16 bytes an entry, and take 8.
  const auto size = static_cast<int64_t>(std::min<uint64_t>(file_.stamp().size, uint64_t{1} << 50));
  return std::min(4 * size + kSmallTables, std::max(MemoryLimit() / 4, kSmallTables));
}

std::vector<TiffPage> TiffFile::ReadPages() const {
  TiffHandle handle(file_.descriptor(), file_.stamp().size, TableBytes());
  const auto check = [&](bool ok) {
    if (!ok || handle.has_message()) Fail("slide: {}: TIFF: {}", path_.string(), handle.TakeMessage());
  };
  check(handle.is_open());
  std::vector<TiffPage> pages;
  while (TIFFReadDirectory(handle.get()) == 1) {
    CheckCancelled();
    Require(pages.size() < kMaxPages, "slide: {}: TIFF: more than {} directories", path_.string(), kMaxPages);
    pages.emplace_back();
    check(ReadPage(handle.get(), pages.back()));
    RequireShortTexts(pages, path_);
    if (TIFFLastDirectory(handle.get()) != 0) break;
  }
  check(!pages.empty());
  return pages;
}

std::vector<TiffPage> TiffFile::ReadSubPages(const TiffPage& page) const {
  TiffHandle handle(file_.descriptor(), file_.stamp().size, TableBytes());
  std::vector<TiffPage> pages;
  for (const uint64_t offset : page.sub_directories) {
    CheckCancelled();
    pages.emplace_back();
    const bool ok = handle.is_open() && TIFFSetSubDirectory(handle.get(), offset) == 1 &&
                    ReadPage(handle.get(), pages.back()) && !handle.has_message();
    if (!ok) Fail("slide: {}: TIFF: sub-directory at byte {}: {}", path_.string(), offset, handle.TakeMessage());
    RequireShortTexts(pages, path_);
  }
  return pages;
}

std::unique_ptr<TiffHandle> TiffFile::Borrow(const TiffPage& page) const {
  {
    const std::scoped_lock lock(mutex_);
    std::vector<std::unique_ptr<TiffHandle>>& ready = ready_[page.offset];
    if (!ready.empty()) {
      std::unique_ptr<TiffHandle> handle = std::move(ready.back());
      ready.pop_back();
      return handle;
    }
  }
  const int64_t piece = int64_t{page.piece_width} * page.piece_height * page.samples * (page.bits / 8 + 1);
  auto handle =
      std::make_unique<TiffHandle>(file_.descriptor(), file_.stamp().size, TableBytes() + kCodecBuffers * piece);
  const bool ok = handle->is_open() && TIFFSetSubDirectory(handle->get(), page.offset) == 1 && !handle->has_message();
  if (!ok) Fail("slide: {}: TIFF: directory at byte {}: {}", path_.string(), page.offset, handle->TakeMessage());
  // Tiles as RGB; without this libtiff gives the components.
  if (page.compression == COMPRESSION_JPEG && page.photometric == PHOTOMETRIC_YCBCR)
    TIFFSetField(handle->get(), TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
  return handle;
}

void TiffFile::Return(const TiffPage& page, std::unique_ptr<TiffHandle> handle) const {
  const std::scoped_lock lock(mutex_);
  ready_[page.offset].push_back(std::move(handle));
}

}  // namespace qkv::slide
