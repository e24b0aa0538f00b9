// The machine: a stack, marks and a memo, one pass over the instructions, no recursion. Each instruction costs as much
// as it reads or takes from the stack, so a pickle takes time in proportion to its length.
#include "qkv/io/pickle.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <limits>
#include <unordered_map>
#include <utility>

#include "qkv/core/error.h"
#include "qkv/core/memory.h"
#include "qkv/io/json.h"
#include "qkv/io/little_endian.h"
#include "qkv/io/pickle_text.h"

namespace qkv::io {
namespace {

constexpr int kMaxProtocol = 5;
constexpr size_t kMaxStack = size_t{1} << 22;
constexpr size_t kMaxPickleMemory = size_t{1} << 30;
constexpr size_t kMaxGlobalName = 256;  // bytes, module and name; PyTorch's have about 50
constexpr size_t kMemoEntry = 48;       // estimate of a hash table's memory

}  // namespace

class PickleMachine {
 public:
  PickleMachine(std::span<const std::byte> bytes, std::string_view where)
      : bytes_(bytes),
        where_(where),
        limit_(std::min<uint64_t>(kMaxPickleMemory, static_cast<uint64_t>(MemoryLimit()))) {}

  Pickle Run(size_t* used) {
    while (true) {
      const auto op = static_cast<PickleOp>(Unsigned<uint8_t>());
      if (op == PickleOp::kStop) break;
      if (!RunLoad(op) && !RunContainer(op) && !RunObject(op) && !RunMemo(op)) {
        Damaged(fmt::format("instruction {:#04x}, which this reader does not know", static_cast<int>(op)));
      }
    }
    result_.root_ = Pop();
    *used = at_;
    return std::move(result_);
  }

 private:
  [[noreturn]] void Damaged(std::string_view what) const {
    Fail("{}: the pickle is damaged, or none: {} before byte {}", where_, what, at_);
  }

  // --- Reading.

  std::string_view Take(uint64_t count) {
    if (count > bytes_.size() - at_) Damaged("it ends early");
    const std::string_view taken(reinterpret_cast<const char*>(bytes_.data()) + at_, count);
    at_ += count;
    return taken;
  }
  template <typename T>
  T Unsigned() {
    const size_t at = at_;
    Take(sizeof(T));
    return LittleEndian<T>(bytes_, at);
  }
  std::string_view Line() {
    const std::string_view rest(reinterpret_cast<const char*>(bytes_.data()) + at_, bytes_.size() - at_);
    const size_t end = rest.find('\n');
    if (end == rest.npos) Damaged("a line without an end");
    at_ += end + 1;
    return rest.substr(0, end);
  }

  // --- Memory.

  void Charge(size_t bytes) {
    charged_ += bytes;
    Require(charged_ <= limit_, "{}: the pickle would need more than {} of memory: no file of weights", where_,
            FormatBytes(static_cast<double>(limit_)));
  }

  // --- Values.

