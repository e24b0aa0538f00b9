#include "qkv/train/network_parameters.h"

#include <string_view>
#include <utility>

namespace qkv::train {
namespace {

// Hands out the tensors of a part in the order of the table, those that are there.
template <typename T>
class Reader {
 public:
  // Of an empty buffer all tensors are empty: to see which there are.
  Reader(const ParameterLayout& layout, size_t slot, std::string_view prefix, View<T> buffer)
      : slots_(layout.slots()), next_(slot), prefix_(prefix), buffer_(buffer) {
    Require(buffer.empty() || buffer.size() == layout.size(), "network: a buffer of {} elements, expected {}",
            buffer.size(), layout.size());
  }

  // The next tensor if that is its name, or empty.
  View<T> Take(std::string_view name, std::string_view ending = "") {
    if (next_ == slots_.size()) return {};
    const Slot& slot = slots_[next_];
    std::string_view rest = slot.name;
    for (const std::string_view part : {prefix_, name, ending}) {
      if (!rest.starts_with(part)) return {};
      rest.remove_prefix(part.size());
    }
    if (!rest.empty()) return {};
    ++next_;
    return buffer_.empty() ? View<T>() : View<T>(buffer_.data() + slot.offset, slot.shape);
  }
  nn::LinearParameters<T> Linear(std::string_view name) {
    const View<T> weight = Take(name, ".weight");
    return {weight, Take(name, ".bias")};
  }
  nn::NormParameters<T> Norm(std::string_view name) {
    const View<T> gamma = Take(name, ".weight");
    return {gamma, Take(name, ".bias")};
  }

  size_t next() const { return next_; }

