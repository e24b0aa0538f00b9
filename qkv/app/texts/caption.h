// Texts that a model writes about images: captions, and lines of text that it reads in them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "qkv/app/images/pipeline.h"
#include "qkv/app/open/note.h"
#include "qkv/io/json.h"
#include "qkv/model/caption_model.h"
#include "qkv/model/sequence/generation.h"
#include "qkv/text/tokenizer.h"

namespace qkv::app {

struct Caption {
  std::string path, text;
  int64_t tokens = 0;  // of the text, with the one that ended it
  double score = 0;    // of a beam search
  bool ended = false;  // by its end token, not by its greatest length
  size_t file = 0;     // index in the list of images
};

/// {"path", "text", "score", "tokens", "ended"}
io::Json ToJson(const Caption& caption);

struct CaptionOptions {
  model::GenerationSettings settings;  // see Captioner::Settings
  PipelineOptions pipeline;            // batch 0: 16 images, or one if their sizes differ
};

/// A model with its tokenizer. Const members may be called from several threads.
class Captioner {
 public:
  /// model: outlives the captioner. folder: the model's, or a file in it; its tokenizer is read. Throws Error if there
  /// is none, or one with other ids. `note` receives unknown settings in its files.
  Captioner(const model::CaptionModel& model, const std::filesystem::path& folder, const Note& note = {});

  /// The settings of the model's files; 256 tokens at most if they have no length.
  model::GenerationSettings Settings() const;

  /// A text for each image, in their order; none depends on the others. `use` receives a batch of results at a time, as
  /// in ForEachBatch. An image is left out, with a note, if it cannot be read or its tokens are not finite. Returns the
  /// number of images left out. Throws Error as ForEachBatch and model::Generate.
  int Write(const ImageList& images, const CaptionOptions& options,
            const std::function<void(std::span<const Caption>)>& use) const;

 private:
  const model::CaptionModel& model_;
  std::string source_;  // of the tokenizer, for messages
  text::Tokenizer tokenizer_;
};

}  // namespace qkv::app