  void Push(PickleValue value) {
    Require(stack_.size() < kMaxStack, "{}: the pickle needs a stack of more than {} values", where_, kMaxStack);
    stack_.push_back(value);
  }
  void PushInt(int64_t integer, PickleKind kind = PickleKind::kInt) {
    PickleValue value{.kind = kind};
    value.integer = integer;
    Push(value);
  }
  void PushText(std::string_view text, PickleKind kind) {
    if (text.size() > std::numeric_limits<uint32_t>::max()) Damaged("a text of more than 4 GiB");
    PickleValue value{.kind = kind, .length = static_cast<uint32_t>(text.size())};
    value.chars = text.data();
    Push(value);
  }
  void PushOwned(std::string text) {
    Charge(sizeof(std::string) + text.capacity());
    PushText(result_.texts_.emplace_back(std::move(text)), PickleKind::kString);
  }
  void PushIndexed(PickleKind kind, size_t index) {
    PickleValue value{.kind = kind};
    value.index = static_cast<uint32_t>(index);
    Push(value);
  }
  void PushItems(PickleKind kind, std::span<const PickleValue> items) {
    Charge(sizeof(std::vector<PickleValue>) + items.size_bytes());
    result_.lists_.emplace_back(items.begin(), items.end());
    PushIndexed(kind, result_.lists_.size() - 1);
  }
  void PushGlobal(std::string_view module, std::string_view name) {
    // One instruction of a few bytes can name a text of any length again.
    if (module.size() + name.size() > kMaxGlobalName) {
      Damaged(fmt::format("a global whose name has {} bytes, expected at most {},", module.size() + name.size(),
                          kMaxGlobalName));
    }
    std::string full = fmt::format("{}.{}", module, name);
    const auto [found, is_new] = global_index_.try_emplace(std::move(full), result_.globals_.size());
    if (is_new) {
      Charge(2 * (sizeof(std::string) + found->first.capacity()) + kMemoEntry);
      result_.globals_.push_back(found->first);
    }
    PushIndexed(PickleKind::kGlobal, found->second);
  }
  void PushObject(PickleValue callable, PickleValue args) {
    Charge(sizeof(PickleObject));
    result_.objects_.push_back({.callable = callable, .args = args, .state = {}, .items = {}});
    PushIndexed(PickleKind::kObject, result_.objects_.size() - 1);
  }
  void PushLong(std::string_view bytes) {
    if (bytes.size() > sizeof(int64_t)) return PushText(bytes, PickleKind::kLong);
    uint64_t number = !bytes.empty() && (bytes.back() & 0x80) != 0 ? ~uint64_t{0} : 0;
    for (size_t i = bytes.size(); i-- > 0;) number = number << 8 | static_cast<unsigned char>(bytes[i]);
    PushInt(static_cast<int64_t>(number));
  }
  void PushDecimal(std::string_view digits) {
    if (digits.ends_with('L')) digits.remove_suffix(1);
    int64_t number = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error == std::errc::result_out_of_range) return PushText(digits, PickleKind::kLong);
    if (error != std::errc() || end != digits.data() + digits.size()) Damaged("an integer without digits");
    PushInt(number);
  }

  // Values above the last mark, or on the whole stack, are the only ones that an instruction may take.
  size_t Floor() const { return marks_.empty() ? 0 : marks_.back(); }
  PickleValue Pop() {
    if (stack_.size() <= Floor()) Damaged("an empty stack");
    const PickleValue value = stack_.back();
    stack_.pop_back();
    return value;
  }
  PickleValue& Top() {
    if (stack_.size() <= Floor()) Damaged("an empty stack");
    return stack_.back();
  }
  // The values above the last mark; DropMarked follows.
  std::span<const PickleValue> Marked() {
    if (marks_.empty()) Damaged("no mark");
    return std::span(stack_).subspan(marks_.back());
  }
  void DropMarked() {
    stack_.resize(marks_.back());
    marks_.pop_back();
  }

  // --- Instructions. Each of these returns false if the instruction is none of its own.

  bool RunLoad(PickleOp op);
  bool RunText(PickleOp op);
  bool RunContainer(PickleOp op);
  bool RunObject(PickleOp op);
  bool RunMemo(PickleOp op);
  void LoadTuple(size_t count);
  void LoadMarked(PickleKind kind);
  void Extend(PickleValue to, std::span<const PickleValue> values, PickleKind kind);
  void LoadGlobal();
  void Build();

  std::span<const std::byte> bytes_;
  std::string_view where_;
  uint64_t limit_;
  size_t at_ = 0;
  uint64_t charged_ = 0;
  std::vector<PickleValue> stack_;
  std::vector<size_t> marks_;  // sizes of the stack
  std::unordered_map<uint32_t, PickleValue> memo_;
  std::unordered_map<std::string, size_t> global_index_;
  Pickle result_;
};

