#include "qkv/image/dicom_grey.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "qkv/core/error.h"
#include "qkv/image/runs.h"

namespace qkv::image {
namespace {

constexpr DicomStep kModalityTable{0x0028, 0x3000, 0}, kVoiTable{0x0028, 0x3010, 0}, kCenter{0x0028, 0x1050, 0},
    kWidth{0x0028, 0x1051, 0}, kIntercept{0x0028, 0x1052, 0}, kSlope{0x0028, 0x1053, 0},
    kVoiFunction{0x0028, 0x1056, 0}, kPadding{0x0028, 0x0120, 0}, kPaddingEnd{0x0028, 0x0121, 0},
    kTransformation{0x0028, 0x9145, 0}, kFrameVoi{0x0028, 0x9132, 0};

// The first item of a sequence of tables.
std::optional<DicomTable> ReadDicomTable(const DicomFile& file, DicomStep sequence, bool is_signed) {
  const DicomStep description_path[] = {sequence, {0x0028, 0x3002, 0}},
                  entries_path[] = {sequence, {0x0028, 0x3006, 0}};
  const std::vector<double> description = file.Numbers(description_path);
  if (description.empty()) return {};
  const auto [count, first, bits] = ReadDicomTableShape(file, description, is_signed);
  DicomTable table;
  table.first = first;
  table.most = std::ldexp(1, bits) - 1;
  table.entries = file.Numbers(entries_path);
  Require(std::ssize(table.entries) >= count, "{}: DICOM: a table of {} grey levels, {} are declared", file.where(),
          table.entries.size(), count);
  table.entries.resize(static_cast<size_t>(count));
  // Entries of a table without negative ones may have been written with a sign.
  for (double& entry : table.entries) entry = entry < 0 ? entry + 65536 : entry;
  return table;
}

double Entry(const DicomTable& table, double value) {
  const double place = value - static_cast<double>(table.first);
  if (!(place > 0)) return table.entries.front();  // NaN too, of a table before this
  return table.entries[static_cast<size_t>(std::min(place, static_cast<double>(table.entries.size() - 1)))];
}

}  // namespace

DicomGrey::DicomGrey(const DicomFile& file, const DicomLayout& layout, int64_t frame,
                     const std::optional<std::pair<double, double>>& window)
    : layout_(layout) {
  modality_ = ReadDicomTable(file, kModalityTable, layout.is_signed);
  if (!modality_) {
    slope_ = file.Number(file.OfFrame(frame, kTransformation, kSlope)).value_or(1);
    intercept_ = file.Number(file.OfFrame(frame, kTransformation, kIntercept)).value_or(0);
    Require(std::isfinite(slope_) && std::isfinite(intercept_),
            "{}: DICOM: a rescale slope or intercept that is no number", file.where());
  }
  if (const std::optional<double> padding = file.Number(kPadding)) {
    const double other = file.Number(kPaddingEnd).value_or(*padding);
    padding_ = std::minmax(*padding, other);
  }
  if (window) {
    levels_ = DicomLevels::kGiven;
    std::tie(low_, high_) = *window;
  } else {
    ReadVoi(file, frame);
  }
}

void DicomGrey::ReadVoi(const DicomFile& file, int64_t frame) {
  voi_ = ReadDicomTable(file, kVoiTable, layout_.is_signed || intercept_ < 0);
  if (voi_) {
    levels_ = DicomLevels::kTable;
    return;
  }
  const std::optional<double> center = file.Number(file.OfFrame(frame, kFrameVoi, kCenter));
  const std::optional<double> width = file.Number(file.OfFrame(frame, kFrameVoi, kWidth));
  const std::string function = file.Text(file.OfFrame(frame, kFrameVoi, kVoiFunction));
  function_ = function == "SIGMOID"        ? Function::kSigmoid
              : function == "LINEAR_EXACT" ? Function::kLinearExact
                                           : Function::kLinear;
  const double least = function_ == Function::kLinear ? 1 : std::numeric_limits<double>::min();
  if (center && width && std::isfinite(*center) && std::isfinite(*width) && *width >= least) {
    levels_ = DicomLevels::kWindow;
    center_ = *center;
    width_ = *width;
  } else if (layout_.stored <= 8 && !modality_) {
    levels_ = DicomLevels::kStored;
    const double most = std::ldexp(1, layout_.stored) - 1;
    low_ = layout_.is_signed ? -(most + 1) / 2 : 0;
    high_ = low_ + most;
  }
}

double DicomGrey::Value(int32_t stored) const {
  return layout_.stored == 32 && !layout_.is_signed ? static_cast<double>(static_cast<uint32_t>(stored)) : stored;
}

double DicomGrey::Rescaled(double value) const {
  return modality_ ? Entry(*modality_, value) : value * slope_ + intercept_;
}

double DicomGrey::Shown(double x) const {
  if (levels_ == DicomLevels::kTable) return Entry(*voi_, x) / voi_->most;
  if (levels_ != DicomLevels::kWindow) return low_ == high_ ? 0 : (x - low_) / (high_ - low_);
  if (function_ == Function::kSigmoid) return 1 / (1 + std::exp(-4 * (x - center_) / width_));
  const bool exact = function_ == Function::kLinearExact;
  const double center = exact ? center_ : center_ - 0.5, width = exact ? width_ : width_ - 1;
  if (x <= center - width / 2) return 0;
  if (x > center + width / 2) return 1;
  return (x - center) / width + 0.5;
}

uint8_t DicomGrey::Level(int32_t stored) const {
  const double value = Value(stored);
  const double shown = levels_ == DicomLevels::kStored ? Shown(value) : Shown(Rescaled(value));
  const auto level = static_cast<uint8_t>(std::lround(255 * std::clamp(std::isnan(shown) ? 0.0 : shown, 0.0, 1.0)));
  return layout_.photometric == "MONOCHROME1" ? static_cast<uint8_t>(255 - level) : level;
}

void DicomGrey::SetRange(const DicomSamples& samples) {
  const int32_t* const in = samples.values.data();
  double least = std::numeric_limits<double>::infinity(), most = -least;
  ForEachRun(samples.values.size(), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const double value = Value(in[i]);
      if (padding_ && value >= padding_->first && value <= padding_->second) continue;
      least = std::min(least, value);
      most = std::max(most, value);
    }
  });
  if (least > most) least = most = 0;  // padding alone
  if (modality_) {
    // A table need not be monotonic: its own range.
    const auto [low, high] = std::ranges::minmax(modality_->entries);
    low_ = low, high_ = high;
  } else {
    std::tie(low_, high_) = std::minmax({Rescaled(least), Rescaled(most)});
  }
}

void DicomGrey::Show(const DicomSamples& samples, uint8_t* grey) {
  if (levels_ == DicomLevels::kRange) SetRange(samples);
  const int32_t* const in = samples.values.data();
  const int64_t pixels = samples.values.size();
  // Once for each value, if these are fewer than the pixels.
  constexpr int kTableBits = 16;
  const int64_t values = int64_t{1} << std::min(samples.bits, kTableBits);
  if (samples.bits > kTableBits || pixels < values) {
    ForEachRun(pixels, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) grey[i] = Level(in[i]);
    });
    return;
  }
  const int32_t first = layout_.is_signed ? static_cast<int32_t>(-values / 2) : 0;
  std::vector<uint8_t> levels(static_cast<size_t>(values));
  for (int32_t v = 0; v < values; ++v) levels[static_cast<size_t>(v)] = Level(first + v);
  ForEachRun(pixels, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) grey[i] = levels[static_cast<size_t>(in[i] - first)];
  });
}

}  // namespace qkv::image
