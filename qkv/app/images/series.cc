#include "qkv/app/images/series.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>

#include "qkv/core/file.h"
#include "qkv/image/dicom_file.h"
#include "qkv/image/dicom_mark.h"

namespace qkv::app {
namespace {

namespace fs = std::filesystem;
using image::DicomFile;
using image::DicomStep;

// One file of a series, and where it lies.
struct SeriesFile {
  fs::path path;
  int64_t frames = 1;
  std::optional<double> place;  // mm along the normal
  double number = 0;            // InstanceNumber
};

bool BeginsAsDicomFile(const MappedFile& file) {
  return image::IsDicom(file.bytes().first(std::min(file.bytes().size(), image::kDicomHeadBytes)));
}

// The position of the first frame along the normal of its plane.
std::optional<double> PlaceOf(const DicomFile& file) {
  constexpr DicomStep kPlane{0x0020, 0x9113, 0}, kPosition{0x0020, 0x0032, 0}, kOrientations{0x0020, 0x9116, 0},
      kOrientation{0x0020, 0x0037, 0};
  const std::vector<double> p = file.Numbers(file.OfFrame(0, kPlane, kPosition));
  const std::vector<double> o = file.Numbers(file.OfFrame(0, kOrientations, kOrientation));
  if (p.size() != 3 || o.size() != 6) return {};
  const double place =
      p[0] * (o[1] * o[5] - o[2] * o[4]) + p[1] * (o[2] * o[3] - o[0] * o[5]) + p[2] * (o[0] * o[4] - o[1] * o[3]);
  return std::isfinite(place) ? std::optional(place) : std::nullopt;
}

void SortSlices(std::vector<SeriesFile>& files) {
  const bool placed = std::ranges::all_of(files, [](const SeriesFile& file) { return file.place.has_value(); });
  std::ranges::stable_sort(files, {}, [&](const SeriesFile& file) {
    return std::tuple(placed ? *file.place : 0, file.number, file.path.native());
  });
}

using SeriesKey = std::pair<fs::path, std::string>;  // folder, UID

std::map<SeriesKey, std::vector<SeriesFile>> GroupFiles(const ImageList& files, const Note& note, int& failed) {
  constexpr DicomStep kSeries{0x0020, 0x000E, 0}, kInstance{0x0020, 0x0013, 0};
  std::map<SeriesKey, std::vector<SeriesFile>> groups;
  for (const fs::path& path : files.files) {
    try {
      const MappedFile mapped(path);
      Require(BeginsAsDicomFile(mapped), "{}: no DICOM file; --series orders slices of scans by their headers",
              path.native());
      const std::string name = path.native();
      const DicomFile file(mapped.bytes(), name);
      const image::DicomLayout layout = image::ReadDicomLayout(file);
      const double number = file.Number(kInstance).value_or(0);
      groups[{path.parent_path(), file.Text(kSeries)}].push_back(
          {path, layout.frames, PlaceOf(file), std::isfinite(number) ? number : 0});
    } catch (const Error& error) {
      Notify(note, error.what());
      ++failed;
    }
  }
  return groups;
}

}  // namespace

SeriesList FindSeries(const ImageList& files, const Note& note) {
  SeriesList list;
  list.images.failed = files.failed;
  auto groups = GroupFiles(files, note, list.images.failed);
  // UIDs have no order that means anything: series are numbered by their first file.
  std::vector<std::pair<fs::path, std::vector<SeriesFile>>> series;
  std::map<fs::path, int> counts;
  for (auto& [key, members] : groups) {
    ++counts[key.first];
    series.emplace_back(key.first, std::move(members));
  }
  std::ranges::sort(series, {}, [](const auto& one) { return std::pair(one.first, one.second.front().path); });
  std::map<fs::path, int> numbers;
  for (auto& [folder, members] : series) {
    SortSlices(members);
    const std::string name = folder.empty() ? "." : folder.string();
    list.names.push_back(counts[folder] == 1 ? name : fmt::format("{} (series {})", name, ++numbers[folder]));
    for (const SeriesFile& file : members) {
      for (int64_t frame = 0; frame < file.frames; ++frame) {
        list.slices.push_back({file.path, static_cast<int>(frame), list.names.size() - 1});
        list.images.files.push_back(file.frames == 1 ? file.path
                                                     : fs::path(fmt::format("{}#{}", file.path.native(), frame)));
      }
    }
  }
  Require(!list.slices.empty(), "no slices of a scan in DICOM files");
  list.images.read = [slices = list.slices](size_t index, const image::DecodeOptions& options,
                                            image::Workspace& workspace, image::Image& image) {
    image::DecodeOptions of_frame = options;
    of_frame.frame = slices[index].frame;
    image::DecodeFile(slices[index].file, of_frame, workspace, image);
  };
  return list;
}

KeptHeader::KeptHeader(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const std::optional<DicomStep> step = image::FindDicomElement(name, "--keep-header");
    Require(step.has_value(),
            "--keep-header: \"{}\" is no element of DICOM; expected a keyword such as Modality, or "
            "(0008,0060)",
            name);
    fields_.push_back({name, step->group, step->element});
  }
}

io::Json KeptHeader::Read(const fs::path& path) const {
  const MappedFile mapped(path);
  if (!BeginsAsDicomFile(mapped)) return nullptr;
  const std::string name = path.native();
  const DicomFile file(mapped.bytes(), name);
  io::Json header = io::Json::object();
  for (const Field& field : fields_) {
    const DicomStep element{field.group, field.element, 0};
    const std::string text = file.Text(element);
    header[field.name] = text.empty() ? io::Json(nullptr) : io::Json(text);
  }
  return header;
}

}  // namespace qkv::app
