// A configuration of a sequence model, and tokens of a prompt behind its first zero byte: the text describes a model,
// which is then written and read to the same, or is refused; tokens are answered to, or refused, all with an Error.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "qkv/core/error.h"
#include "qkv/core/rng.h"
#include "qkv/model/layout/bound_tensor.h"
#include "qkv/model/layout/cost.h"
#include "qkv/model/layout/tensor_table.h"
#include "qkv/model/sequence/decoder.h"
#include "qkv/model/sequence/sampling.h"
#include "qkv/model/sequence/sequence_model.h"

namespace {

using namespace qkv;
using namespace qkv::model;

void Check(bool ok) {
  if (!ok) std::abort();
}

SequenceConfig SmallConfig() {
  SequenceConfig config;
  config.vocabulary = config.outputs = 16, config.length = 6;
  config.block.width = 8, config.depth = 1, config.block.mlp.width = 8;
  config.block.attention.heads = 2, config.block.attention.head_width = 4;
  config.positions = SequencePositions::kRotary, config.causal = true;
  return config;
}

// With random weights, which it copies.
SequenceModel<float> MakeSmallModel() {
  const std::vector<TensorSpec> table = TensorTable(SmallConfig());
  std::vector<Tensor<float>> values;
  std::vector<io::StoredTensor> stored;
  std::vector<BoundTensor> bound;
  values.reserve(table.size()), stored.reserve(table.size());
  Rng rng(1);
  for (const TensorSpec& spec : table) {
    for (float& x : values.emplace_back(spec.shape).span()) x = static_cast<float>(rng.Normal());
    bound.push_back({spec, {&stored.emplace_back(io::Stored<float>(spec.name, values.back().view()))}});
  }
  return {SmallConfig(), bound};
}

void ReadConfig(std::string_view text) {
  const SequenceConfig config = ParseSequenceConfig(io::ParseJson(text, "config.json"));
  Check(ParseSequenceConfig(ToJson(config)) == config);
  Check(Flops(config) > 0);
  Check(Parameters(config) > 0);
}

// Words of four bytes, as they come; the small vocabulary's own when there are none.
std::vector<int32_t> ToTokens(std::string_view bytes) {
  std::vector<int32_t> tokens(bytes.size() / sizeof(int32_t));
  if (!tokens.empty()) std::memcpy(tokens.data(), bytes.data(), tokens.size() * sizeof(int32_t));
  return tokens;
}

void Decode(const std::vector<int32_t>& tokens) {
  static const SequenceModel<float> model = MakeSmallModel();
  Decoder<float> decoder(model);
  TokenSampler sampler({.top_k = 3});
  std::span<const float> logits = decoder.Prefill(tokens);
  for (int i = 0; i < 3; ++i) {
    const int32_t token = sampler.Draw(logits);
    Check(token >= 0 && token < SmallConfig().vocabulary);
    logits = decoder.Next(token);
  }
  Check(std::ssize(decoder.tokens()) <= SmallConfig().length);
}

template <typename F>
void Try(const F& f) {
  try {
    f();
  } catch (const Error&) {  // what a bad file should do
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const size_t end = std::min(bytes.find('\0'), size);
  const std::string_view rest = bytes.substr(std::min(end + 1, size));
  Try([&] { ReadConfig(bytes.substr(0, end)); });
  Try([&] { Decode(ToTokens(rest)); });
  // Bytes that are tokens of the small vocabulary, whatever they are.
  std::vector<int32_t> tokens;
  for (const char byte : rest.substr(0, 64)) tokens.push_back(static_cast<uint8_t>(byte) % 16);
  Try([&] { Decode(tokens); });
  return 0;
}
