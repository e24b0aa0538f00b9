#include "qkv/app/vectors/vector_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <system_error>
#include <utility>

#include "qkv/core/checksum.h"
#include "qkv/core/file.h"
#include "qkv/core/hash.h"
#include "qkv/io/npy.h"
#include "qkv/io/safetensors.h"

namespace qkv::app {
namespace {

// Limit of the file that says what made the vectors.
constexpr size_t kMaxSourceBytes = size_t{1} << 20;
constexpr std::string_view kNpy = ".npy";

std::string_view WithoutEnding(std::string_view npy) { return npy.substr(0, npy.size() - kNpy.size()); }

// Checksum of all bytes, or of kPlaces parts at equal distances including both ends: a file of vectors of other images
// differs in all of its parts, and search need not read it twice.
uint64_t SumOfParts(std::span<const std::byte> bytes) {
  constexpr size_t kWhole = size_t{16} << 20, kPlaces = 256, kPart = 4096;
  if (bytes.size() <= kWhole) return Checksum(bytes);
  uint64_t sum = bytes.size();
  for (size_t i = 0; i < kPlaces; ++i) {
    const size_t at = (bytes.size() - kPart) / (kPlaces - 1) * i;
    sum = CombineChecksums(sum, Checksum(i + 1 == kPlaces ? bytes.last(kPart) : bytes.subspan(at, kPart)));
  }
  return sum;
}

bool HasVectors(const io::StoredTensor& tensor) {
  const bool number = tensor.dtype == DType::kF16 || tensor.dtype == DType::kBF16 || tensor.dtype == DType::kF32 ||
                      tensor.dtype == DType::kF64;
  return number && tensor.shape.rank() == 2 && tensor.shape[1] >= 1;
}

}  // namespace

std::string PathsFileOf(std::string_view npy) { return fmt::format("{}.paths.txt", WithoutEnding(npy)); }
std::string SourceFileOf(std::string_view npy) { return fmt::format("{}.model.json", WithoutEnding(npy)); }

std::string NameOnOneLine(const std::string& name) {
  if (name.find_first_of("\n\r\\") == name.npos) return name;
  std::string line = "\\";
  for (const char c : name) {
    if (c == '\n') {
      line += "\\n";
    } else if (c == '\r') {
      line += "\\r";
    } else {
      line += c == '\\' ? "\\\\" : std::string(1, c);
    }
  }
  return line;
}

VectorMarks VectorMarks::Of(const io::StoredTensor& vectors, const std::vector<std::string>& paths) {
  const std::string lines = PathLines(paths);
  const uint64_t shape = Fnv1a().Add(FormatShown("{} {}", qkv::Name(vectors.dtype), vectors.shape)).value();
  return {fmt::format("{:016x}", CombineChecksums(shape, SumOfParts(vectors.bytes))),
          fmt::format("{:016x}", Checksum(std::as_bytes(std::span(lines))))};
}

io::Json ToJson(const EmbeddingSource& source, const VectorMarks& marks) {
  io::Json json = ToJson(source);
  json["vectors"] = marks.vectors, json["paths"] = marks.paths;
  return json;
}

std::string PathLines(const std::vector<std::string>& paths) {
  std::string lines;
  for (const std::string& path : paths) lines += NameOnOneLine(path) + "\n";
  return lines;
}

std::vector<std::string> ParsePathLines(std::string_view text) {
  std::vector<std::string> names;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    std::string& name = names.emplace_back();
    if (!line.starts_with('\\')) {
      name = line;
      continue;
    }
    line.remove_prefix(1);
    for (size_t i = 0; i < line.size(); ++i) {
      const bool escaped = line[i] == '\\' && i + 1 < line.size();
      const char c = line[i += escaped ? 1 : 0];
      name += !escaped ? c : c == 'n' ? '\n' : c == 'r' ? '\r' : c;
    }
  }
  return names;
}

