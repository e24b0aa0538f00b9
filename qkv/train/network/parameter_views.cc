#include "qkv/train/network/parameter_views.h"

#include "qkv/model/layout/tensor_table.h"

namespace qkv::train {
namespace {

// Assigns consecutive slots to the views of the declaration (model/layout/parameters.h).
template <typename T>
class Slots {
 public:
  /// With an empty buffer all views stay empty; this only counts slots.
  Slots(const ParameterLayout& layout, size_t first, View<T> buffer)
      : slots_(layout.slots()), next_(first), buffer_(buffer) {
    Require(buffer.empty() || buffer.size() == layout.size(), "network: a buffer of {} elements, expected {}",
            buffer.size(), layout.size());
  }

  void Tensor(const model::TensorName&, const Shape&, model::Role, View<T>& view) { view = Next(); }
  void Linear(const model::TensorName&, int64_t, int64_t, bool bias, nn::LinearParameters<T>& p) {
    p.weight = Next();
    if (bias) p.bias = Next();
  }
  void Norm(const model::TensorName&, int64_t, const nn::NormConfig& config, nn::NormParameters<T>& p) {
    p = {.kind = config.kind, .eps = config.eps};
    p.gamma = Next();
    if (config.has_bias()) p.beta = Next();
  }

  size_t next() const { return next_; }

 private:
  View<T> Next() {
    const Slot& slot = slots_[next_++];
    return buffer_.empty() ? View<T>() : View<T>(buffer_.data() + slot.offset, slot.shape);
  }

  const std::vector<Slot>& slots_;
  size_t next_;
  View<T> buffer_;
};

template <typename Config>
const Config& Validated(const Config& config) {
  model::Validate(config);
  return config;
}

// The first slot of each part, then the number of all slots.
template <typename Config>
std::vector<size_t> FirstSlots(const Config& config, const ParameterLayout& layout, bool embeds = true) {
  std::vector<size_t> first = {0};
  Slots<const float> slots(layout, 0, {});
  EmbeddingParameters<const float> embedding;
  if (embeds) model::VisitEmbedding(config, embedding, slots);
  first.push_back(slots.next());
  for (int64_t block = 0; block < config.depth; ++block) {
    nn::BlockParameters<const float> parameters;
    model::VisitBlock(config.block, config.grid().tokens(), parameters, slots);
    first.push_back(slots.next());
  }
  OutputParameters<const float> output;
  model::VisitOutput(config, output, slots);
  first.push_back(slots.next());
  return first;
}

// The tensors of a sequence model, or those after its embedding.
std::vector<model::TensorSpec> Table(const model::SequenceConfig& config, bool embeds) {
  std::vector<model::TensorSpec> table = model::TensorTable(config);
  if (embeds) return table;
  const auto is_of_blocks = [](const model::TensorSpec& spec) {
    return spec.name.starts_with("blocks.") || spec.name.starts_with("norm.") || spec.name.starts_with("head.");
  };
  std::erase_if(table, [&](const model::TensorSpec& spec) { return !is_of_blocks(spec); });
  return table;
}

}  // namespace

NetworkParameters::NetworkParameters(const model::VitConfig& config)
    : config_(Validated(config)), layout_(config), first_slots_(FirstSlots(config, layout_)) {}
NetworkParameters::NetworkParameters(const model::SequenceConfig& config) : NetworkParameters(config, true) {}
NetworkParameters::NetworkParameters(const model::SequenceConfig& config, bool embeds)
    : config_(Validated(config)), layout_(Table(config, embeds)), first_slots_(FirstSlots(config, layout_, embeds)) {}
NetworkParameters NetworkParameters::WithoutEmbedding(const model::SequenceConfig& config) {
  return NetworkParameters(config, false);
}

int64_t NetworkParameters::begin(int64_t part) const {
  const size_t slot = first_slots_[static_cast<size_t>(part)];
  return slot == layout_.slots().size() ? layout_.size() : layout_.slots()[slot].offset;
}

template <typename T>
EmbeddingParameters<T> NetworkParameters::Embedding(View<T> buffer) const {
  EmbeddingParameters<T> p;
  Slots<T> slots(layout_, first_slots_.front(), buffer);
  std::visit([&](const auto& config) { model::VisitEmbedding(config, p, slots); }, config_);
  if (View<T>& weight = p.patch_embed.projection.weight; weight.rank() == 4) {  // stored as a convolution
    weight = weight.reshape({weight.dim(0), weight.size() / weight.dim(0)});
  }
  return p;
}

template <typename T>
nn::BlockParameters<T> NetworkParameters::Block(int64_t block, View<T> buffer) const {
  nn::BlockParameters<T> p;
  Slots<T> slots(layout_, first_slots_[static_cast<size_t>(block + 1)], buffer);
  std::visit([&](const auto& config) { model::VisitBlock(config.block, config.grid().tokens(), p, slots); }, config_);
  return p;
}

template <typename T>
OutputParameters<T> NetworkParameters::Output(View<T> buffer) const {
  OutputParameters<T> p;
  Slots<T> slots(layout_, first_slots_[static_cast<size_t>(depth() + 1)], buffer);
  std::visit([&](const auto& config) { model::VisitOutput(config, p, slots); }, config_);
  return p;
}

#define QKV_INSTANTIATE(T)                                                            \
  template EmbeddingParameters<T> NetworkParameters::Embedding(View<T> buffer) const; \
  template nn::BlockParameters<T> NetworkParameters::Block(int64_t, View<T>) const;   \
  template OutputParameters<T> NetworkParameters::Output(View<T>) const;
QKV_INSTANTIATE(float)
QKV_INSTANTIATE(const float)
QKV_INSTANTIATE(double)
QKV_INSTANTIATE(const double)
#undef QKV_INSTANTIATE

}  // namespace qkv::train
