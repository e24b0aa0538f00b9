#include "qkv/train/data/image_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>

#include "qkv/core/error.h"
#include "qkv/core/hash.h"
#include "qkv/core/memory.h"
#include "qkv/core/parallel.h"
#include "qkv/image/background.h"
#include "qkv/train/stopped.h"

namespace qkv::train {
namespace {

namespace fs = std::filesystem;

// Part of the cache key; changes with the format.
constexpr std::string_view kVersion = "qkv images 1\n";

// Approximate bytes per image besides its pixels.
constexpr int64_t kOverhead = 64;

class Hash {
 public:
  Hash& Add(std::string_view text) {
    hash_.Add(text).AddByte(0xFF);  // terminator: 0xFF does not occur in UTF-8
    return *this;
  }
  template <typename T>
  Hash& AddValue(const T& value) {
    return Add({reinterpret_cast<const char*>(&value), sizeof(value)});
  }
  uint64_t value() const { return hash_.value(); }

 private:
  Fnv1a hash_;
};

// Hash of everything that determines a store's bytes except the files' contents.
Hash HashOptions(const Split& split, const StoreOptions& options) {
  Hash hash;
  hash.Add(kVersion).AddValue(options.channels).AddValue(options.shorter_side).AddValue(options.prepare.has_value());
  if (options.prepare) {
    const image::Preprocess& p = *options.prepare;
    for (const int64_t number :
         {int64_t{static_cast<int>(p.resize)}, p.resize_height, p.resize_width, int64_t{static_cast<int>(p.filter)},
          int64_t{static_cast<int>(p.crop)}, p.crop_height, p.crop_width}) {
      hash.AddValue(number);
    }
    for (const uint8_t level : p.fill) hash.AddValue(level);
  }
  if (options.dark_background) hash.Add("dark");
  for (const fs::path& file : split.files) hash.Add(fs::absolute(file).native());
  return hash;
}

// Adds the files' sizes and times. A missing file adds no stamp; reading it fails later.
uint64_t StoreKey(Hash hash, const Split& split) {
  for (const fs::path& file : split.files) {
    FileStamp stamp;
    try {
      stamp = ReadFileStamp(file);
    } catch (const Error&) {
    }
    hash.AddValue(stamp.size).AddValue(stamp.modified).AddValue(stamp.changed).AddValue(stamp.inode);
  }
  return hash.value();
}

// The images exceed the limit.
class TooMuch : public Error {
 public:
  using Error::Error;
};

// Appends to memory, up to `most` bytes; 0: no limit.
class MemorySink : public FileSink {
 public:
  MemorySink(std::vector<std::byte>* memory, double most) : memory_(memory), most_(most) {}
  using FileSink::Write;
  void Write(std::span<const std::byte> bytes) override {
    if (most_ > 0 && static_cast<double>(memory_->size() + bytes.size()) > most_) {
      throw TooMuch(fmt::format("they take more than {} of memory", FormatBytes(most_)));
    }
    memory_->insert(memory_->end(), bytes.begin(), bytes.end());
  }

 private:
  std::vector<std::byte>* memory_;
  double most_;
};

// Writes to a file, up to a limit.
class BoundedSink : public FileSink {
 public:
  BoundedSink(FileSink* sink, double most) : sink_(sink), most_(most) {}
  using FileSink::Write;
  void Write(std::span<const std::byte> bytes) override {
    written_ += static_cast<double>(bytes.size());
    if (written_ > most_) throw TooMuch(fmt::format("they take more than the {} that may be", FormatBytes(most_)));
    sink_->Write(bytes);
  }

