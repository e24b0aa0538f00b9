#include "cli/images.h"

#include <iterator>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include "cli/output.h"
#include "cli/progress.h"
#include "qkv/app/images/digit_picture.h"
#include "qkv/app/open/parse.h"

namespace qkv::cli {
namespace {

// What readers of images chose: of texts that differ in numbers only, the first. Several threads decode.
class Remarks {
 public:
  void Add(std::string_view text) {
    std::string kind(text);
    std::erase_if(kind, [](char c) { return c >= '0' && c <= '9'; });
    const std::lock_guard lock(mutex_);
    if (kinds_.insert(kind).second) fresh_.emplace_back(text);
  }
  /// Those that were not taken yet.
  std::vector<std::string> Take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(fresh_, {});
  }
  std::vector<std::string> Take(std::string_view text) {
    Add(text);
    return Take();
  }

 private:
  std::mutex mutex_;
  std::set<std::string> kinds_;
  std::vector<std::string> fresh_;
};

}  // namespace

void ImageOptions::AddTo(Command command, bool required) {
  AddReading(command, required);
  AddBatch(command);
}

void ImageOptions::AddBatch(Command command) {
  command.AddOption("--batch", &batch, "Images computed together (default: what suits the model)")
      .Range(1, 4096)
      .Group(kImagesGroup);
}

void ImageOptions::AddReading(Command command, bool required) {
  const Option option =
      command.AddOption("PATH", &paths, "Images, folders of images (read recursively), or - for stdin");
  if (required) option.Required();
  AddHow(command);
}

void ImageOptions::AddHow(Command command) {
  command.AddFlag("--ignore-exif", &ignore_exif, "Do not turn images by their EXIF orientation").Group(kImagesGroup);
  command
      .AddOption(
          "--window", &window,
          "Grey levels that become black and white (up to 16 bits; DICOM: after rescaling, such as Hounsfield units), "
          "or a window of CT: lung, bone, brain, abdomen, mediastinum, … (default for DICOM: the file's own)")
      .TypeName("LOW,HIGH|NAME")
      .Group(kImagesGroup);
  command.AddOption("--max-pixels", &max_pixels, "Refuse larger images before decoding them")
      .Range(int64_t{1}, int64_t{1} << 40)
      .TypeName("N")
      .Group(kImagesGroup);
  AddQuiet(command, &quiet);
}

void ImageOptions::RequireNone(std::string_view command) const {
  Require(batch == 0 && !ignore_exif && window.empty() && max_pixels == image::DecodeOptions().max_pixels,
          "{}: --batch, --ignore-exif, --window and --max-pixels apply to images only; the model is a text model",
          command);
}

image::DecodeOptions ImageOptions::Decode() const {
  image::DecodeOptions options;
  options.exif_orientation = !ignore_exif;
  options.max_pixels = max_pixels;
  if (!window.empty()) options.window = app::ParseWindow(window, "--window");
  options.remark = [remarks = std::make_shared<Remarks>()](std::string_view text) {
    for (const std::string& first : remarks->Take(text)) PrintNote(first);
  };
  return options;
}

void ImageOptions::DigitsWithout(const ModelOptions& model, std::string_view suggested) {
  if (model.path.empty()) suggested_model = suggested;
}

void ImageOptions::Inspect(const std::filesystem::path& file, const image::Image& image) const {
  if (suggested_model.empty()) return;
  const std::string why = app::WhyNoDigit(image);
  if (why.empty()) return;
  throw app::WrongImages(FormatShown(
      "{}: {} is no digit, and without -m the built-in digit classifier answers; to get a model: hf download "
      "{}, then -m {}",
      file.string(), why, suggested_model, suggested_model));
}

void AddKeepHeader(Command command, std::vector<std::string>* fields) {
  command
      .AddOption("--keep-header", fields,
                 "An element of DICOM's header that goes into JSON lines, by keyword or (gggg,eeee); may be repeated. "
                 "Without it nothing of a header does")
      .Repeatable()
      .TypeName("FIELD");
}

ImageList CollectImages(const std::vector<std::string>& paths) {
  return app::CollectImages(paths, [](const std::string& text) { PrintMessage("qkv: {}\n", EscapedText{text}); });
}

int WithProgress(const ImageOptions& options, const ImageList& images,
                 const std::function<int(const app::PipelineOptions& pipeline)>& work) {
  Progress progress(std::ssize(images.files), "images", options.quiet);
  const auto note = [&](const std::string& text) {
    progress.Clear();
    PrintMessage("qkv: {}\n", EscapedText{text});
  };
  Remarks remarks;
  const auto say_remarks = [&] {
    for (const std::string& remark : remarks.Take()) {
      progress.Clear();
      PrintNote(remark);
    }
  };
  app::PipelineOptions pipeline{
      .decode = options.Decode(),
      .batch = options.batch,
      .inspect = [&](const auto& file, const image::Image& image) { options.Inspect(file, image); },
      .note = note,
      .advance =
          [&](int64_t count) {
            say_remarks();  // not while another thread draws the line
            progress.Advance(count);
          }};
  pipeline.decode.remark = [&](std::string_view text) { remarks.Add(text); };
  const int failed = work(pipeline);
  say_remarks();
  progress.Clear();
  if (failed > 0) PrintMessage("qkv: {} of {} files could not be read or computed\n", failed, images.files.size());
  return failed + images.failed;
}

int ForEachBatch(const ImageOptions& options, const ImageList& images, const model::Model& model, Wanted wanted,
                 const std::function<void(const Batch&)>& use) {
  return WithProgress(options, images, [&](const app::PipelineOptions& pipeline) {
    return app::ForEachBatch(pipeline, images, model, wanted, use);
  });
}

}  // namespace qkv::cli