VectorFile VectorFile::Open(const std::string& file) {
  VectorFile vectors;
  vectors.file_ = file;
  const std::string& where = file;
  const bool npy = file.ends_with(kNpy);
  Require(npy || file.ends_with(".safetensors"),
          "search: expected a file .npy or .safetensors that qkv embed wrote, got {}", where);
  if (npy) {
    Require(FileExists(file) || !FileExists(SourceFileOf(file)),
            "{}: No such file, but {} is there: writing them was interrupted; embed the images again", where,
            SourceFileOf(file));
    vectors.tensors_ = io::MapNpy(file);
  } else {
    io::SafeTensors::AddFile(file, &vectors.tensors_);
    vectors.tensors_.Finish(where);
    const std::vector<io::StoredTensor>& all = vectors.tensors_.tensors();
    const auto found = std::ranges::find(all, "embeddings", &io::StoredTensor::name);
    Require(found != all.end() || all.size() == 1, "{}: expected a tensor \"embeddings\", as qkv embed -o writes it",
            where);
    if (found != all.end()) vectors.index_ = static_cast<size_t>(found - all.begin());
  }
  const io::StoredTensor& array = vectors.vectors();
  Require(array.shape.rank() != 3, "{}: all tokens of images, {}; expected a vector each: embed without --pool tokens",
          where, array.shape);
  Require(HasVectors(array), "{}: {} of {}, expected vectors [images, width] of floating-point numbers", where,
          array.shape, qkv::Name(array.dtype));
  if (npy) {
    vectors.ReadBeside(file);
  } else {
    vectors.ReadMetadata(where);
  }
  Require(vectors.paths_.empty() || std::ssize(vectors.paths_) == vectors.count(),
          "{}: {} names for {} vectors; embed the images again", where, vectors.paths_.size(), vectors.count());
  vectors.RequireTogether(file);
  return vectors;
}

void VectorFile::ReadBeside(const std::string& file) {
  if (const std::string beside = PathsFileOf(file); FileExists(beside)) paths_ = ParsePathLines(ReadFile(beside));
  if (const std::string beside = SourceFileOf(file); FileExists(beside)) {
    ReadSource(ReadFile(beside, kMaxSourceBytes), beside);
  }
}

void VectorFile::ReadSource(std::string_view json, const std::string& where) {
  source_ = ParseEmbeddingSource(json, where);
  const io::Json object = io::ParseJson(json, where);
  if (const auto from = object.find("from"); from != object.end() && from->is_string()) {
    from_ = from->get<std::string>();
  }
  for (const auto& [key, to] : {std::pair("vectors", &marks_.vectors), std::pair("paths", &marks_.paths)}) {
    const auto found = object.find(key);
    if (found == object.end()) continue;
    Require(found->is_string(), "{}: expected a text \"{}\", got {}", where, key, found->type_name());
    *to = found->get<std::string>();
  }
  Require(marks_.vectors.empty() == marks_.paths.empty(), "{}: expected \"vectors\" and \"paths\", got one of them",
          where);
}

void VectorFile::RequireTogether(const std::string& file) const {
  if (marks_.vectors.empty()) return;
  const VectorMarks marks = VectorMarks::Of(vectors(), paths_);
  if (marks == marks_) return;
  const bool npy = file.ends_with(kNpy);
  const std::string source = npy ? SourceFileOf(file) : "its metadata";
  const char* what = marks.vectors != marks_.vectors ? "vectors"
                     : paths_.empty()                ? "names, which are missing"
                                                     : "names";
  Fail(
      "{}: {} belongs to other {}: writing them was interrupted, or one of the files was replaced or edited; embed "
      "the images again{}",
      file, source, what,
      npy ? FormatShown(", or remove {} if these vectors and names are meant", source) : std::string());
}

void VectorFile::ReadMetadata(std::string_view where) {
  const auto& metadata = tensors_.metadata();
  if (const auto found = metadata.find("paths"); found != metadata.end()) {
    const io::Json names = io::ParseJson(found->second, where);
    Require(names.is_array() && std::ranges::all_of(names, [](const io::Json& name) { return name.is_string(); }),
            "{}: the metadata \"paths\" is no list of names", where);
    paths_ = names.get<std::vector<std::string>>();
  }
  if (const auto found = metadata.find("source"); found != metadata.end()) {
    ReadSource(found->second, std::string(where));
  }
}

std::string VectorFile::Resolve(const std::string& path) const {
  namespace fs = std::filesystem;
  std::error_code missing;
  if (path.empty() || from_.empty() || fs::path(path).is_absolute() || fs::exists(path, missing)) {
    return path;
  }
  const fs::path moved = (fs::path(file_).parent_path() / from_ / path).lexically_normal();
  return fs::exists(moved, missing) ? moved.string() : path;
}

std::string VectorFile::Name(int64_t row) const {
  return paths_.empty() ? fmt::format("row {}", row) : paths_[static_cast<size_t>(row)];
}

}  // namespace qkv::app