 private:
  FileSink* sink_;
  double most_, written_ = 0;
};

// Resize and crop of the training preprocessing on bytes: Apply's own, without conversion to floats.
void Prepare(const image::Preprocess& preprocess, image::Workspace& workspace, image::Image& image) {
  image::Preprocess levels = preprocess;
  levels.rescale = 1;
  levels.mean.clear();
  levels.std.clear();
  const Shape shape = image::OutputShape(levels, image.height(), image.width());
  Tensor<float> planes = Tensor<float>::Uninitialised(shape);
  image::Apply(levels, image, workspace, planes);
  image.pixels.Reuse({shape[1], shape[2], shape[0]});
  const int64_t pixels = shape[1] * shape[2];
  for (int64_t c = 0; c < shape[0]; ++c) {
    for (int64_t i = 0; i < pixels; ++i) {
      image.pixels[i * shape[0] + c] = static_cast<uint8_t>(planes[c * pixels + i]);
    }
  }
}

// True if the split's pixels can be used in place.
bool IsAlreadyStored(const Split& split, const StoreOptions& options) {
  if (!split.files.empty() || options.dark_background) return false;
  const Shape& shape = split.pixels.shape();
  if (shape[3] != options.channels) return false;
  if (!options.prepare) return options.shorter_side == 0 || std::min(shape[1], shape[2]) <= options.shorter_side;
  const image::Preprocess& p = *options.prepare;
  if (image::OutputShape(p, shape[1], shape[2]) != Shape{options.channels, shape[1], shape[2]}) return false;
  // The resize changes nothing if a crop of the same size shows the whole image.
  const image::Rect seen = image::VisibleRect(p, shape[1], shape[2]);
  return seen.top == 0 && seen.left == 0 && seen.height == static_cast<double>(shape[1]) &&
         seen.width == static_cast<double>(shape[2]);
}

// Message between processes about one image of a round: shape and pixels, or height 0 and the reason.
struct Told {
  int64_t height = 0, width = 0;
  uint64_t bytes = 0;
};

// This process has read images [first, last) of the round; afterwards every process has all images.
void Exchange(Communicator& processes, int64_t first, int64_t last, const StoreOptions& options,
              std::vector<image::Image>& images, std::vector<std::string>& errors) {
  std::string own;
  for (auto i = static_cast<size_t>(first); i < static_cast<size_t>(last); ++i) {
    Told told;
    std::string_view bytes = errors[i];
    if (bytes.empty()) {
      told.height = images[i].height(), told.width = images[i].width();
      const std::span<const uint8_t> pixels = images[i].pixels.span();
      if (options.keep) bytes = {reinterpret_cast<const char*>(pixels.data()), pixels.size()};
    }
    told.bytes = bytes.size();
    own.append(reinterpret_cast<const char*>(&told), sizeof(told)).append(bytes);
  }
  size_t i = 0;
  for (const std::string& part : processes.Gather(own)) {
    for (size_t at = 0; at < part.size(); ++i) {
      const auto told = ReadValue<Told>(std::as_bytes(std::span(part)), at);
      at += sizeof(told);
      errors[i] = told.height == 0 ? part.substr(at, told.bytes) : "";
      if (told.height > 0) {
        images[i].pixels.Reuse({told.height, told.width, options.channels});
        std::copy_n(part.data() + at, told.bytes, reinterpret_cast<char*>(images[i].pixels.data()));
      }
      at += told.bytes;
    }
  }
}

}  // namespace

// Buffers of one round of reading, reused by the next.
struct ImageStore::Round {
  std::vector<image::Workspace> lanes;  // [threads]
  std::vector<image::Image> images;     // [images of a round]
  std::vector<std::string> errors;      // [images of a round], empty where an image was read
};

ImageStore::~ImageStore() = default;

ImageStore::ImageStore(const Split& split, StoreOptions options) : split_(split), options_(std::move(options)) {
  Require(options_.channels == 1 || options_.channels == 3, "images: a model has 1 or 3 channels, not {}",
          options_.channels);
  Require(!options_.prepare || options_.prepare->channels == options_.channels,
          "images: prepared with {} channels, expected {}", options_.prepare ? options_.prepare->channels : 0,
          options_.channels);
  Require(split.size() > 0, "images: the {} split is empty", split.name);
  if (IsAlreadyStored(split_, options_)) {
    const Shape& shape = split_.pixels.shape();
    const auto bytes = static_cast<size_t>(shape[1] * shape[2] * shape[3]);
    bytes_ = std::as_bytes(split_.pixels.span());
    for (int64_t i = 0; i < split_.size(); ++i) {
      entries_.push_back(
          {i, split_.labels[static_cast<size_t>(i)], static_cast<size_t>(i) * bytes, shape[1], shape[2]});
    }
    options_.keep = true;
    return;
  }
  Assembly assembly = Begin();
  if (!options_.cache.empty() && options_.keep && !split_.files.empty() && KeepInCache(assembly)) return;
  KeepInMemory(assembly);
}

ImageStore::Assembly ImageStore::Begin() const {
  Assembly assembly;
  assembly.index.records.resize(static_cast<size_t>(split_.size()));
  assembly.end = FirstPixel();
  return assembly;
}

void ImageStore::Note(const std::string& text) const {
  if (options_.note && (options_.processes == nullptr || options_.processes->first())) options_.note(text);
}

// If nothing was read yet, keeps the pixels; otherwise only records which files are readable.
void ImageStore::KeepInMemory(Assembly& assembly) {
  const double most = options_.memory_bytes;
  const bool fits = most == 0 || options_.expected_bytes <= most;
  bool kept = options_.keep && assembly.next == 0 && fits;
  if (options_.keep && !fits) {
    Note(fmt::format("decoded images of {} would take about {}: none is kept, each is decoded whenever it is needed",
                     split_.name, FormatBytes(options_.expected_bytes)));
  }
  if (kept) {
    MemorySink sink(&memory_, most);
    if (options_.prepare) {
      const std::optional<Shape> shape = image::FixedShape(*options_.prepare);
      if (shape) memory_.reserve(static_cast<size_t>(split_.size() * (shape->size() + kOverhead)));
    }
    try {
      BeginImages(sink, 0);
      Assemble(assembly, &sink);
    } catch (const TooMuch& error) {
      Note(FormatShown("decoded images of {} are not kept: {}; each is decoded whenever it is needed", split_.name,
                       error.what()));
      kept = false;
    }
  }
  Assemble(assembly, nullptr);
  options_.keep = InAllProcesses(kept);
  if (!options_.keep) memory_ = {};
  Use(assembly.index, memory_);
}

// Returns true if the images are in the cache file. Otherwise `assembly` has what was read.
bool ImageStore::KeepInCache(Assembly& assembly) {
  const Hash hash = HashOptions(split_, options_);
  const uint64_t key = StoreKey(hash, split_);
  const fs::path file = options_.cache / ImageCacheName(split_.name, hash.value());
  if (InAllProcesses(OpenCache(file, key))) {
    from_cache_ = true;
    return true;
  }
  if (InAllProcesses(WriteCache(file, key, assembly)) && InAllProcesses(OpenCache(file, key))) return true;
  if (assembly.next > 0) {
    Note(FormatShown("decoded images of {} are not kept in {}: each is decoded whenever it is needed", split_.name,
                     options_.cache.string()));
  }
  return false;
}

// Every process calls this; only rank 0 writes, the others read along.
bool ImageStore::WriteCache(const fs::path& file, uint64_t key, Assembly& assembly) {
  const bool writes = options_.processes == nullptr || options_.processes->first();
  std::optional<ImageCacheFolder> folder;
  std::string why;
  try {
    if (writes) folder.emplace(options_.cache, options_.cache_bytes, options_.expected_bytes);
    if (folder && options_.expected_bytes > folder->room()) {
      why = fmt::format("they would take about {}, and {} may be used", FormatBytes(options_.expected_bytes),
                        FormatBytes(std::max(0.0, folder->room())));
    }
  } catch (const Error& error) {
    why = error.what();
  }
  if (!InAllProcesses(why.empty())) {
    Note(FormatShown("decoded images of {} are not kept in {}: {}", split_.name, options_.cache.string(), why));
    return false;
  }
  if (!writes) {
    Assemble(assembly, nullptr);
    return true;
  }
  const std::string about =
      options_.expected_bytes > 0 ? fmt::format(", about {}", FormatBytes(options_.expected_bytes)) : "";
  Note(FormatShown("decoded images of {} are kept in {}{} (--cache nowhere keeps none)", split_.name,
                   options_.cache.string(), about));
  try {
    WriteFile(file, [&](FileSink& plain) {
      BoundedSink sink(&plain, folder->room());
      BeginImages(sink, key);
      Assemble(assembly, &sink);
      FinishImages(sink, key, assembly.index, assembly.end);
    });
    return true;
  } catch (const Stopped&) {
    throw;
  } catch (const Error& error) {
    Note(FormatShown("{}: {}", file.string(), error.what()));
  }
  Assemble(assembly, nullptr);
  return false;
}

// True if the condition holds in all processes.
bool ImageStore::InAllProcesses(bool here) const {
  if (options_.processes == nullptr) return here;
  double sum = here ? 1 : 0;
  options_.processes->Sum({&sum, 1});
  return sum == static_cast<double>(options_.processes->size());
}

// Returns false if the file is missing, damaged, unreadable, or has another key.
bool ImageStore::OpenCache(const fs::path& file, uint64_t key) {
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) return false;
  ImageIndexLimits limits{
      .key = key, .files = static_cast<size_t>(split_.size()), .channels = options_.channels, .height = 0, .width = 0};
  if (options_.prepare) {
    if (const std::optional<Shape> shape = image::FixedShape(*options_.prepare)) {
      limits.height = (*shape)[1], limits.width = (*shape)[2];
    }
  }
  std::optional<ImageIndex> index;
  try {
    file_ = MappedFile(file);
    file_path_ = file;
    index = ParseImages(file_.bytes(), limits);
    file_.RequireUnchanged(file.native());
  } catch (const Error&) {
    return false;
  }
  if (index) Use(*index, file_.bytes());
  return index.has_value();
}

