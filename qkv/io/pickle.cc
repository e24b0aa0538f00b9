// The machine: a stack, marks and a memo, one pass over the instructions, no recursion. Each instruction costs as much
// as it reads or takes from the stack, so a pickle takes time in proportion to its length.
#include "qkv/io/pickle.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <limits>
#include <optional>
#include <unordered_map>
#include <utility>

#include "qkv/core/error.h"
#include "qkv/core/memory.h"
#include "qkv/io/json.h"
#include "qkv/io/little_endian.h"

namespace qkv::io {
namespace {

constexpr int kMaxProtocol = 5;
constexpr size_t kMaxStack = size_t{1} << 22;
constexpr size_t kMaxPickleMemory = size_t{1} << 30;
constexpr size_t kMemoEntry = 48;  // estimate of a hash table's memory

// Instructions, named as in Python's pickletools.
enum class Op : uint8_t {
  kMark = '(',
  kStop = '.',
  kPop = '0',
  kPopMark = '1',
  kDup = '2',
  kFloatLine = 'F',
  kIntLine = 'I',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kLongLine = 'L',
  kBinInt2 = 'M',
  kNone = 'N',
  kPersId = 'P',
  kBinPersId = 'Q',
  kReduce = 'R',
  kStringLine = 'S',
  kBinString = 'T',
  kShortBinString = 'U',
  kUnicodeLine = 'V',
  kBinUnicode = 'X',
  kAppend = 'a',
  kBuild = 'b',
  kGlobal = 'c',
  kDict = 'd',
  kEmptyDict = '}',
  kAppends = 'e',
  kGet = 'g',
  kBinGet = 'h',
  kInst = 'i',
  kLongBinGet = 'j',
  kList = 'l',
  kEmptyList = ']',
  kObj = 'o',
  kPut = 'p',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kEmptyTuple = ')',
  kSetItems = 'u',
  kBinFloat = 'G',
  kBinBytes = 'B',
  kShortBinBytes = 'C',
  kProto = 0x80,
  kNewObj = 0x81,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8A,
  kLong4 = 0x8B,
  kShortBinUnicode = 0x8C,
  kBinUnicode8 = 0x8D,
  kBinBytes8 = 0x8E,
  kEmptySet = 0x8F,
  kAddItems = 0x90,
  kFrozenSet = 0x91,
  kNewObjEx = 0x92,
  kStackGlobal = 0x93,
  kMemoize = 0x94,
  kFrame = 0x95,
  kByteArray8 = 0x96,
};

void AppendUtf8(uint32_t code, std::string* text) {
  const auto put = [&](uint32_t byte) { *text += static_cast<char>(byte); };
  if (code < 0x80) return put(code);
  if (code < 0x800) {
    put(0xC0 | code >> 6);
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12), put(0x80 | (code >> 6 & 0x3F));
  } else {
    put(0xF0 | (code >> 18 & 7)), put(0x80 | (code >> 12 & 0x3F)), put(0x80 | (code >> 6 & 0x3F));
  }
  put(0x80 | (code & 0x3F));
}

// The number of `digits` digits behind text[at]; none if they are not there.
std::optional<uint32_t> HexDigits(std::string_view text, size_t at, size_t digits) {
  if (at > text.size() || digits > text.size() - at) return std::nullopt;
  uint32_t code = 0;
  const char* const begin = text.data() + at;
  const auto [end, error] = std::from_chars(begin, begin + digits, code, 16);
  return error == std::errc() && end == begin + digits ? std::optional(code) : std::nullopt;
}

// Python's raw-unicode-escape: \uXXXX and \UXXXXXXXX; all else is Latin-1.
std::string DecodeUnicodeLine(std::string_view line) {
  std::string text;
  for (size_t i = 0; i < line.size();) {
    const size_t digits = line.substr(i).starts_with("\\u") ? 4 : line.substr(i).starts_with("\\U") ? 8 : 0;
    const std::optional<uint32_t> code = digits > 0 ? HexDigits(line, i + 2, digits) : std::nullopt;
    AppendUtf8(code.value_or(static_cast<unsigned char>(line[i])), &text);
    i += code ? 2 + digits : 1;
  }
  return text;
}

// The escapes of a string literal of Python 2.
std::string DecodeStringLine(std::string_view line) {
  static constexpr std::string_view kEscapes = "n\nt\tr\ra\ab\bf\fv\v\\\\''\"\"";
  std::string text;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\\' || i + 1 == line.size()) {
      text += line[i];
      continue;
    }
    const char c = line[++i];
    size_t known = 0;
    while (known < kEscapes.size() && kEscapes[known] != c) known += 2;
    if (known < kEscapes.size()) {
      text += kEscapes[known + 1];
    } else if (const auto code = HexDigits(line, i + 1, 2); c == 'x' && code) {
      text += static_cast<char>(*code);
      i += 2;
    } else {
      text += '\\';
      text += c;
    }
  }
  return text;
}

}  // namespace

