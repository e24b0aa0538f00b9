#include "qkv/app/capture/text_capture.h"

#include <algorithm>
#include <limits>

#include "qkv/app/capture/towers.h"
#include "qkv/core/error.h"
#include "qkv/core/memory.h"

namespace qkv::app {
namespace {

// Ids of 32 bits; empty if the file has no such tensor.
Tensor<int32_t> ReadIds(const io::SafeTensors& file, const char* name, const std::string& path) {
  const io::StoredTensor* const stored = file.Find(name);
  if (stored == nullptr) return {};
  const Tensor<int64_t> wide = ReadTokenTensor(*stored, path);
  auto ids = Tensor<int32_t>::Uninitialised(wide.shape());
  for (int64_t i = 0; i < wide.size(); ++i) {
    Require(wide[i] >= 0 && wide[i] <= std::numeric_limits<int32_t>::max(), "{}: \"{}\" holds {}, expected ids", path,
            name, wide[i]);
    ids[i] = static_cast<int32_t>(wide[i]);
  }
  return ids;
}

template <typename T>
View<const T> ViewOf(const Tensor<T>& tensor) {
  return tensor.empty() ? View<const T>() : tensor.view();
}

// New tensors, whose memory together is within the limit.
class Allocator {
 public:
  explicit Allocator(Captured* captured) : captured_(*captured) {}
  View<float> Add(const std::string& name, const Shape& shape) {
    bytes_ += sizeof(float) * static_cast<double>(shape.size());
    RequireMemory(bytes_, "run: the outputs of these texts");
    return captured_.emplace(name, Tensor<float>(shape)).first->second.view();
  }

