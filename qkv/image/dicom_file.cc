#include "qkv/image/dicom_file.h"

#include <algorithm>
#include <charconv>
#include <cstdio>

#include "qkv/core/error.h"
#include "qkv/core/memory.h"
#include "qkv/core/module.h"

// There where the module's sources are linked to the program itself: in fuzzers.
extern "C" [[gnu::weak]] const QkvDicomModule* qkv_dicom_module(int32_t interface_number);

namespace qkv::image {
namespace {

constexpr const char* kDicomModule = "qkv_dicom.so";
// Of one element: the largest tables have 65,536.
constexpr int64_t kMaxNumbers = 1 << 20;
constexpr int64_t kMaxTextBytes = 1 << 16;

const QkvDicomModule* LoadDicomModule(std::string_view where) {
  if (qkv_dicom_module != nullptr) return qkv_dicom_module(QKV_DICOM_INTERFACE);
  const ModulePlace place = FindModule(kDicomModule);
  Require(
      !place.file.empty(),
      "{}: a DICOM file, and this qkv is without DCMTK: {} is neither in {} (Debian: package qkv-dicom; from source: "
      "built where libdcmtk-dev is)",
      where, kDicomModule, place.looked_in);
  void* const module = LoadModule(place.file, ModuleScope::kOwn, where);
  using Get = const QkvDicomModule* (*)(int32_t);
  const auto get = reinterpret_cast<Get>(ModuleFunction(module, "qkv_dicom_module", place.file, where));
  const QkvDicomModule* const found = get(QKV_DICOM_INTERFACE);
  Require(found != nullptr, "{}: {} is of another version of qkv", where, place.file.string());
  return found;
}

const QkvDicomModule* Module(std::string_view where) {
  static const QkvDicomModule* const module = LoadDicomModule(where);  // tried again if it throws
  return module;
}

}  // namespace

std::optional<DicomStep> FindDicomElement(const std::string& name, std::string_view where) {
  unsigned group = 0, element = 0;
  int length = 0;
  if (std::sscanf(name.c_str(), "(%4x,%4x)%n", &group, &element, &length) == 2 &&
      length == static_cast<int>(name.size())) {
    return DicomStep{static_cast<uint16_t>(group), static_cast<uint16_t>(element), 0};
  }
  DicomStep step{};
  if (Module(where)->find(name.c_str(), &step) == 0) return {};
  return step;
}

DicomFile::DicomFile(std::span<const std::byte> bytes, std::string_view where)
    : module_(Module(where)), where_(where), file_(nullptr, {module_}) {
  QkvDicomText why{};
  file_.reset(module_->open(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size(),
                            static_cast<uint64_t>(MemoryLimit()), &why));
  Require(file_ != nullptr, "{}: DICOM: {}", where, why.text);
  module_->facts(file_.get(), &facts_);
}

std::vector<double> DicomFile::Numbers(DicomPath path) const {
  if (path.empty()) return {};
  const auto steps = static_cast<int32_t>(path.size());
  const int64_t count = module_->numbers(file_.get(), path.data(), steps, nullptr, 0);
  Require(count <= kMaxNumbers, "{}: DICOM: {} numbers in one element", where_, count);
  std::vector<double> values(static_cast<size_t>(count));
  if (module_->numbers(file_.get(), path.data(), steps, values.data(), count) != count) values.clear();
  return values;
}

std::optional<double> DicomFile::Number(DicomPath path) const {
  double value = 0;
  if (path.empty() || module_->numbers(file_.get(), path.data(), static_cast<int32_t>(path.size()), &value, 1) < 1)
    return {};
  return value;
}

std::string DicomFile::Text(DicomPath path) const {
  if (path.empty()) return {};
  std::string text(static_cast<size_t>(kMaxTextBytes), '\0');
  const int64_t length =
      module_->text(file_.get(), path.data(), static_cast<int32_t>(path.size()), text.data(), kMaxTextBytes);
  text.resize(static_cast<size_t>(std::clamp<int64_t>(length, 0, kMaxTextBytes)));
  while (!text.empty() && (text.back() == ' ' || text.back() == '\0')) text.pop_back();
  return text;
}

int64_t DicomFile::Items(DicomPath path) const {
  return module_->items(file_.get(), path.data(), static_cast<int32_t>(path.size()));
}

std::vector<DicomStep> DicomFile::OfFrame(int64_t frame, DicomStep group, DicomStep element) const {
  constexpr DicomStep kShared{0x5200, 0x9229, 0};
  const DicomStep own{0x5200, 0x9230, frame};
  const auto has = [&](DicomPath path) {
    const auto steps = static_cast<int32_t>(path.size());
    return module_->numbers(file_.get(), path.data(), steps, nullptr, 0) > 0 ||
           module_->text(file_.get(), path.data(), steps, nullptr, 0) >= 0;
  };
  for (std::vector<DicomStep> path :
       {std::vector{own, group, element}, std::vector{kShared, group, element}, std::vector{element}}) {
    if (has(path)) return path;
  }
  return {};
}

}  // namespace qkv::image