bool PickleMachine::RunLoad(PickleOp op) {
  switch (op) {
    case PickleOp::kProto:
      if (const int protocol = Unsigned<uint8_t>(); protocol > kMaxProtocol) {
        Damaged(fmt::format("protocol {}, expected at most {},", protocol, kMaxProtocol));
      }
      return true;
    case PickleOp::kFrame:
      if (Unsigned<uint64_t>() > bytes_.size() - at_) Damaged("it ends early");
      return true;
    case PickleOp::kNone:
      Push({});
      return true;
    case PickleOp::kNewTrue:
    case PickleOp::kNewFalse:
      PushInt(op == PickleOp::kNewTrue, PickleKind::kBool);
      return true;
    case PickleOp::kBinInt:
      PushInt(static_cast<int32_t>(Unsigned<uint32_t>()));
      return true;
    case PickleOp::kBinInt1:
      PushInt(Unsigned<uint8_t>());
      return true;
    case PickleOp::kBinInt2:
      PushInt(Unsigned<uint16_t>());
      return true;
    case PickleOp::kIntLine: {
      const std::string_view line = Line();
      const bool is_bool = line == "00" || line == "01";
      is_bool ? PushInt(line == "01", PickleKind::kBool) : PushDecimal(line);
      return true;
    }
    case PickleOp::kLongLine:
      PushDecimal(Line());
      return true;
    case PickleOp::kLong1:
      PushLong(Take(Unsigned<uint8_t>()));
      return true;
    case PickleOp::kLong4:
      PushLong(Take(Unsigned<uint32_t>()));
      return true;
    case PickleOp::kBinFloat:
    case PickleOp::kFloatLine: {
      PickleValue value{.kind = PickleKind::kFloat};
      if (op == PickleOp::kBinFloat) {
        value.number = std::bit_cast<double>(__builtin_bswap64(Unsigned<uint64_t>()));
      } else {
        const std::string_view line = Line();
        value.number = 0;
        if (std::from_chars(line.data(), line.data() + line.size(), value.number).ec == std::errc::invalid_argument) {
          Damaged("a number without digits");
        }
      }
      Push(value);
      return true;
    }
    default:
      return RunText(op);
  }
}

bool PickleMachine::RunText(PickleOp op) {
  switch (op) {
    case PickleOp::kShortBinString:
    case PickleOp::kShortBinUnicode:
      PushText(Take(Unsigned<uint8_t>()), PickleKind::kString);
      return true;
    case PickleOp::kBinString:
    case PickleOp::kBinUnicode:
      PushText(Take(Unsigned<uint32_t>()), PickleKind::kString);
      return true;
    case PickleOp::kBinUnicode8:
      PushText(Take(Unsigned<uint64_t>()), PickleKind::kString);
      return true;
    case PickleOp::kShortBinBytes:
      PushText(Take(Unsigned<uint8_t>()), PickleKind::kBytes);
      return true;
    case PickleOp::kBinBytes:
      PushText(Take(Unsigned<uint32_t>()), PickleKind::kBytes);
      return true;
    case PickleOp::kBinBytes8:
    case PickleOp::kByteArray8:
      PushText(Take(Unsigned<uint64_t>()), PickleKind::kBytes);
      return true;
    case PickleOp::kUnicodeLine:
      PushOwned(DecodeUnicodeLine(Line()));
      return true;
    case PickleOp::kStringLine: {
      const std::string_view line = Line();
      if (line.size() < 2 || line.front() != line.back() || (line.front() != '\'' && line.front() != '"')) {
        Damaged("a string without quotes");
      }
      PushOwned(DecodeStringLine(line.substr(1, line.size() - 2)));
      return true;
    }
    default:
      return false;
  }
}

void PickleMachine::LoadTuple(size_t count) {
  if (stack_.size() < Floor() + count) Damaged("an empty stack");
  std::vector<PickleValue> items(stack_.end() - static_cast<ptrdiff_t>(count), stack_.end());
  stack_.resize(stack_.size() - count);
  PushItems(PickleKind::kTuple, items);
}

