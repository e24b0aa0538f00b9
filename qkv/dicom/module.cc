// DICOM by DCMTK, as the module qkv_dicom.so, which the program loads at the first DICOM file: DCMTK's libraries and
// its dictionary take longer to start than the program.
#include <algorithm>
#include <cstring>
#include <exception>

#include "qkv/core/error.h"
#include "qkv/dicom/file.h"
#include "qkv/image/dicom_module.h"

struct QkvDicomFile {
  qkv::dicom::File file;
};

namespace qkv::dicom {
namespace {

void Say(const char* text, QkvDicomText* why) {
  const size_t length = std::min(std::strlen(text), sizeof why->text - 1);
  std::memcpy(why->text, text, length);
  why->text[length] = '\0';
}

// Nothing is thrown out of the module. False, with the reason, if `work` throws.
template <typename Work>
bool Attempt(QkvDicomText* why, Work work) noexcept {
  try {
    work();
    return true;
  } catch (const Error& error) {
    Say(error.what(), why);
  } catch (const std::bad_alloc&) {
    Say("there is not enough memory", why);
  } catch (...) {
    Say("DCMTK cannot read it", why);
  }
  return false;
}

// For those without a reason.
template <typename Work>
int64_t AttemptNumber(int64_t otherwise, Work work) noexcept {
  QkvDicomText ignored;
  int64_t result = otherwise;
  Attempt(&ignored, [&] { result = work(); });
  return result;
}

QkvDicomFile* Open(const uint8_t* bytes, uint64_t size, uint64_t limit, QkvDicomText* why) {
  QkvDicomFile* file = nullptr;
  Attempt(why, [&] {
    StartDcmtk();
    file = new QkvDicomFile{{Bytes(bytes, static_cast<size_t>(size)), limit}};
  });
  return file;
}

void Close(QkvDicomFile* file) { delete file; }

void Facts(const QkvDicomFile* file, QkvDicomFacts* facts) { *facts = file->file.facts(); }

std::span<const QkvDicomStep> Path(const QkvDicomStep* path, int32_t steps) {
  return {path, static_cast<size_t>(steps)};
}

int64_t Numbers(const QkvDicomFile* file, const QkvDicomStep* path, int32_t steps, double* values, int64_t capacity) {
  return AttemptNumber(0, [&] {
    return file->file.Numbers(Path(path, steps), {values, static_cast<size_t>(capacity)});
  });
}

int64_t Text(const QkvDicomFile* file, const QkvDicomStep* path, int32_t steps, char* text, int64_t capacity) {
  return AttemptNumber(-1, [&] { return file->file.Text(Path(path, steps), {text, static_cast<size_t>(capacity)}); });
}

int64_t Items(const QkvDicomFile* file, const QkvDicomStep* path, int32_t steps) {
  return AttemptNumber(0, [&] { return file->file.Items(Path(path, steps)); });
}

int32_t FindElement(const char* keyword, QkvDicomStep* step) {
  return static_cast<int32_t>(AttemptNumber(0, [&]() -> int64_t {
    StartDcmtk();
    DcmTag tag;
    if (DcmTag::findTagFromName(keyword, tag).bad()) return 0;
    *step = {tag.getGroup(), tag.getElement(), 0};
    return 1;
  }));
}

int32_t Decode(const QkvDicomFile* file, QkvDicomFrame* frame, uint8_t* pixels, uint64_t size, QkvDicomText* why) {
  return Attempt(why, [&] { DecodeFrame(file->file, *frame, {pixels, static_cast<size_t>(size)}); });
}

int32_t Encoded(const QkvDicomFile* file, const QkvDicomFrame* frame,
                void (*piece)(void* context, const uint8_t* bytes, uint64_t size), void* context, QkvDicomText* why) {
  return Attempt(why, [&] {
    const Structure& structure = file->file.structure();
    const auto [first, last] = FragmentsOf(structure, frame->frame, frame->frames, file->file.extended_offsets());
    for (size_t i = first; i < last; ++i) piece(context, structure.fragments[i].data(), structure.fragments[i].size());
  });
}

constexpr QkvDicomModule kModule{QKV_DICOM_INTERFACE, Open,   Close,  Facts, Numbers, Text, Items,
                                 FindElement,         Decode, Encoded};

}  // namespace
}  // namespace qkv::dicom

extern "C" [[gnu::visibility("default")]] const QkvDicomModule* qkv_dicom_module(int32_t interface_number) {
  return interface_number == QKV_DICOM_INTERFACE ? &qkv::dicom::kModule : nullptr;
}
