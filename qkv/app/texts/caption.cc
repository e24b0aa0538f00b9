#include "qkv/app/texts/caption.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "qkv/app/open/hub.h"
#include "qkv/app/texts/language.h"
#include "qkv/app/texts/texts.h"
#include "qkv/core/error.h"
#include "qkv/model/blocks/finite.h"
#include "qkv/model/sequence/decoder.h"

namespace qkv::app {
namespace {

// A decoding step reads all weights, however many texts it continues.
constexpr int kImagesTogether = 16;

// Removes the images of a batch whose tokens, [B, N, D], are not finite, with a note for each. Returns their number.
int LeaveOutBroken(const PipelineOptions& options, Tensor<float>* tokens, Batch* batch) {
  const int64_t B = tokens->dim(0), each = tokens->size() / B;
  size_t kept = 0;
  for (size_t b = 0; b < batch->files.size(); ++b) {
    float* const row = tokens->data() + static_cast<int64_t>(b) * each;
    if (!model::AllFinite(row, each)) {
      Notify(options.note,
             FormatShown("{}: the encoder's tokens hold NaN or infinity, expected finite numbers", batch->paths[b]));
      continue;
    }
    if (kept < b) {
      std::copy_n(row, each, tokens->data() + static_cast<int64_t>(kept) * each);
      batch->files[kept] = batch->files[b], batch->paths[kept] = batch->paths[b];
    }
    ++kept;
  }
  const auto left_out = static_cast<int>(batch->files.size() - kept);
  batch->files.resize(kept), batch->paths.resize(kept);
  return left_out;
}

}  // namespace

io::Json ToJson(const Caption& caption) {
  return {{"path", caption.path},
          {"text", caption.text},
          {"score", caption.score},
          {"tokens", caption.tokens},
          {"ended", caption.ended}};
}

Captioner::Captioner(const model::CaptionModel& model, const std::filesystem::path& folder, const Note& note)
    : model_(model), source_(folder.string()), tokenizer_(text::Tokenizer::Open(FolderOf(folder))) {
  NotifySettings(tokenizer_, source_, note);
  RequireIdsWithin(tokenizer_, model.decoder().config().vocabulary, source_);
}

model::GenerationSettings Captioner::Settings() const {
  return UsualSettings(model_.description().generation, tokenizer_, /*prompt=*/1);
}

int Captioner::Write(const ImageList& images, const CaptionOptions& options,
                     const std::function<void(std::span<const Caption>)>& use) const {
  const model::GenerationDefaults& defaults = model_.description().generation;
  const std::optional<int32_t> start = defaults.start   ? defaults.start
                                       : defaults.begin ? defaults.begin
                                                        : tokenizer_.special().begin;
  Require(start.has_value(), "{}: neither generation_config.json nor config.json has a \"decoder_start_token_id\"",
          source_);
  options.settings.Validate();
  PipelineOptions pipeline = options.pipeline;
  if (pipeline.batch == 0) pipeline.batch = kImagesTogether;
  const size_t most = model_.image().FixedPixelsShape() ? static_cast<size_t>(pipeline.batch) : 1;
  model::Decoder<float> decoder(
      model_.decoder(),
      static_cast<int64_t>(std::min(most, std::max<size_t>(1, images.files.size()))) * options.settings.beams,
      options.settings.max_tokens + 1);
  model::CaptionWorkspace workspace;
  Tensor<float> tokens;
  std::vector<Caption> captions;
  int broken = 0;
  const auto write = [&](const Batch& read) {
    Batch batch = read;
    const View<const float> pixels = batch.values;
    const int64_t N = model_.image().TokensFor(pixels.dim(2), pixels.dim(3)), D = model_.image().config().block.width;
    tokens.Reuse({pixels.dim(0), N, D});
    model_.image().Forward(pixels, workspace.image, {.tokens = tokens});
    broken += LeaveOutBroken(pipeline, &tokens, &batch);
    if (batch.files.empty()) return;
    model_.ReadTokens(tokens.view().slice(0, 0, std::ssize(batch.files)), workspace);
    const std::vector<std::vector<int32_t>> starts(batch.files.size(), {*start});
    // Each image draws with the seed of its own number, whatever its batch.
    model::GenerationSettings settings = options.settings;
    settings.seeds.clear();
    for (const size_t file : batch.files) settings.seeds.push_back(settings.sampling.seed + file);
    const std::vector<model::Generated> written = Generate(decoder, starts, &workspace.source, settings);
    captions.clear();
    for (size_t i = 0; i < written.size(); ++i) {
      captions.push_back({batch.paths[i], DecodeKnown(tokenizer_, written[i].tokens), std::ssize(written[i].tokens),
                          written[i].score, written[i].ended, batch.files[i]});
    }
    use(captions);
  };
  const int failed = ForEachBatch(pipeline, images, model_.image(), Wanted::kPixels, write);
  return failed + broken;
}

}  // namespace qkv::app
