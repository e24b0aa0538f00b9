// Python's pickles, protocols 0 to 5, as data: nothing is imported, called or created. A global is its name; a
// requested call (REDUCE, NEWOBJ, INST, OBJ) becomes an object with callable, arguments and later state. Not here: what
// the names mean (torch_pickle.h). Values form a graph, in which objects may be shared and contain themselves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace qkv::io {

enum class PickleKind : uint8_t {
  kNone,
  kBool,        // integer is 0 or 1
  kInt,         // integer
  kLong,        // text: an integer beyond 64 bits, as the file has it (little-endian bytes, or decimal digits)
  kFloat,       // number
  kString,      // text; also the byte strings of Python 2
  kBytes,       // text
  kGlobal,      // a class or function: name, "os.system"
  kTuple,       // items
  kList,        // items
  kSet,         // items
  kDict,        // items: key, value, key, value, …
  kObject,      // object
  kPersistent,  // items[0]: the id of something that lies outside of the pickle
};

/// Points into a Pickle or into the bytes that it was read from, which must outlive it.
struct PickleValue {
  PickleKind kind = PickleKind::kNone;
  uint32_t length = 0;  // of the text
  union {
    int64_t integer = 0;
    double number;
    const char* chars;
    uint32_t index;
  };

  /// The text of a kString, kBytes or kLong.
  std::string_view text() const { return {chars, length}; }
  bool is(PickleKind k) const { return kind == k; }
};

/// An object that the pickle asks to create.
struct PickleObject {
  PickleValue callable, args;      // usually a kGlobal and a kTuple
  PickleValue state;               // of BUILD; kNone if there is none
  std::vector<PickleValue> items;  // of SETITEMS (pairs, as in kDict), or of APPENDS
  bool is_dict = false;            // `items` are pairs
};

class Pickle {
 public:
  /// Reads the pickle at the beginning of `bytes`; `used`: its length. Takes time in proportion to it. Throws Error,
  /// prefixed with `where`, for instructions that do not exist, are cut off or do not fit the stack, for
  /// globals whose names have more than 256 bytes, and when the result would need more than 1 GiB or the memory limit
  /// (core/memory.h).
  static Pickle Read(std::span<const std::byte> bytes, std::string_view where, size_t* used);

  PickleValue root() const { return root_; }
  /// The items of a tuple, list, set, dict or persistent id.
  std::span<const PickleValue> items(PickleValue value) const { return lists_[value.index]; }
  const PickleObject& object(PickleValue value) const { return objects_[value.index]; }
  /// A global's module and name with a dot between; empty for other values.
  std::string_view name(PickleValue value) const;
  /// All ids of things outside of the pickle, in its order.
  const std::vector<PickleValue>& persistent_ids() const { return persistent_ids_; }
  /// All names that the pickle mentions, each once.
  const std::deque<std::string>& globals() const { return globals_; }

 private:
  friend class PickleMachine;
  PickleValue root_;
  std::deque<std::vector<PickleValue>> lists_;
  std::deque<PickleObject> objects_;
  std::vector<PickleValue> persistent_ids_;
  std::deque<std::string> globals_, texts_;  // texts: those that are not in the file as they are
};

}  // namespace qkv::io
