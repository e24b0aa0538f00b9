#include "cli/images.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <condition_variable>
#include <cstdio>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>

#include "cli/progress.h"
#include "qkv/core/parallel.h"

namespace qkv::cli {
namespace fs = std::filesystem;
namespace {

constexpr size_t kMaxStdinBytes = size_t{1} << 30, kStdinBlock = size_t{1} << 16;

image::Image ReadStdin(const image::DecodeOptions& options) {
  std::string bytes;
  for (size_t got = 1; got > 0;) {
    const size_t end = bytes.size();
    Require(end < kMaxStdinBytes, "-: more than {} bytes on stdin", kMaxStdinBytes);
    bytes.resize(end + kStdinBlock);
    got = std::fread(bytes.data() + end, 1, kStdinBlock, stdin);
    bytes.resize(end + got);
  }
  return image::Decode(std::as_bytes(std::span(bytes)), options, "-");
}

// Decodes and preprocesses files on threads of its own, at most `ahead` files before the one that is asked for.
class Loader {
 public:
  struct Loaded {
    Tensor<float> pixels;  // [1, channels, height, width], or empty
    std::string error;
  };

  Loader(const std::vector<fs::path>& files, const image::DecodeOptions& decode, const model::Model& model, int threads,
         size_t ahead)
      : files_(files), decode_(decode), model_(model), ahead_(ahead) {
    try {
      for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Work(); });
    } catch (const std::system_error&) {  // no more threads to be had: one is enough
      if (threads_.empty()) throw;
    }
  }
  ~Loader() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
  }

  /// The file at `index`; to be asked for in order.
  Loaded Take(size_t index) {
    std::unique_lock lock(mutex_);
    taken_ = index;
    changed_.notify_all();
    changed_.wait(lock, [&] { return done_.contains(index); });
    return std::move(done_.extract(index).mapped());
  }

 private:
  void Work() {
    for (;;) {
      size_t index;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return stopped_ || next_ >= files_.size() || next_ <= taken_ + ahead_; });
        if (stopped_ || next_ >= files_.size()) return;
        index = next_++;
      }
      Loaded loaded;
      try {
        const image::Image image =
            files_[index] == "-" ? ReadStdin(decode_) : image::DecodeFile(files_[index], decode_);
        loaded.pixels = model_.Pixels(image);
      } catch (const std::exception& error) {
        loaded.error = error.what();
        const std::string path = files_[index].string();
        if (loaded.error.find(path) == std::string::npos) loaded.error = path + ": " + loaded.error;
      }
      {
        const std::lock_guard lock(mutex_);
        done_.emplace(index, std::move(loaded));
      }
      changed_.notify_all();
    }
  }

  const std::vector<fs::path>& files_;
  const image::DecodeOptions decode_;
  const model::Model& model_;
  const size_t ahead_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<size_t, Loaded> done_;
  size_t next_ = 0, taken_ = 0;
  bool stopped_ = false;
  std::vector<std::jthread> threads_;  // last: joined before the rest is destroyed
};

}  // namespace

void ImageOptions::AddTo(CLI::App& command, bool required) {
  auto* option = command.add_option("PATH", paths, "Images, folders of images (read recursively), or - for stdin");
  if (required) option->required();
  command.add_option("--batch", batch, "Images computed together")->check(CLI::Range(1, 4096))->capture_default_str();
  command.add_flag("--ignore-exif", ignore_exif, "Do not turn images by their EXIF orientation");
  command.add_option("--window", window, "Grey levels that become black and white (medical images, up to 16 bits)")
      ->type_name("LOW,HIGH");
  command.add_option("--max-pixels", max_pixels, "Refuse larger images before decoding them")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40))
      ->type_name("N");
  command.add_flag("-q,--quiet", quiet, "No progress line");
}

