// The interface of qkv_dicom.so, which reads DICOM by DCMTK (qkv/dicom/). Plain data and functions that throw nothing:
// the module has a C++ runtime of its own. Nothing that it says in `why` is from the file's header.
#pragma once

#include <stddef.h>
#include <stdint.h>

/// Changes with the declarations below.
#define QKV_DICOM_INTERFACE 1

extern "C" {

struct QkvDicomFile;

/// An element, and which item of it if the path goes on inside of a sequence.
struct QkvDicomStep {
  uint16_t group, element;
  int64_t item;
};

/// How the frames are stored.
enum QkvDicomCoding : int32_t {
  kQkvDicomNone,      // there is no Pixel Data
  kQkvDicomNative,    // uncompressed, at `native`
  kQkvDicomDecoded,   // decoded by the module: RLE, JPEG, JPEG-LS
  kQkvDicomJpeg2000,  // decoded by the caller: JPEG 2000, HTJ2K
  kQkvDicomFloat,     // Float Pixel Data
  kQkvDicomOther,     // not decoded: video and others
};

struct QkvDicomFacts {
  QkvDicomCoding coding;
  int32_t native_big;    // native values are big-endian
  int32_t native_words;  // native values are stored as words of 16 bits, also those of 8 bits
  const uint8_t* native;
  uint64_t native_size;
  const char* syntax;  // name of the transfer syntax: "JPEG-LS lossless", "MPEG-4", …
  uint64_t held;       // bytes that the module holds for the file, about
};

/// What decoding a frame needs of the header.
struct QkvDicomFrame {
  int64_t frame, frames;
  int32_t rows, columns, samples, allocated, stored, high_bit, is_signed;
  char photometric[20];  // as in the header; decode writes that of its result
};

struct QkvDicomText {
  char text[256];
};

struct QkvDicomModule {
  int32_t interface_number;
  /// Reads the header. `bytes` must outlive the file. Null, with the reason, for a damaged file, and one that would
  /// take more than `limit` bytes.
  QkvDicomFile* (*open)(const uint8_t* bytes, uint64_t size, uint64_t limit, QkvDicomText* why);
  void (*close)(QkvDicomFile* file);
  void (*facts)(const QkvDicomFile* file, QkvDicomFacts* facts);
  /// The element's values as numbers, at most `capacity` of them. Returns how many there are, 0 without the element.
  int64_t (*numbers)(const QkvDicomFile* file, const QkvDicomStep* path, int32_t steps, double* values,
                     int64_t capacity);
  /// The element's value as UTF-8, at most `capacity` bytes. Returns its length, -1 without the element, or if it is no
  /// text or number.
  int64_t (*text)(const QkvDicomFile* file, const QkvDicomStep* path, int32_t steps, char* text, int64_t capacity);
  /// Items of a sequence, 0 without it.
  int64_t (*items)(const QkvDicomFile* file, const QkvDicomStep* path, int32_t steps);
  /// The element of a keyword of the dictionary ("Modality"). Returns 0 if there is none.
  int32_t (*find)(const char* keyword, QkvDicomStep* step);
  /// Decodes a frame into `size` bytes: little-endian samples, interleaved by pixel. Returns 0, with the reason, if it
  /// cannot. Any thread may call this and `encoded`, several at a time.
  int32_t (*decode)(const QkvDicomFile* file, QkvDicomFrame* frame, uint8_t* pixels, uint64_t size, QkvDicomText* why);
  /// Calls piece(context, bytes, size) for the consecutive pieces of a frame's bytes as stored. Returns as `decode`.
  int32_t (*encoded)(const QkvDicomFile* file, const QkvDicomFrame* frame,
                     void (*piece)(void* context, const uint8_t* bytes, uint64_t size), void* context,
                     QkvDicomText* why);
};

/// The module's only exported function. Null for another `interface_number`.
const QkvDicomModule* qkv_dicom_module(int32_t interface_number);

}  // extern "C"
