// A DICOM file whose elements DCMTK has read. Throws Error, which says nothing of the header.
#pragma once

#include <dcmtk/config/osconfig.h>
#include <dcmtk/dcmdata/dctk.h>

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "qkv/dicom/structure.h"
#include "qkv/image/dicom_module.h"

namespace qkv::dicom {

/// Silences DCMTK, whose messages quote values, and starts its decoders; once for the process.
void StartDcmtk();

class File {
 public:
  /// `bytes` must outlive this.
  File(Bytes bytes, uint64_t limit);

  QkvDicomFacts facts() const;
  const Structure& structure() const { return structure_; }
  const std::vector<uint64_t>& extended_offsets() const { return extended_offsets_; }

  // As those of QkvDicomModule. Any thread may call them.
  int64_t Numbers(std::span<const QkvDicomStep> path, std::span<double> values) const;
  int64_t Text(std::span<const QkvDicomStep> path, std::span<char> text) const;
  int64_t Items(std::span<const QkvDicomStep> path) const;

 private:
  DcmItem* ItemAt(const QkvDicomStep& step, DcmItem* within) const;
  DcmElement* Find(std::span<const QkvDicomStep> path) const;

  Structure structure_;
  std::vector<uint64_t> extended_offsets_;
  std::unique_ptr<DcmDataset> data_;
  mutable std::mutex mutex_;  // DCMTK's lists move a cursor when they are read
  // Items of the data set's own sequences by element: DCMTK's lists would be walked from the beginning for each.
  mutable std::unordered_map<uint32_t, std::vector<DcmItem*>> items_;
};

/// Decodes a frame as QkvDicomModule::decode.
void DecodeFrame(const File& file, QkvDicomFrame& frame, std::span<uint8_t> pixels);

}  // namespace qkv::dicom