class PickleMachine {
 public:
  PickleMachine(std::span<const std::byte> bytes, std::string_view where)
      : bytes_(bytes),
        where_(where),
        limit_(std::min<uint64_t>(kMaxPickleMemory, static_cast<uint64_t>(MemoryLimit()))) {}

  Pickle Run(size_t* used) {
    while (true) {
      const auto op = static_cast<Op>(Unsigned<uint8_t>());
      if (op == Op::kStop) break;
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

  bool RunLoad(Op op);
  bool RunText(Op op);
  bool RunContainer(Op op);
  bool RunObject(Op op);
  bool RunMemo(Op op);
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

bool PickleMachine::RunLoad(Op op) {
  switch (op) {
    case Op::kProto:
      if (const int protocol = Unsigned<uint8_t>(); protocol > kMaxProtocol) {
        Damaged(fmt::format("protocol {}, expected at most {},", protocol, kMaxProtocol));
      }
      return true;
    case Op::kFrame:
      if (Unsigned<uint64_t>() > bytes_.size() - at_) Damaged("it ends early");
      return true;
    case Op::kNone:
      Push({});
      return true;
    case Op::kNewTrue:
    case Op::kNewFalse:
      PushInt(op == Op::kNewTrue, PickleKind::kBool);
      return true;
    case Op::kBinInt:
      PushInt(static_cast<int32_t>(Unsigned<uint32_t>()));
      return true;
    case Op::kBinInt1:
      PushInt(Unsigned<uint8_t>());
      return true;
    case Op::kBinInt2:
      PushInt(Unsigned<uint16_t>());
      return true;
    case Op::kIntLine: {
      const std::string_view line = Line();
      const bool is_bool = line == "00" || line == "01";
      is_bool ? PushInt(line == "01", PickleKind::kBool) : PushDecimal(line);
      return true;
    }
    case Op::kLongLine:
      PushDecimal(Line());
      return true;
    case Op::kLong1:
      PushLong(Take(Unsigned<uint8_t>()));
      return true;
    case Op::kLong4:
      PushLong(Take(Unsigned<uint32_t>()));
      return true;
    case Op::kBinFloat:
    case Op::kFloatLine: {
      PickleValue value{.kind = PickleKind::kFloat};
      if (op == Op::kBinFloat) {
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

bool PickleMachine::RunText(Op op) {
  switch (op) {
    case Op::kShortBinString:
    case Op::kShortBinUnicode:
      PushText(Take(Unsigned<uint8_t>()), PickleKind::kString);
      return true;
    case Op::kBinString:
    case Op::kBinUnicode:
      PushText(Take(Unsigned<uint32_t>()), PickleKind::kString);
      return true;
    case Op::kBinUnicode8:
      PushText(Take(Unsigned<uint64_t>()), PickleKind::kString);
      return true;
    case Op::kShortBinBytes:
      PushText(Take(Unsigned<uint8_t>()), PickleKind::kBytes);
      return true;
    case Op::kBinBytes:
      PushText(Take(Unsigned<uint32_t>()), PickleKind::kBytes);
      return true;
    case Op::kBinBytes8:
    case Op::kByteArray8:
      PushText(Take(Unsigned<uint64_t>()), PickleKind::kBytes);
      return true;
    case Op::kUnicodeLine:
      PushOwned(DecodeUnicodeLine(Line()));
      return true;
    case Op::kStringLine: {
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

bool PickleMachine::RunContainer(Op op) {
  const auto extend_top = [&](PickleKind kind) {
    const std::vector<PickleValue> values(Marked().begin(), Marked().end());
    DropMarked();
    Extend(Top(), values, kind);
  };
  switch (op) {
    case Op::kMark:
      Require(marks_.size() < kMaxStack, "{}: the pickle needs a stack of more than {} values", where_, kMaxStack);
      marks_.push_back(stack_.size());
      return true;
    case Op::kEmptyTuple:
      LoadTuple(0);
      return true;
    case Op::kTuple1:
    case Op::kTuple2:
    case Op::kTuple3:
      LoadTuple(1 + static_cast<size_t>(op) - static_cast<size_t>(Op::kTuple1));
      return true;
    case Op::kTuple:
      LoadMarked(PickleKind::kTuple);
      return true;
    case Op::kList:
      LoadMarked(PickleKind::kList);
      return true;
    case Op::kDict:
      LoadMarked(PickleKind::kDict);
      return true;
    case Op::kFrozenSet:
      LoadMarked(PickleKind::kSet);
      return true;
    case Op::kEmptyList:
      PushItems(PickleKind::kList, {});
      return true;
    case Op::kEmptyDict:
      PushItems(PickleKind::kDict, {});
      return true;
    case Op::kEmptySet:
      PushItems(PickleKind::kSet, {});
      return true;
    case Op::kAppend: {
      const PickleValue value = Pop();
      Extend(Top(), {&value, 1}, PickleKind::kList);
      return true;
    }
    case Op::kSetItem: {
      const PickleValue value = Pop(), pair[] = {Pop(), value};
      Extend(Top(), pair, PickleKind::kDict);
      return true;
    }
    case Op::kAppends:
      extend_top(PickleKind::kList);
      return true;
    case Op::kSetItems:
      extend_top(PickleKind::kDict);
      return true;
    case Op::kAddItems:
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

bool PickleMachine::RunObject(Op op) {
  switch (op) {
    case Op::kGlobal:
    case Op::kInst: {
      const std::string_view module = Line(), name = Line();
      if (op == Op::kInst) LoadMarked(PickleKind::kTuple);
      PushGlobal(module, name);
      if (op == Op::kInst) {
        const PickleValue callable = Pop(), args = Pop();
        PushObject(callable, args);
      }
      return true;
    }
    case Op::kStackGlobal:
      LoadGlobal();
      return true;
    case Op::kReduce:
    case Op::kNewObj: {
      const PickleValue args = Pop(), callable = Pop();
      PushObject(callable, args);
      return true;
    }
    case Op::kNewObjEx: {
      Pop();  // named arguments: no class that is read here has any
      const PickleValue args = Pop(), callable = Pop();
      PushObject(callable, args);
      return true;
    }
    case Op::kObj: {
      if (Marked().empty()) Damaged("an object without a class");
      const PickleValue callable = Marked().front();
      const std::vector<PickleValue> args(Marked().begin() + 1, Marked().end());
      DropMarked();
      PushItems(PickleKind::kTuple, args);
      PushObject(callable, Pop());
      return true;
    }
    case Op::kBuild:
      Build();
      return true;
    case Op::kPersId:
      PushText(Line(), PickleKind::kString);
      [[fallthrough]];
    case Op::kBinPersId: {
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

bool PickleMachine::RunMemo(Op op) {
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
    case Op::kPop:
      // As Python: a mark on top is popped instead.
      if (!marks_.empty() && stack_.size() == marks_.back()) {
        marks_.pop_back();
      } else {
        Pop();
      }
      return true;
    case Op::kPopMark:
      Marked();
      DropMarked();
      return true;
    case Op::kDup:
      Push(Top());
      return true;
    case Op::kPut:
      put(index_line());
      return true;
    case Op::kBinPut:
      put(Unsigned<uint8_t>());
      return true;
    case Op::kLongBinPut:
      put(Unsigned<uint32_t>());
      return true;
    case Op::kMemoize:
      put(static_cast<uint32_t>(memo_.size()));
      return true;
    case Op::kGet:
      get(index_line());
      return true;
    case Op::kBinGet:
      get(Unsigned<uint8_t>());
      return true;
    case Op::kLongBinGet:
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