void PickleMachine::LoadMarked(PickleKind kind) {
  const std::span<const PickleValue> marked = Marked();
  if (kind == PickleKind::kDict && marked.size() % 2 != 0) Damaged("a key without a value");
  const std::vector<PickleValue> items(marked.begin(), marked.end());
  DropMarked();
  PushItems(kind, items);
}

// Adds values to a container of this kind, or to an object.
void PickleMachine::Extend(PickleValue to, std::span<const PickleValue> values, PickleKind kind) {
  const bool pairs = kind == PickleKind::kDict;
  if (pairs && values.size() % 2 != 0) Damaged("a key without a value");
  Charge(2 * values.size_bytes());  // vectors grow by doubling
  if (to.is(kind)) {
    std::vector<PickleValue>& items = result_.lists_[to.index];
    items.insert(items.end(), values.begin(), values.end());
  } else if (to.is(PickleKind::kObject)) {
    PickleObject& object = result_.objects_[to.index];
    if (object.is_dict != pairs && !object.items.empty()) Damaged("an object that is a list and a dictionary");
    object.is_dict = pairs;
    object.items.insert(object.items.end(), values.begin(), values.end());
  } else {
    Damaged("items for something that has none");
  }
}

bool PickleMachine::RunContainer(PickleOp op) {
  const auto extend_top = [&](PickleKind kind) {
    const std::vector<PickleValue> values(Marked().begin(), Marked().end());
    DropMarked();
    Extend(Top(), values, kind);
  };
  switch (op) {
    case PickleOp::kMark:
      Require(marks_.size() < kMaxStack, "{}: the pickle needs a stack of more than {} values", where_, kMaxStack);
      marks_.push_back(stack_.size());
      return true;
    case PickleOp::kEmptyTuple:
      LoadTuple(0);
      return true;
    case PickleOp::kTuple1:
    case PickleOp::kTuple2:
    case PickleOp::kTuple3:
      LoadTuple(1 + static_cast<size_t>(op) - static_cast<size_t>(PickleOp::kTuple1));
      return true;
    case PickleOp::kTuple:
      LoadMarked(PickleKind::kTuple);
      return true;
    case PickleOp::kList:
      LoadMarked(PickleKind::kList);
      return true;
    case PickleOp::kDict:
      LoadMarked(PickleKind::kDict);
      return true;
    case PickleOp::kFrozenSet:
      LoadMarked(PickleKind::kSet);
      return true;
    case PickleOp::kEmptyList:
      PushItems(PickleKind::kList, {});
      return true;
    case PickleOp::kEmptyDict:
      PushItems(PickleKind::kDict, {});
      return true;
    case PickleOp::kEmptySet:
      PushItems(PickleKind::kSet, {});
      return true;
    case PickleOp::kAppend: {
      const PickleValue value = Pop();
      Extend(Top(), {&value, 1}, PickleKind::kList);
      return true;
    }
    case PickleOp::kSetItem: {
      const PickleValue value = Pop(), pair[] = {Pop(), value};
      Extend(Top(), pair, PickleKind::kDict);
      return true;
    }
    case PickleOp::kAppends:
      extend_top(PickleKind::kList);
      return true;
    case PickleOp::kSetItems:
      extend_top(PickleKind::kDict);
      return true;
    case PickleOp::kAddItems:
      extend_top(PickleKind::kSet);
      return true;
    default:
      return false;
  }
}

void PickleMachine::LoadGlobal() {
  const PickleValue name = Pop(), module = Pop();
  if (!name.is(PickleKind::kString) || !module.is(PickleKind::kString)) Damaged("a global whose name is no text");
  PushGlobal(module.text(), name.text());
}

// A later state takes the place of an earlier one.
void PickleMachine::Build() {
  const PickleValue state = Pop(), object = Top();
  if (!object.is(PickleKind::kObject)) Damaged("a state for something that has none");
  result_.objects_[object.index].state = state;
}

