// Grey levels of DICOM as a display shows them: modality, then the values of interest, then MONOCHROME1.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "qkv/image/dicom_file.h"

namespace qkv::image {

/// How levels become 0…255.
enum class DicomLevels {
  kGiven,   // through options.window
  kWindow,  // through the file's first window
  kTable,   // through the file's first VOI LUT
  kRange,   // from the least to the greatest of the picture, without padding
  kStored,  // as they are: at most 8 bits
};

struct DicomTable {
  int64_t first = 0;  // the input of the first entry
  std::vector<double> entries;
  double most = 255;  // by the bits of an entry
};

/// PS3.3 C.11.1 and C.11.2 for one frame.
class DicomGrey {
 public:
  /// Throws Error, prefixed with the file's where(), for values without a meaning. `window`: rescaled levels that
  /// become 0 and 255, in place of the file's.
  DicomGrey(const DicomFile& file, const DicomLayout& layout, int64_t frame,
            const std::optional<std::pair<double, double>>& window);

  DicomLevels levels() const { return levels_; }
  /// [rows, columns]
  void Show(const DicomSamples& samples, uint8_t* grey);

 private:
  enum class Function { kLinear, kLinearExact, kSigmoid };

  void ReadVoi(const DicomFile& file, int64_t frame);
  void SetRange(const DicomSamples& samples);
  double Value(int32_t stored) const;  // in full
  double Rescaled(double value) const;
  double Shown(double rescaled) const;  // 0…1
  uint8_t Level(int32_t stored) const;

  DicomLayout layout_;
  double slope_ = 1, intercept_ = 0;
  std::optional<DicomTable> modality_, voi_;
  DicomLevels levels_ = DicomLevels::kRange;
  Function function_ = Function::kLinear;
  double center_ = 0, width_ = 0;                     // of the window
  double low_ = 0, high_ = 0;                         // otherwise
  std::optional<std::pair<double, double>> padding_;  // stored values of no picture, from and to
};

}  // namespace qkv::image