void ImageStore::Use(const ImageIndex& index, std::span<const std::byte> bytes) {
  entries_.clear();
  unreadable_ = index.reasons;
  for (size_t i = 0; i < index.records.size(); ++i) {
    const ImageRecord& record = index.records[i];
    if (record.height == 0) continue;
    entries_.push_back({static_cast<int64_t>(i), split_.labels[i], record.offset, record.height, record.width});
  }
  Require(!entries_.empty(), "none of the {} images of the {} split can be read; the first: {}", split_.size(),
          split_.name, unreadable_.empty() ? "" : unreadable_[0]);
  bytes_ = bytes;
}

void ImageStore::Read(int64_t source, image::Workspace& workspace, image::Image& image) const {
  if (!split_.files.empty()) {
    image::DecodeFile(split_.files[static_cast<size_t>(source)], {}, workspace, image);
  } else {
    const View<const uint8_t> pixels = split_.pixels.view()[source];
    image.pixels.Reuse(pixels.shape());
    std::copy_n(pixels.data(), pixels.size(), image.pixels.data());
  }
  if (options_.dark_background && image::HasBrightBorder(image)) {
    image::Invert(image, workspace.negative);
    std::swap(image, workspace.negative);
  }
  if (image.channels() != options_.channels) {
    image::ToChannels(image, options_.channels, workspace.converted);
    std::swap(image, workspace.converted);
  }
  if (options_.prepare) {
    Prepare(*options_.prepare, workspace, image);
  } else if (const int64_t shorter = std::min(image.height(), image.width());
             options_.shorter_side > 0 && shorter > options_.shorter_side) {
    const double scale = static_cast<double>(options_.shorter_side) / static_cast<double>(shorter);
    const auto scaled = [&](int64_t side) {
      return std::max<int64_t>(1, std::llround(scale * static_cast<double>(side)));
    };
    image::Image& resized =
        image::Resize(image, scaled(image.height()), scaled(image.width()), image::Filter::kLanczos, workspace);
    std::swap(image, resized);
  }
}

