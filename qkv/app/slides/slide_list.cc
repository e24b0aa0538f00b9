#include "qkv/app/slides/slide_list.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>
#include <set>
#include <string_view>

#include "qkv/core/file.h"
#include "qkv/io/csv.h"

namespace qkv::app {

namespace fs = std::filesystem;

namespace {

// Files that scanners, OpenSlide and viewers call slides. A file that is named is opened whatever its ending.
constexpr std::string_view kSlideEndings[] = {".svs",  ".tif", ".tiff",    ".ndpi", ".vms", ".vmu",
                                              ".mrxs", ".scn", ".svslide", ".bif",  ".czi"};
constexpr size_t kMostBytesOfTable = size_t{64} << 20;

std::string InLowerCase(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

std::string EndingOf(const fs::path& path) { return InLowerCase(path.extension().string()); }

// Without ".ome.tif" too.
std::string NameOfSlide(const fs::path& path) {
  fs::path stem = path.stem();
  if (EndingOf(stem) == ".ome") stem = stem.stem();
  return stem.string();
}

// Of a series, the file with the most pixels is a level; labels are small.
fs::path LargestFile(const std::vector<fs::path>& files) {
  return *std::ranges::max_element(files, {}, [](const fs::path& file) { return fs::file_size(file); });
}

std::vector<SlideEntry> FindSlides(const fs::path& folder, const Note& note) {
  std::vector<SlideEntry> found;
  std::map<fs::path, std::vector<fs::path>> series;
  for (const auto& entry : fs::recursive_directory_iterator(folder, fs::directory_options::skip_permission_denied)) {
    if (entry.is_directory() && ::access(entry.path().c_str(), R_OK | X_OK) != 0) {
      Notify(note, FormatShown("{}: this folder cannot be read; slides in it are left out", entry.path().string()));
    }
    // "._slide.svs" is what macOS leaves on other file systems.
    if (!entry.is_regular_file() || entry.path().filename().native().front() == '.') continue;
    const std::string ending = EndingOf(entry.path());
    if (ending == ".dcm") series[entry.path().parent_path()].push_back(entry.path());
    if (std::ranges::find(kSlideEndings, ending) == std::end(kSlideEndings)) continue;
    found.push_back({entry.path(), NameOfSlide(entry.path()), {}});
  }
  for (auto& [parent, files] : series) {
    if (files.size() > 1) {
      Notify(note, FormatShown("{}: its {} DICOM files are taken as one slide; of several slides, name a file of each",
                               parent.string(), files.size()));
    }
    found.push_back({LargestFile(files), fs::canonical(parent).filename().string(), {}});
  }
  std::ranges::sort(found, {}, &SlideEntry::path);
  return found;
}

void RequireDistinctNames(const std::vector<SlideEntry>& slides) {
  std::map<std::string, const SlideEntry*> known;
  for (const SlideEntry& slide : slides) {
    const auto [at, is_new] = known.emplace(slide.name, &slide);
    Require(is_new, "slide: {} and {} would both have results named {}; run them with an --output each",
            at->second->path.string(), slide.path.string(), slide.name);
  }
}

size_t ColumnOf(const io::CsvRecord& head, std::string_view name, const std::string& file) {
  for (size_t i = 0; i < head.fields.size(); ++i) {
    if (InLowerCase(head.fields[i]) == name) return i;
  }
  Fail("slide: {}: expected the columns wsi and mpp, separated by a comma, in its first line, there is no {}", file,
       name);
}

// Name of a slide, or its path as written, to its scale.
std::map<std::string, double> ReadScales(const std::string& file) {
  const std::string text = ReadFile(file, kMostBytesOfTable);
  io::CsvReader reader(text, file);
  io::CsvRecord record;
  Require(reader.Next(&record), "slide: {}: empty, expected the columns wsi and mpp", file);
  const size_t slide = ColumnOf(record, "wsi", file), mpp = ColumnOf(record, "mpp", file);
  std::map<std::string, double> scales;
  while (reader.Next(&record)) {
    Require(record.fields.size() > std::max(slide, mpp), "slide: {}, line {}: expected wsi and mpp, got {} fields",
            file, record.line, record.fields.size());
    const std::string& number = record.fields[mpp];
    double value = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    Require(error == std::errc() && end == number.data() + number.size() && value > 0 && value < 1000,
            "slide: {}, line {}: expected microns a pixel, such as 0.25, got {}", file, record.line, number);
    scales[record.fields[slide]] = value;
  }
  return scales;
}

void ApplyScales(const std::string& file, std::vector<SlideEntry>& slides, const Note& note) {
  std::map<std::string, double> scales = ReadScales(file);
  std::set<std::string> used;
  for (SlideEntry& slide : slides) {
    for (const std::string& key : {slide.path.string(), slide.path.filename().string(), slide.name}) {
      const auto found = scales.find(key);
      if (found == scales.end()) continue;
      slide.mpp = found->second;
      used.insert(key);
      break;
    }
  }
  if (used.size() == scales.size()) return;
  const auto first = std::ranges::find_if(scales, [&](const auto& scale) { return !used.contains(scale.first); });
  Notify(note, FormatShown("{}: {} of its {} slides are not among these, {} for one", file, scales.size() - used.size(),
                           scales.size(), first->first));
}

}  // namespace

Shard ParseShard(const std::string& text, const std::string& option) {
  Shard shard;
  const size_t slash = text.find('/');
  const char* const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, shard.index);
  const char* const second = slash == std::string::npos ? end : text.data() + slash + 1;
  const auto last = std::from_chars(second, end, shard.count);
  Require(slash != std::string::npos && first.ec == std::errc() && first.ptr == text.data() + slash &&
              last.ec == std::errc() && last.ptr == end && shard.index >= 1 && shard.index <= shard.count,
          "{}: expected a part such as 2/8 (the second of eight), got {}", option, text);
  --shard.index;
  return shard;
}

std::vector<SlideEntry> CollectSlides(const std::vector<std::string>& paths, const std::string& mpp_file,
                                      const Note& note) {
  std::vector<SlideEntry> slides;
  for (const std::string& path : paths) {
    Require(FileExists(path), "slide: {}: no such file or folder", path);
    if (!fs::is_directory(path)) {
      slides.push_back({path, NameOfSlide(path), {}});
      continue;
    }
    const std::vector<SlideEntry> found = FindSlides(path, note);
    if (found.empty()) Notify(note, FormatShown("{}: no slides in this folder", path));
    slides.insert(slides.end(), found.begin(), found.end());
  }
  Require(!slides.empty(), "slide: no slides found; expected files such as .svs, .tif, .ndpi, .mrxs, .scn, .dcm");
  RequireDistinctNames(slides);
  if (!mpp_file.empty()) ApplyScales(mpp_file, slides, note);
  return slides;
}

std::vector<SlideEntry> TakeShard(const std::vector<SlideEntry>& slides, const Shard& shard) {
  std::vector<SlideEntry> taken;
  for (size_t i = static_cast<size_t>(shard.index); i < slides.size(); i += static_cast<size_t>(shard.count)) {
    taken.push_back(slides[i]);
  }
  return taken;
}

}  // namespace qkv::app
