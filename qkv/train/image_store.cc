// What is kept is one run of bytes, in memory or in a file:
//
//   Header | pixels, one image after the other | Record for every file | why files could not be read, a line each |
//   Footer
//
// Numbers are the machine's own: a cache is no format to pass on.
#include "qkv/train/image_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>

#include "qkv/core/error.h"
#include "qkv/core/hash.h"
#include "qkv/core/parallel.h"
#include "qkv/image/background.h"

namespace qkv::train {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "qkv images 1\n";

struct Header {
  char magic[16];
  uint64_t key;
};
struct Record {
  uint64_t offset = 0;
  int64_t height = 0, width = 0;  // 0: unreadable
};
struct Footer {
  uint64_t records, offset, reasons;  // how many; where they begin; bytes of the lines behind them
  uint64_t key;                       // once more: the file is whole
};

// Bytes for each image beside its pixels, about.
constexpr int64_t kOverhead = 64;
// No image has longer sides: a damaged cache is found out before they are multiplied.
constexpr int64_t kMaxSide = int64_t{1} << 24;

class Hash {
 public:
  Hash& Add(std::string_view text) {
    hash_.Add(text).AddByte(0xFF);  // no byte of UTF-8: texts end here
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

// Of what makes one store's bytes differ from another's, the files' contents aside.
Hash HashOf(const Split& split, const StoreOptions& options) {
  Hash hash;
  hash.Add(kMagic).AddValue(options.channels).AddValue(options.shorter_side).AddValue(options.prepare.has_value());
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

// The same with the files as they are now. One that is missing has no stamp, and will be found unreadable.
uint64_t KeyOf(Hash hash, const Split& split) {
  for (const fs::path& file : split.files) {
    FileStamp stamp;
    try {
      stamp = StampOf(file);
    } catch (const Error&) {
    }
    hash.AddValue(stamp.size).AddValue(stamp.modified).AddValue(stamp.changed).AddValue(stamp.inode);
  }
  return hash.value();
}

class MemorySink : public FileSink {
 public:
  explicit MemorySink(std::vector<std::byte>* memory) : memory_(memory) {}
  using FileSink::Write;
  void Write(std::span<const std::byte> bytes) override { memory_->insert(memory_->end(), bytes.begin(), bytes.end()); }

 private:
  std::vector<std::byte>* memory_;
};

class NoSink : public FileSink {
 public:
  void Write(std::span<const std::byte>) override {}
};

template <typename T>
void WriteValue(FileSink& sink, const T& value) {
  sink.Write(std::as_bytes(std::span(&value, 1)));
}

template <typename T>
T ReadValue(std::span<const std::byte> bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

// The training geometry in bytes: Apply's own resize and crop, without what makes floats of it.
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

// Whether what a split holds can be used as it lies.
bool IsKeptAlready(const Split& split, const StoreOptions& options) {
  if (!split.files.empty() || options.dark_background) return false;
  const Shape& shape = split.pixels.shape();
  if (shape[3] != options.channels) return false;
  if (!options.prepare) return options.shorter_side == 0 || std::min(shape[1], shape[2]) <= options.shorter_side;
  const image::Preprocess& p = *options.prepare;
  if (image::OutputShape(p, shape[1], shape[2]) != Shape{options.channels, shape[1], shape[2]}) return false;
  // Its resize leaves the image as it is when a crop to the same size shows all of it.
  const image::Rect seen = image::SeenOf(p, shape[1], shape[2]);
  return seen.top == 0 && seen.left == 0 && seen.height == static_cast<double>(shape[1]) &&
         seen.width == static_cast<double>(shape[2]);
}

// What processes tell each other of the images of a round: its shape and its pixels, or a height of 0 and why not.
struct Told {
  int64_t height = 0, width = 0;
  uint64_t bytes = 0;
};

// Images [first, last) of a round are this process's. All get those of the others.
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

ImageStore::ImageStore(const Split& split, StoreOptions options) : split_(split), options_(std::move(options)) {
  Require(options_.channels == 1 || options_.channels == 3, "images: a model has 1 or 3 channels, not {}",
          options_.channels);
  Require(!options_.prepare || options_.prepare->channels == options_.channels,
          "images: prepared with {} channels, expected {}", options_.prepare ? options_.prepare->channels : 0,
          options_.channels);
  Require(split.size() > 0, "images: the {} split is empty", split.name);
  if (IsKeptAlready(split_, options_)) {
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
  if (options_.cache.empty() || !options_.keep || split_.files.empty()) {
    MemorySink sink(&memory_);
    if (options_.prepare && options_.keep) {
      const std::optional<Shape> shape = image::FixedShape(*options_.prepare);
      if (shape) memory_.reserve(static_cast<size_t>(split_.size() * (shape->size() + kOverhead)));
    }
    Assemble(sink, 0);
    Require(Open(memory_, 0), "images: what was kept cannot be read");
    return;
  }
  const Hash hash = HashOf(split_, options_);
  const uint64_t key = KeyOf(hash, split_);
  const fs::path file = options_.cache / fmt::format("{}-{:016x}.images", split_.name, hash.value());
  if (InAll(OpenCache(file, key))) {
    from_cache_ = true;
    return;
  }
  if (options_.processes == nullptr || options_.processes->first()) {
    fs::create_directories(options_.cache);
    WriteFile(file, [&](FileSink& sink) { Assemble(sink, key); });
    InAll(true);
  } else {
    NoSink sink;
    Assemble(sink, key);
    InAll(true);  // the first has written it
  }
  Require(OpenCache(file, key),
          "{}: changed while it was written, or not the same for all processes: the cache must be in a folder that all "
          "share, or in memory",
          file.string());
}

// Whether something holds in all processes.
bool ImageStore::InAll(bool here) const {
  if (options_.processes == nullptr) return here;
  double sum = here ? 1 : 0;
  options_.processes->Sum({&sum, 1});
  return sum == static_cast<double>(options_.processes->size());
}

bool ImageStore::OpenCache(const fs::path& file, uint64_t key) {
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) return false;
  file_ = MappedFile(file);
  return Open(file_.bytes(), key);
}

bool ImageStore::Open(std::span<const std::byte> bytes, uint64_t key) {
  if (bytes.size() < sizeof(Header) + sizeof(Footer)) return false;
  const auto header = ReadValue<Header>(bytes, 0);
  const auto footer = ReadValue<Footer>(bytes, bytes.size() - sizeof(Footer));
  const size_t end = bytes.size() - sizeof(Footer);
  if (std::string_view(header.magic) != kMagic || header.key != key || footer.key != key) return false;
  if (footer.records != static_cast<uint64_t>(split_.size()) || footer.offset > end ||
      footer.reasons > end - footer.offset ||
      (end - footer.offset - footer.reasons) != footer.records * sizeof(Record)) {
    return false;
  }
  entries_.clear();
  unreadable_.clear();
  for (size_t i = 0; i < footer.records; ++i) {
    const auto record = ReadValue<Record>(bytes, footer.offset + i * sizeof(Record));
    if (record.height == 0) continue;
    if (record.height < 0 || record.height > kMaxSide || record.width < 1 || record.width > kMaxSide) return false;
    const auto pixels =
        static_cast<size_t>(record.height) * static_cast<size_t>(record.width) * static_cast<size_t>(options_.channels);
    if (options_.keep && (record.offset > footer.offset || pixels > footer.offset - record.offset)) return false;
    entries_.push_back({static_cast<int64_t>(i), split_.labels[i], record.offset, record.height, record.width});
  }
  std::string_view reasons(reinterpret_cast<const char*>(bytes.data()) + end - footer.reasons, footer.reasons);
  while (!reasons.empty()) {
    const std::string_view line = reasons.substr(0, reasons.find('\n'));
    unreadable_.emplace_back(line);
    reasons.remove_prefix(std::min(reasons.size(), line.size() + 1));
  }
  Require(!entries_.empty(), "none of the {} images of the {} split can be read; the first: {}", split_.size(),
          split_.name, unreadable_.empty() ? "" : unreadable_[0]);
  bytes_ = bytes;
  return true;
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

// Images are read side by side, a few rounds of threads at a time, and kept in their order.
void ImageStore::Assemble(FileSink& sink, uint64_t key) {
  constexpr int64_t kRound = 16;   // images for each thread: the last of a round are waited for
  constexpr int64_t kShared = 32;  // images for each process
  struct Lane {
    image::Workspace workspace;
  };
  Communicator* const processes = options_.processes;
  // Of several processes the same for all, however many threads each has.
  const int64_t total = split_.size(), round = processes ? kShared * processes->size() : kRound * NumThreads();
  std::vector<Lane> lanes(static_cast<size_t>(NumThreads()));
  std::vector<image::Image> images(static_cast<size_t>(round));
  std::vector<std::string> errors(static_cast<size_t>(round));
  std::vector<Record> records(static_cast<size_t>(total));
  std::string reasons;
  Header header{.key = key};
  kMagic.copy(header.magic, kMagic.size());
  WriteValue(sink, header);
  uint64_t offset = sizeof(header);
  for (int64_t begin = 0; begin < total; begin += round) {
    const int64_t count = std::min(round, total - begin);
    const int64_t rank = processes ? processes->rank() : 0, size = processes ? processes->size() : 1;
    const int64_t first = count * rank / size, last = count * (rank + 1) / size;
    ParallelTasks(last - first, [&](int64_t task, int thread) {
      const int64_t i = first + task;
      std::string& error = errors[static_cast<size_t>(i)];
      error.clear();
      try {
        Read(begin + i, lanes[static_cast<size_t>(thread)].workspace, images[static_cast<size_t>(i)]);
      } catch (const Error& caught) {
        error = caught.what();
      }
    });
    if (processes) Exchange(*processes, first, last, options_, images, errors);
    for (int64_t i = 0; i < count; ++i) {
      std::string error = errors[static_cast<size_t>(i)];
      if (!error.empty()) {
        const std::string name = split_.NameOf(begin + i);
        if (error.find(name) == error.npos) error = name + ": " + error;
        std::ranges::replace(error, '\n', ' ');
        reasons += error + '\n';
        continue;
      }
      const Tensor<uint8_t>& pixels = images[static_cast<size_t>(i)].pixels;
      records[static_cast<size_t>(begin + i)] = {offset, pixels.dim(0), pixels.dim(1)};
      if (!options_.keep) continue;
      sink.Write(std::as_bytes(pixels.span()));
      offset += static_cast<uint64_t>(pixels.size());
    }
    if (options_.progress) options_.progress(begin + count, total);
  }
  sink.Write(std::as_bytes(std::span(records)));
  sink.Write(reasons);
  WriteValue(sink, Footer{records.size(), offset, reasons.size(), key});
}

void ImageStore::Get(int64_t i, image::Workspace& workspace, image::Image& image) const {
  const Entry& entry = entries_[static_cast<size_t>(i)];
  if (!options_.keep) return Read(entry.source, workspace, image);
  image.pixels.Reuse({entry.height, entry.width, options_.channels});
  std::memcpy(image.pixels.data(), bytes_.data() + entry.offset, static_cast<size_t>(image.pixels.size()));
}

}  // namespace qkv::train