// Reads files [begin, begin + count) of the split into round_, in parallel.
void ImageStore::ReadRound(int64_t begin, int64_t count) {
  Communicator* const processes = options_.processes;
  const int64_t rank = processes ? processes->rank() : 0, size = processes ? processes->size() : 1;
  const int64_t first = count * rank / size, last = count * (rank + 1) / size;
  ParallelTasks(last - first, [&](int64_t task, int thread) {
    if (options_.stop && options_.stop()) return;
    const auto i = static_cast<size_t>(first + task);
    std::string& error = round_->errors[i];
    error.clear();
    try {
      Read(begin + first + task, round_->lanes[static_cast<size_t>(thread)], round_->images[i]);
    } catch (const Error& caught) {
      error = caught.what();
    }
  });
  // Stop here, so that an unread image is not recorded as read.
  if (!InAllProcesses(!options_.stop || !options_.stop())) throw Stopped();
  if (processes) Exchange(*processes, first, last, options_, round_->images, round_->errors);
}

// Reads the remaining files, a few rounds of threads at a time, and stores them in order. A null sink stores no pixels.
// If the sink throws, `assembly` still has what was read.
void ImageStore::Assemble(Assembly& assembly, FileSink* sink) {
  constexpr int64_t kRound = 16;   // images per thread: the end of a round waits for the slowest
  constexpr int64_t kShared = 32;  // images per process
  // With several processes, the same for all, whatever their numbers of threads.
  const int64_t total = split_.size();
  const int64_t round = options_.processes ? kShared * options_.processes->size() : kRound * NumThreads();
  round_ = std::make_unique<Round>(Round{.lanes = std::vector<image::Workspace>(static_cast<size_t>(NumThreads())),
                                         .images = std::vector<image::Image>(static_cast<size_t>(round)),
                                         .errors = std::vector<std::string>(static_cast<size_t>(round))});
  while (assembly.next < total) {
    const int64_t begin = assembly.next, count = std::min(round, total - begin);
    ReadRound(begin, count);
    uint64_t end = assembly.end;
    for (int64_t i = 0; i < count; ++i) {
      std::string error = round_->errors[static_cast<size_t>(i)];
      if (!error.empty()) {
        const std::string name = split_.SampleName(begin + i);
        if (error.find(name) == error.npos) error = FormatShown("{}: {}", name, error);
        std::ranges::replace(error, '\n', ' ');
        assembly.index.reasons.push_back(std::move(error));
        continue;
      }
      const Tensor<uint8_t>& pixels = round_->images[static_cast<size_t>(i)].pixels;
      assembly.index.records[static_cast<size_t>(begin + i)] = {end, pixels.dim(0), pixels.dim(1)};
      end += static_cast<uint64_t>(pixels.size());
    }
    assembly.next += count;
    for (int64_t i = 0; sink != nullptr && i < count; ++i) {
      if (round_->errors[static_cast<size_t>(i)].empty()) {
        sink->Write(std::as_bytes(round_->images[static_cast<size_t>(i)].pixels.span()));
      }
    }
    assembly.end = end;
    if (options_.progress) options_.progress(assembly.next, total);
  }
  round_.reset();
}

void ImageStore::Get(int64_t i, image::Workspace& workspace, image::Image& image) const {
  const Entry& entry = entries_[static_cast<size_t>(i)];
  if (!options_.keep) return Read(entry.source, workspace, image);
  image.pixels.Reuse({entry.height, entry.width, options_.channels});
  std::memcpy(image.pixels.data(), bytes_.data() + entry.offset, static_cast<size_t>(image.pixels.size()));
  file_.RequireUnchanged(file_path_.native());
}

}  // namespace qkv::train