image::DecodeOptions ImageOptions::Decode() const {
  image::DecodeOptions options;
  options.exif_orientation = !ignore_exif;
  options.max_pixels = max_pixels;
  if (!window.empty()) {
    double low = 0, high = 0;
    const char* const end = window.data() + window.size();
    const auto first = std::from_chars(window.data(), end, low);
    const bool comma = first.ec == std::errc() && first.ptr != end && *first.ptr == ',';
    const auto second = comma ? std::from_chars(first.ptr + 1, end, high) : first;
    Require(comma && second.ec == std::errc() && second.ptr == end && low < high,
            "--window: expected LOW,HIGH with LOW below HIGH, such as 0,4095, got \"{}\"", window);
    options.window = {low, high};
  }
  return options;
}

ImageList CollectImages(const std::vector<std::string>& paths) {
  ImageList images;
  std::string problems;
  for (const std::string& path : paths) {
    if (path == "-" || !fs::is_directory(path)) {
      images.files.emplace_back(path);  // one that is missing fails like one that is broken
      continue;
    }
    const size_t begin = images.files.size();
    std::error_code error;
    for (fs::recursive_directory_iterator entry(path, fs::directory_options::skip_permission_denied, error), end;
         !error && entry != end; entry.increment(error)) {
      std::error_code ignored;
      if (image::HasImageEnding(entry->path()) && !entry->is_directory(ignored)) images.files.push_back(entry->path());
    }
    std::sort(images.files.begin() + static_cast<int64_t>(begin), images.files.end());
    if (images.files.size() > begin && !error) continue;
    problems +=
        fmt::format("{}{}: {}", problems.empty() ? "" : "\n", path,
                    error ? error.message() : "no images in this folder (JPEG, PNG, WebP, GIF, BMP, TIFF, PPM)");
    ++images.failed;
  }
  Require(!images.files.empty(), "{}", problems);
  if (!problems.empty()) fmt::print(stderr, "qkv: {}\n", problems);
  return images;
}

int ForEachBatch(const ImageOptions& options, const ImageList& images, const model::Model& model,
                 const std::function<void(const Batch&)>& use) {
  const int64_t channels = model.config().channels;
  Require(channels == 1 || channels == 3,
          "the model takes {} channels, images have 1 or 3; give its pixels by qkv run --input", channels);
  const std::vector<fs::path>& files = images.files;
  Progress progress(static_cast<int64_t>(files.size()), "images", options.quiet);
  const auto threads = static_cast<int>(std::min<size_t>(files.size(), static_cast<size_t>(NumThreads())));
  // One batch computes while the next is decoded.
  Loader loader(files, options.Decode(), model, threads, 2 * static_cast<size_t>(options.batch));
  Batch batch;
  Shape shape;
  int failed = images.failed;
  const auto flush = [&] {
    if (batch.paths.empty()) return;
    const auto count = static_cast<int64_t>(batch.paths.size());
    batch.pixels = View<const float>(batch.storage.data(), {count, shape[1], shape[2], shape[3]});
    use(batch);
    progress.Advance(count);
    batch.paths.clear();
  };
  for (size_t i = 0; i < files.size(); ++i) {
    const Loader::Loaded loaded = loader.Take(i);
    if (!loaded.error.empty()) {
      progress.Clear();
      fmt::print(stderr, "qkv: {}\n", loaded.error);
      progress.Advance(1);
      ++failed;
      continue;
    }
    if (!(loaded.pixels.shape() == shape)) {
      flush();
      shape = loaded.pixels.shape();
      batch.storage = Tensor<float>::Uninitialised({options.batch, shape[1], shape[2], shape[3]});
    }
    std::copy_n(loaded.pixels.data(), loaded.pixels.size(),
                batch.storage.data() + static_cast<int64_t>(batch.paths.size()) * loaded.pixels.size());
    batch.paths.push_back(files[i].string());
    if (static_cast<int>(batch.paths.size()) == options.batch) flush();
  }
  flush();
  progress.Clear();
  if (failed > images.failed) {
    fmt::print(stderr, "qkv: {} of {} files could not be read\n", failed - images.failed, files.size());
  }
  return failed;
}

}  // namespace qkv::cli
