#include "qkv/model/caption_model.h"

#include <algorithm>
#include <optional>
#include <system_error>

#include "qkv/core/error.h"
#include "qkv/model/blocks/affine.h"
#include "qkv/model/checkpoint/model_folder.h"
#include "qkv/model/checkpoint/opening.h"
#include "qkv/model/families/hf_caption.h"

namespace qkv::model {
namespace {

// The checkpoint, if it has a decoder.
const Checkpoint& RequireDecoder(const Checkpoint& checkpoint) {
  Require(checkpoint.description.decoder.has_value(),
          "{}: {} ({}) has no decoder that writes texts; expected a VisionEncoderDecoderModel, such as ViT with GPT-2 "
          "or TrOCR",
          checkpoint.source, checkpoint.description.config.architecture, Name(checkpoint.description.config.family));
  return checkpoint;
}

}  // namespace

CaptionModel CaptionModel::Load(const std::filesystem::path& path, const BuildOptions& options, const Cache& cache) {
  return CaptionModel(Checkpoint::Open(path), options, cache);
}

CaptionModel::CaptionModel(const Checkpoint& checkpoint, const BuildOptions& options, const Cache& cache)
    : description_(*RequireDecoder(checkpoint).description.decoder), image_(checkpoint, options, cache) {
  projection_ = Weights<float>(checkpoint.decoder).Layer("projection", options.precision).Pack();
  decoder_ = std::make_unique<const SequenceModel<float>>(description_.config, checkpoint.decoder, options);
}

void CaptionModel::ReadSource(View<const float> pixels, CaptionWorkspace& w,
                              std::span<const Outputs<float>::Attention> attention, nn::Probe<float>* probe) const {
  Require(pixels.rank() == 4, "caption model: expected pixels [B, channels, height, width], got {}", pixels.shape());
  w.tokens.Reuse({pixels.dim(0), image_.TokensFor(pixels.dim(2), pixels.dim(3)), image_.config().block.width});
  image_.Forward(pixels, w.image,
                 {.tokens = w.tokens, .attention = {attention.begin(), attention.end()}, .probe = probe});
  ReadTokens(w.tokens, w);
}

void CaptionModel::ReadTokens(View<const float> tokens, CaptionWorkspace& w) const {
  const int64_t D = image_.config().block.width;
  Require(tokens.rank() == 3 && tokens.dense() && tokens.dim(2) == D,
          "caption model: expected the encoder's tokens [B, N, {}], dense, got {}", D, tokens.shape());
  const int64_t B = tokens.dim(0), N = tokens.dim(1);
  w.lengths.Reuse({B});
  std::fill_n(w.lengths.data(), B, N);
  w.arena.Reset();
  if (description_.projection) {
    const nn::BlockConfig& block = description_.config.block;
    w.projected.Reuse({B, N, block.cross->source(block.width)});
    nn::LinearForward<float>(tokens.reshape({B * N, D}), projection_,
                             w.projected.view().reshape({B * N, w.projected.dim(2)}));
    tokens = w.projected;
  }
  decoder_->ReadSource(tokens, w.lengths, w.arena, &w.source);
}

void CaptionModel::Forward(View<const float> pixels, View<const int32_t> decoder_ids, CaptionWorkspace& w,
                           const CaptionOutputs& outputs) const {
  Require(decoder_ids.rank() == 2 && pixels.rank() == 4 && decoder_ids.dim(0) == pixels.dim(0),
          "caption model: expected pixels [B, channels, height, width] and ids [B, T], got {} and {}", pixels.shape(),
          decoder_ids.shape());
  ReadSource(pixels, w, outputs.encoder_attention, outputs.encoder_probe);
  if (!outputs.encoder_tokens.empty()) {
    Require(outputs.encoder_tokens.shape() == w.tokens.shape() && outputs.encoder_tokens.dense(),
            "caption model: the encoder's tokens are {}, expected {}, dense", outputs.encoder_tokens.shape(),
            w.tokens.shape());
    std::copy_n(w.tokens.data(), w.tokens.size(), outputs.encoder_tokens.data());
  }
  decoder_->Forward(decoder_ids, {.source = &w.source}, w.arena,
                    {.logits = outputs.logits,
                     .tokens = outputs.tokens,
                     .attention = outputs.attention,
                     .cross_attention = outputs.cross_attention,
                     .probe = outputs.probe});
}

}  // namespace qkv::model