bool PickleMachine::RunObject(PickleOp op) {
  switch (op) {
    case PickleOp::kGlobal:
    case PickleOp::kInst: {
      const std::string_view module = Line(), name = Line();
      if (op == PickleOp::kInst) LoadMarked(PickleKind::kTuple);
      PushGlobal(module, name);
      if (op == PickleOp::kInst) {
        const PickleValue callable = Pop(), args = Pop();
        PushObject(callable, args);
      }
      return true;
    }
    case PickleOp::kStackGlobal:
      LoadGlobal();
      return true;
    case PickleOp::kReduce:
    case PickleOp::kNewObj: {
      const PickleValue args = Pop(), callable = Pop();
      PushObject(callable, args);
      return true;
    }
    case PickleOp::kNewObjEx: {
      Pop();  // named arguments: no class that is read here has any
      const PickleValue args = Pop(), callable = Pop();
      PushObject(callable, args);
      return true;
    }
    case PickleOp::kObj: {
      if (Marked().empty()) Damaged("an object without a class");
      const PickleValue callable = Marked().front();
      const std::vector<PickleValue> args(Marked().begin() + 1, Marked().end());
      DropMarked();
      PushItems(PickleKind::kTuple, args);
      PushObject(callable, Pop());
      return true;
    }
    case PickleOp::kBuild:
      Build();
      return true;
    case PickleOp::kPersId:
      PushText(Line(), PickleKind::kString);
      [[fallthrough]];
    case PickleOp::kBinPersId: {
      const PickleValue id = Pop();
      Charge(2 * sizeof(id));
      result_.persistent_ids_.push_back(id);
      PushItems(PickleKind::kPersistent, {&id, 1});
      return true;
    }
    default:
      return false;
  }
}

bool PickleMachine::RunMemo(PickleOp op) {
  const auto index_line = [&] {
    const std::string_view line = Line();
    uint32_t index = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), index);
    if (error != std::errc() || end != line.data() + line.size()) Damaged("a place in the memo that is no number");
    return index;
  };
  const auto put = [&](uint32_t index) {
    const auto [entry, is_new] = memo_.insert_or_assign(index, Top());
    if (is_new) Charge(kMemoEntry);
  };
  const auto get = [&](uint32_t index) {
    const auto found = memo_.find(index);
    if (found == memo_.end()) Damaged("a place in the memo that is empty");
    Push(found->second);
  };
  switch (op) {
    case PickleOp::kPop:
      // As Python: a mark on top is popped instead.
      if (!marks_.empty() && stack_.size() == marks_.back()) {
        marks_.pop_back();
      } else {
        Pop();
      }
      return true;
    case PickleOp::kPopMark:
      Marked();
      DropMarked();
      return true;
    case PickleOp::kDup:
      Push(Top());
      return true;
    case PickleOp::kPut:
      put(index_line());
      return true;
    case PickleOp::kBinPut:
      put(Unsigned<uint8_t>());
      return true;
    case PickleOp::kLongBinPut:
      put(Unsigned<uint32_t>());
      return true;
    case PickleOp::kMemoize:
      put(static_cast<uint32_t>(memo_.size()));
      return true;
    case PickleOp::kGet:
      get(index_line());
      return true;
    case PickleOp::kBinGet:
      get(Unsigned<uint8_t>());
      return true;
    case PickleOp::kLongBinGet:
      get(Unsigned<uint32_t>());
      return true;
    default:
      return false;
  }
}

Pickle Pickle::Read(std::span<const std::byte> bytes, std::string_view where, size_t* used) {
  return PickleMachine(bytes, where).Run(used);
}

std::string_view Pickle::name(PickleValue value) const {
  return value.is(PickleKind::kGlobal) ? std::string_view(globals_[value.index]) : std::string_view();
}

}  // namespace qkv::io
