#include "qkv/nn/key_value_cache.h"

#include <vector>

#include "qkv/nn/attention.h"

namespace qkv::nn {
namespace {

// The shape of the keys in a cache; empty if they are positional or equal to the values.
template <typename T>
Shape KeyShape(const AttentionLayer<T>& layer, int64_t B, int64_t D, int64_t capacity, bool rotary) {
  if (layer.kind == AttentionKind::kMerged) return {B, 1, capacity, D};
  if (IsPositional(layer.kind) || (ValuesAreKeys(layer.kind) && !rotary)) return {0};
  return {B, layer.kv_heads(), capacity, layer.query_width()};
}

}  // namespace

template <typename T>
KeyValueCache<T>::KeyValueCache(const AttentionLayer<T>& layer, int64_t B, int64_t D, int64_t capacity, bool rotary)
    : value({B, layer.kv_heads(), capacity, layer.head_width}), lengths({B}) {
  if (const Shape shape = KeyShape(layer, B, D, capacity, rotary); shape.size() > 0) key = Tensor<T>(shape);
}

template <typename T>
CachedRows<T> KeyValueCache<T>::Rows(int64_t begin, int64_t end) {
  return {key.empty() ? View<T>() : key.view().slice(0, begin, end), value.view().slice(0, begin, end),
          lengths.view().slice(0, begin, end)};
}

template <typename T>
void KeyValueCache<T>::Select(std::span<const int64_t> rows) {
  const auto moves = [&](int64_t i) { return rows[static_cast<size_t>(i)] != i; };
  // A sequence that is read after it was overwritten, [G, tokens, E] without the unused capacity, must be saved.
  struct Saved {
    int64_t row, length;
    std::vector<T> key, value;
  };
  std::vector<Saved> saved;
  const auto copy_out = [](View<const T> from, int64_t length, std::vector<T>* to) {
    for (int64_t h = 0; h < from.dim(0); ++h) to->insert(to->end(), from.at(h), from.at(h) + length * from.dim(2));
  };
  const auto find = [&](int64_t row) {
    return std::ranges::find_if(saved, [&](const Saved& one) { return one.row == row; });
  };
  for (int64_t i = 0; i < std::ssize(rows); ++i) {
    const int64_t from = rows[static_cast<size_t>(i)];
    if (from >= i || !moves(from) || find(from) != saved.end()) continue;
    Saved& one = saved.emplace_back(Saved{from, lengths[from], {}, {}});
    if (!key.empty()) copy_out(key.view()[from], one.length, &one.key);
    copy_out(value.view()[from], one.length, &one.value);
  }
  const auto copy_in = [](const T* from, int64_t stride, int64_t length, View<T> to) {
    for (int64_t h = 0; h < to.dim(0); ++h) std::copy_n(from + h * stride, length * to.dim(2), to.at(h));
  };
  for (int64_t i = 0; i < std::ssize(rows); ++i) {
    const int64_t from = rows[static_cast<size_t>(i)];
    if (!moves(i)) continue;
    const auto kept = from < i ? find(from) : saved.end();
    const int64_t length = kept == saved.end() ? lengths[from] : kept->length;
    const auto restore = [&](Tensor<T>& all, const std::vector<T>& copy) {
      const int64_t E = all.dim(3);
      if (kept == saved.end()) return copy_in(all.view().at(from), all.dim(2) * E, length, all.view()[i]);
      copy_in(copy.data(), length * E, length, all.view()[i]);
    };
    static const std::vector<T> kNone;
    if (!key.empty()) restore(key, kept == saved.end() ? kNone : kept->key);
    restore(value, kept == saved.end() ? kNone : kept->value);
    lengths[i] = length;
  }
}

template <typename T>
double KeyValueCache<T>::Elements(const AttentionLayer<T>& layer, int64_t B, int64_t D, int64_t capacity, bool rotary) {
  const auto values = static_cast<double>(B * layer.kv_heads()) * static_cast<double>(capacity * layer.head_width);
  return static_cast<double>(KeyShape(layer, B, D, capacity, rotary).size()) + values;
}

template struct KeyValueCache<float>;
template struct KeyValueCache<double>;

}  // namespace qkv::nn