 private:
  Captured& captured_;
  double bytes_ = 0;
};

// Requests the weights of these blocks, as far as a part of `depth` blocks has them: name.L, [B, heads, rows, keys].
std::vector<model::Outputs<float>::Attention> RequestWeights(const std::string& name,
                                                             const std::vector<int64_t>& blocks, int64_t depth,
                                                             const Shape& shape, Allocator* allocate) {
  std::vector<model::Outputs<float>::Attention> requests;
  for (const int64_t block : blocks) {
    if (block >= depth) continue;
    requests.push_back({block, {0, shape[2], allocate->Add(fmt::format("{}.{}", name, block), shape)}});
  }
  return requests;
}

}  // namespace

bool IsTokenInput(std::string_view name) {
  constexpr std::string_view kNames[] = {"input_ids", "attention_mask", "token_type_ids", "decoder_input_ids"};
  return std::ranges::find(kNames, name) != std::end(kNames);
}

template <typename T>
void HidePadding(const std::string& name, const model::TextDescription& description, const io::SafeTensors& file,
                 const std::string& path, Tensor<T>* values) {
  const Tensor<int32_t> shown = ReadIds(file, "attention_mask", path);
  const bool pair = description.encoder && description.decoder, of_source = !pair || name.starts_with("encoder_");
  if (shown.empty() || !of_source || name == "pooled") return;
  // [B, N, …], or attention [B, H, N, N].
  const int64_t B = shown.dim(0), N = shown.dim(1);
  const int64_t H = name.find("attention.") != std::string::npos ? values->dim(1) : 1;
  const int64_t width = values->size() / (B * H * N);
  for (int64_t row = 0; row < B * H * N; ++row) {
    if (shown[row / (H * N) * N + row % N] == 0) std::fill_n(values->data() + row * width, width, T(0));
  }
}
template void HidePadding(const std::string&, const model::TextDescription&, const io::SafeTensors&, const std::string&,
                          Tensor<float>*);
template void HidePadding(const std::string&, const model::TextDescription&, const io::SafeTensors&, const std::string&,
                          Tensor<double>*);

int64_t TextDepth(const model::TextDescription& d) {
  return std::max(d.encoder ? d.encoder->depth : 0, d.decoder ? d.decoder->depth : 0);
}

int64_t CaptionDepth(const model::Description& d) {
  Require(d.decoder.has_value(), "{} has no decoder", d.config.architecture);
  return std::max(d.config.depth, d.decoder->config.depth);
}

Captured CaptureCaptions(const model::CaptionModel& model, const io::SafeTensors& file, const std::string& path,
                         const std::vector<int64_t>& attention, const ActivationRequest& activations) {
  const Tensor<int32_t> ids = ReadIds(file, "decoder_input_ids", path);
  Require(!ids.empty(), "{}: there is no tensor \"decoder_input_ids\", and the model has a decoder that reads images",
          path);
  const Tensor<float> pixels = ReadPixels(file, path, model.image().config());
  Require(ids.dim(0) == pixels.dim(0), "{}: \"decoder_input_ids\" are {} texts, \"pixels\" {} images", path, ids.dim(0),
          pixels.dim(0));
  const model::VitConfig& encoder = model.image().config();
  const model::SequenceConfig& decoder = model.decoder().config();
  const int64_t B = ids.dim(0), T = ids.dim(1), N = model.image().TokensFor(pixels.dim(2), pixels.dim(3));
  Captured captured;
  Allocator allocate(&captured);
  model::CaptionOutputs outputs;
  outputs.encoder_tokens = allocate.Add("encoder_tokens", {B, N, encoder.block.width});
  outputs.tokens = allocate.Add("tokens", {B, T, decoder.block.width});
  outputs.logits = allocate.Add("logits", {B, T, decoder.outputs});
  outputs.encoder_attention = RequestWeights("encoder_attention", attention, encoder.depth,
                                             {B, encoder.block.attention.heads, N, N}, &allocate);
  outputs.attention =
      RequestWeights("attention", attention, decoder.depth, {B, decoder.block.attention.heads, T, T}, &allocate);
  outputs.cross_attention =
      RequestWeights("cross_attention", attention, decoder.depth, {B, decoder.block.cross->heads, T, N}, &allocate);
  ActivationProbe of_encoder(kOfEncoder, activations, &captured), of_decoder(kOfDecoder, activations, &captured);
  outputs.encoder_probe = of_encoder.ForPass(), outputs.probe = of_decoder.ForPass();
  model::CaptionWorkspace workspace;
  model.Forward(pixels, ids, workspace, outputs);
  return captured;
}

Captured CaptureText(const model::TextModel& model, const io::SafeTensors& file, const std::string& path,
                     const std::vector<int64_t>& attention, const ActivationRequest& activations) {
  const model::TextDescription& d = model.description();
  const Tensor<int32_t> ids = ReadIds(file, "input_ids", path), types = ReadIds(file, "token_type_ids", path),
                        shown = ReadIds(file, "attention_mask", path),
                        targets = ReadIds(file, "decoder_input_ids", path);
  Require(!ids.empty(), "{}: there is no tensor \"input_ids\"", path);
  const bool pair = d.encoder && d.decoder;
  Require(targets.empty() != pair, "{}: \"decoder_input_ids\" are {}", path,
          pair ? "missing, and the model is an encoder-decoder" : "there, and the model is no encoder-decoder");
  Require(shown.empty() || shown.shape() == ids.shape(), "{}: \"attention_mask\" is {}, expected {} as \"input_ids\"",
          path, shown.shape(), ids.shape());
  Require(targets.empty() || targets.dim(0) == ids.dim(0), "{}: \"decoder_input_ids\" are {} texts, \"input_ids\" {}",
          path, targets.dim(0), ids.dim(0));
  Tensor<bool> mask;
  if (!shown.empty()) {
    mask = Tensor<bool>(shown.shape());
    std::ranges::transform(shown.span(), mask.data(), [](int32_t value) { return value != 0; });
  }
  const int64_t B = ids.dim(0), N = ids.dim(1), T = pair ? targets.dim(1) : N;
  Captured captured;
  Allocator allocate(&captured);
  model::TextOutputs outputs;
  const auto weights = [&](const std::string& name, const nn::AttentionConfig& a, int64_t depth, int64_t rows,
                           int64_t keys) {
    return RequestWeights(name, attention, depth, {B, a.heads, rows, keys}, &allocate);
  };
  const model::SequenceConfig& last = d.decoder ? *d.decoder : *d.encoder;
  outputs.tokens = allocate.Add("tokens", {B, T, last.block.width});
  if (last.pooler_width > 0) outputs.pooled = allocate.Add("pooled", {B, last.pooler_width});
  if (last.outputs > 0) outputs.logits = allocate.Add("logits", {B, T, last.outputs});
  outputs.attention = weights("attention", last.block.attention, last.depth, T, T);
  if (pair) {
    outputs.encoder_tokens = allocate.Add("encoder_tokens", {B, N, d.encoder->block.width});
    outputs.encoder_attention = weights("encoder_attention", d.encoder->block.attention, d.encoder->depth, N, N);
    outputs.cross_attention = weights("cross_attention", *last.block.cross, last.depth, T, N);
  }
  ActivationProbe of_encoder(kOfEncoder, activations, &captured);
  ActivationProbe probe(pair ? kOfDecoder : std::string_view(), activations, &captured);
  if (pair) outputs.encoder_probe = of_encoder.ForPass();
  outputs.probe = probe.ForPass();
  model::TextWorkspace workspace;
  model.Forward({.ids = ids, .mask = ViewOf(mask), .types = ViewOf(types), .decoder_ids = ViewOf(targets)}, workspace,
                outputs);
  return captured;
}

Captured CaptureSequences(const model::SequenceModel<float>& model, const io::SafeTensors& file,
                          const std::string& path, const std::vector<int64_t>& attention,
                          const ActivationRequest& activations) {
  const Tensor<int32_t> ids = ReadIds(file, "input_ids", path);
  Require(!ids.empty(), "{}: there is no tensor \"input_ids\"", path);
  for (const char* name : {"attention_mask", "token_type_ids", "decoder_input_ids"}) {
    Require(file.Find(name) == nullptr, "{}: \"{}\" is there, and the model reads \"input_ids\" alone", path, name);
  }
  const model::SequenceConfig& c = model.config();
  const int64_t B = ids.dim(0), N = ids.dim(1);
  Captured captured;
  Allocator allocate(&captured);
  model::SequenceOutputs<float> outputs;
  outputs.logits = allocate.Add("logits", {B, N, c.outputs});
  outputs.tokens = allocate.Add("tokens", {B, N, c.block.width});
  outputs.attention = RequestWeights("attention", attention, c.depth, {B, c.block.attention.heads, N, N}, &allocate);
  ActivationProbe probe("", activations, &captured);
  outputs.probe = probe.ForPass();
  Arena arena;
  model.Forward(ids, {}, arena, outputs);
  return captured;
}

}  // namespace qkv::app
