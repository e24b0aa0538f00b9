#include "qkv/text/subword_model.h"

#include <algorithm>
#include <cstring>

#include "qkv/core/error.h"

namespace qkv::text {
namespace {

constexpr size_t kSlots = size_t{1} << 14;
constexpr size_t kMaxKept = size_t{1} << 20;

template <typename T>
void ShrinkVector(std::vector<T>& vector) {
  if (vector.capacity() * sizeof(T) > kMaxKept) std::vector<T>().swap(vector);
}

}  // namespace

bool WordCache::Find(std::string_view word, std::vector<int32_t>* ids) const {
  if (word.size() > kMaxWord || slots_ == nullptr) return false;
  const Slot& slot = slots_[HashText(word) & (kSlots - 1)];
  if (slot.size != word.size() || std::memcmp(slot.word, word.data(), word.size()) != 0) return false;
  ids->insert(ids->end(), slot.ids, slot.ids + slot.count);
  return true;
}

void WordCache::Keep(std::string_view word, const int32_t* ids, size_t count) {
  if (word.empty() || word.size() > kMaxWord || count > kMaxIds) return;
  if (slots_ == nullptr) slots_ = std::make_unique<Slot[]>(kSlots);
  Slot& slot = slots_[HashText(word) & (kSlots - 1)];
  slot.size = static_cast<uint8_t>(word.size());
  slot.count = static_cast<uint8_t>(count);
  std::memcpy(slot.word, word.data(), word.size());
  std::copy_n(ids, count, slot.ids);
}

void ModelWorkspace::Shrink() {
  ShrinkVector(symbols);
  ShrinkVector(heap);
  ShrinkVector(best);
  ShrinkVector(reversed);
  ShrinkVector(spans);
}

std::vector<int32_t> ByteTokens(const Vocabulary& vocabulary) {
  std::vector<int32_t> ids(256, -1);
  for (unsigned byte = 0; byte < 256; ++byte) {
    ids[byte] = vocabulary.Find(fmt::format("<0x{:02X}>", byte)).value_or(-1);
  }
  return ids;
}

}  // namespace qkv::text