 private:
  const std::vector<Slot>& slots_;
  size_t next_;
  std::string_view prefix_;
  View<T> buffer_;
};

template <typename T>
EmbeddingParameters<T> ReadEmbedding(Reader<T>& reader) {
  EmbeddingParameters<T> p;
  p.tokens = reader.Take("token_embed.weight");
  p.prefix[0] = reader.Take("cls_token"), p.prefix[1] = reader.Take("dist_token");
  p.prefix[2] = reader.Take("reg_token");
  p.positions = reader.Take("pos_embed");
  p.patch_embed.norm_in = reader.Norm("patch_embed.norm_in");
  p.patch_embed.projection = reader.Linear("patch_embed.proj");
  if (View<T>& weight = p.patch_embed.projection.weight; weight.rank() == 4) {  // a convolution's
    weight = weight.reshape({weight.dim(0), weight.size() / weight.dim(0)});
  }
  p.patch_embed.norm_out = reader.Norm("patch_embed.norm_out");
  p.norm_pre = reader.Norm("norm_pre");
  return p;
}

template <typename T>
nn::AttentionParameters<T> ReadAttention(Reader<T>& reader) {
  nn::AttentionParameters<T> p;
  p.query_key_value = reader.Linear("attn.qkv");
  p.key = reader.Linear("attn.qk");
  p.query = reader.Linear("attn.qk.query");
  if (p.key.empty()) p.key = reader.Linear("attn.qk.key");
  p.merged = reader.Take("attn.qk.merged"), p.key_term = reader.Take("attn.qk.key_term");
  p.eigenvalues = reader.Take("attn.qk.eigenvalues");
  p.bandwidth = reader.Take("attn.qk.bandwidth");
  p.query_places = reader.Take("attn.qk.query"), p.key_places = reader.Take("attn.qk.key");
  p.value = reader.Linear("attn.v");
  p.query_norm = reader.Norm("attn.q_norm"), p.key_norm = reader.Norm("attn.k_norm");
  p.output_norm = reader.Norm("attn.norm");
  p.projection = reader.Linear("attn.proj");
  return p;
}

template <typename T>
nn::BlockParameters<T> ReadBlock(Reader<T>& reader) {
  nn::BlockParameters<T> p;
  p.norm1 = reader.Norm("norm1");
  p.attention = ReadAttention(reader);
  p.scale1 = reader.Take("ls1.gamma");
  p.norm2 = reader.Norm("norm2");
  p.mlp.fc1 = reader.Linear("mlp.fc1");
  p.mlp.norm = reader.Norm("mlp.norm");
  p.mlp.fc2 = reader.Linear("mlp.fc2");
  p.scale2 = reader.Take("ls2.gamma");
  return p;
}

template <typename T>
AnswerParameters<T> ReadAnswer(Reader<T>& reader) {
  AnswerParameters<T> p;
  p.norm = reader.Norm("norm");
  p.pool.latent = reader.Take("attn_pool.latent");
  p.pool.query = reader.Linear("attn_pool.q");
  p.pool.key_value = reader.Linear("attn_pool.kv");
  p.pool.projection = reader.Linear("attn_pool.proj");
  p.pool.norm = reader.Norm("attn_pool.norm");
  p.pool.mlp.fc1 = reader.Linear("attn_pool.mlp.fc1");
  p.pool.mlp.fc2 = reader.Linear("attn_pool.mlp.fc2");
  p.pooler = reader.Linear("pooler");
  p.fc_norm = reader.Norm("fc_norm"), p.head_norm = reader.Norm("head_norm");
  p.head = reader.Linear("head"), p.head_dist = reader.Linear("head_dist");
  return p;
}

template <typename Config>
const Config& Validated(const Config& config) {
  model::Validate(config);
  return config;
}

}  // namespace

NetworkParameters::NetworkParameters(const model::VitConfig& config)
    : NetworkParameters(ParameterLayout(Validated(config)), config.depth) {}
NetworkParameters::NetworkParameters(const model::SequenceConfig& config)
    : NetworkParameters(ParameterLayout(model::TensorTable(Validated(config))), config.depth) {}

NetworkParameters::NetworkParameters(ParameterLayout layout, int64_t depth) : layout_(std::move(layout)) {
  size_t next = 0;
  for (int64_t part = 0; part < depth + 2; ++part) {
    const bool block = part > 0 && part <= depth;
    prefixes_.push_back(block ? fmt::format("blocks.{}.", part - 1) : "");
    first_slots_.push_back(next);
    Reader<const float> reader(layout_, next, prefixes_.back(), {});
    if (part == 0) {
      ReadEmbedding(reader);
    } else if (block) {
      ReadBlock(reader);
    } else {
      ReadAnswer(reader);
    }
    next = reader.next();
  }
  first_slots_.push_back(next);
  if (next < layout_.slots().size()) Fail("network: no layer takes '{}'", layout_.slots()[next].name);
}

int64_t NetworkParameters::begin(int64_t part) const {
  const size_t slot = first_slots_[static_cast<size_t>(part)];
  return slot == layout_.slots().size() ? layout_.size() : layout_.slots()[slot].offset;
}

template <typename T>
EmbeddingParameters<T> NetworkParameters::Embedding(View<T> buffer) const {
  Reader<T> reader(layout_, first_slots_.front(), prefixes_.front(), buffer);
  return ReadEmbedding(reader);
}

template <typename T>
nn::BlockParameters<T> NetworkParameters::Block(int64_t block, View<T> buffer) const {
  const auto part = static_cast<size_t>(block + 1);
  Reader<T> reader(layout_, first_slots_[part], prefixes_[part], buffer);
  return ReadBlock(reader);
}

template <typename T>
AnswerParameters<T> NetworkParameters::Answer(View<T> buffer) const {
  const auto part = static_cast<size_t>(depth() + 1);
  Reader<T> reader(layout_, first_slots_[part], prefixes_[part], buffer);
  return ReadAnswer(reader);
}

#define QKV_INSTANTIATE(T)                                                            \
  template EmbeddingParameters<T> NetworkParameters::Embedding(View<T> buffer) const; \
  template nn::BlockParameters<T> NetworkParameters::Block(int64_t, View<T>) const;   \
  template AnswerParameters<T> NetworkParameters::Answer(View<T>) const;
QKV_INSTANTIATE(float)
QKV_INSTANTIATE(const float)
QKV_INSTANTIATE(double)
QKV_INSTANTIATE(const double)
#undef QKV_INSTANTIATE

}  // namespace qkv::train
