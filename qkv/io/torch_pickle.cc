#include "qkv/io/torch_pickle.h"

#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>

#include "qkv/core/error.h"
#include "qkv/core/memory.h"
#include "qkv/io/json.h"
#include "qkv/io/torch_names.h"

namespace qkv::io {
namespace {

using Items = std::span<const PickleValue>;

constexpr size_t kMaxTensors = size_t{1} << 18;
constexpr size_t kMaxNameBytes = size_t{64} << 20;  // of all names together
constexpr size_t kMaxDepth = 64;                    // of dictionaries and modules; real ones have about 15
constexpr size_t kMaxShownCalls = 5;
constexpr uint32_t kMaxKey = 256;             // bytes of a storage's key; PyTorch's are numbers
constexpr size_t kMostSettings = 512;         // of a training script; timm's has about 150
constexpr size_t kMaxWork = size_t{1} << 26;  // values looked at, all together: below a second

class ContentsReader {
 public:
  ContentsReader(const Pickle& pickle, std::string_view where) : pickle_(pickle), where_(where) {}

  TorchContents Read();

 private:
  struct Open {
    PickleValue value;
    std::string path;
    size_t depth = 0;
  };

  Items ArgumentsOf(const PickleObject& object) const {
    return object.args.is(PickleKind::kTuple) ? pickle_.items(object.args) : Items{};
  }
  // Throws Error if shared objects make this small file as much work as a large one.
  void Work(size_t steps) {
    work_ += steps;
    Require(work_ <= kMaxWork, "{}: the pickle names the same objects too often: no file of weights", where_);
  }
  std::string_view ClassName(const PickleObject& object) const;
  std::optional<Items> Pairs(PickleValue value);
  std::optional<Items> ModuleState(PickleValue value);
  PickleValue Find(Items pairs, std::string_view key);

  std::optional<TorchTensor> ReadTensor(PickleValue value);
  TorchTensor Rebuild(std::string_view function, Items args);
  const TorchStorageType* ReadStorage(PickleValue id, size_t* storage, uint64_t* view);
  void ReadExtents(Items args, TorchTensor* tensor) const;
  std::optional<std::vector<int64_t>> Numbers(PickleValue value) const;

  void AddTensor(std::string name, TorchTensor tensor, TorchDictionary* to);
  void AddOther(std::string_view key, PickleValue value, TorchDictionary* to);
  void AddNameBytes(size_t bytes) {
    name_bytes_ += bytes;
    Require(name_bytes_ <= kMaxNameBytes, "{}: more than {} of names", where_,
            FormatBytes(static_cast<double>(kMaxNameBytes)));
  }
  void ReadDictionary(const Open& open, Items pairs);
  void ReadModule(const Open& open);
  void ReadParameters(Items state, const std::string& prefix, TorchDictionary* to);
  void NoteUnknown(std::string_view name);
  Json Plain(PickleValue value, int depth);
  Json PlainPairs(Items pairs, int depth);
  void ReadTraining(Items pairs);

  const Pickle& pickle_;
  std::string_view where_;
  TorchContents contents_;
  std::unordered_map<std::string, size_t> storage_index_;
  std::vector<Open> open_;                                            // a stack
  std::unordered_map<uint32_t, std::vector<PickleValue>> converted_;  // dictionaries given as lists of pairs
  size_t tensors_ = 0, name_bytes_ = 0, work_ = 0;
};

// The class or function that would be called.
std::string_view ContentsReader::ClassName(const PickleObject& object) const {
  PickleValue callable = object.callable;
  const std::string_view name = pickle_.name(callable);
  const Items args = ArgumentsOf(object);
  const bool made_anew = name == "copyreg._reconstructor" || name == "copy_reg._reconstructor" ||
                         name == "copyreg.__newobj__" || name == "copy_reg.__newobj__";
  if (made_anew && !args.empty()) callable = args.front();
  // The old format stores classes of modules with their source, which is of no interest: ("module", class, …).
  if (callable.is(PickleKind::kPersistent)) {
    const PickleValue id = pickle_.items(callable).front();
    if (id.is(PickleKind::kTuple) && pickle_.items(id).size() > 1) callable = pickle_.items(id)[1];
  }
  // What a call returns is called: getattr(module, "function")(…).
  constexpr int kMostCalls = 8;
  for (int i = 0; i < kMostCalls && callable.is(PickleKind::kObject); ++i) {
    callable = pickle_.object(callable).callable;
  }
  return callable.is(PickleKind::kGlobal) ? pickle_.name(callable) : "something without a name";
}

// Keys and values of a dictionary or of an object that is one.
std::optional<Items> ContentsReader::Pairs(PickleValue value) {
  if (value.is(PickleKind::kDict)) return pickle_.items(value);
  if (!value.is(PickleKind::kObject)) return std::nullopt;
  const PickleObject& object = pickle_.object(value);
  if (object.is_dict) return object.items;
  const std::string_view name = ClassName(object);
  if (name != "collections.OrderedDict" && name != "collections.defaultdict") return std::nullopt;
  // Python 2: OrderedDict([[key, value], …])
  const Items args = ArgumentsOf(object);
  if (args.empty() || !args.front().is(PickleKind::kList)) return Items{};
  const auto [found, is_new] = converted_.try_emplace(value.index);
  std::vector<PickleValue>& pairs = found->second;
  if (!is_new) return pairs;
  Work(pickle_.items(args.front()).size());
  for (const PickleValue pair : pickle_.items(args.front())) {
    const bool is_pair = pair.is(PickleKind::kList) || pair.is(PickleKind::kTuple);
    if (!is_pair || pickle_.items(pair).size() != 2) continue;
    pairs.insert(pairs.end(), pickle_.items(pair).begin(), pickle_.items(pair).end());
  }
  return pairs;
}

PickleValue ContentsReader::Find(Items pairs, std::string_view key) {
  Work(pairs.size() / 2);
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    if (pairs[i].is(PickleKind::kString) && pairs[i].text() == key) return pairs[i + 1];
  }
  return {};
}

// The attributes of a module: an object of any class whose state has submodules or parameters.
std::optional<Items> ContentsReader::ModuleState(PickleValue value) {
  if (!value.is(PickleKind::kObject)) return std::nullopt;
  const PickleValue state = pickle_.object(value).state;
  if (!state.is(PickleKind::kDict)) return std::nullopt;
  const Items pairs = pickle_.items(state);
  const bool is_module =
      !Find(pairs, "_modules").is(PickleKind::kNone) && !Find(pairs, "_parameters").is(PickleKind::kNone);
  return is_module ? std::optional(pairs) : std::nullopt;
}

std::optional<std::vector<int64_t>> ContentsReader::Numbers(PickleValue value) const {
  if (value.is(PickleKind::kObject) && ClassName(pickle_.object(value)) == "torch.Size") {
    const Items args = ArgumentsOf(pickle_.object(value));
    if (args.size() == 1) value = args.front();
  }
  if (!value.is(PickleKind::kTuple) && !value.is(PickleKind::kList)) return std::nullopt;
  constexpr size_t kMostAxes = 64;  // PyTorch's own limit
  if (pickle_.items(value).size() > kMostAxes) return std::nullopt;
  std::vector<int64_t> numbers;
  for (const PickleValue item : pickle_.items(value)) {
    if (!item.is(PickleKind::kInt)) return std::nullopt;
    numbers.push_back(item.integer);
  }
  return numbers;
}

// Offset, sizes and strides: args[1 … 3].
void ContentsReader::ReadExtents(Items args, TorchTensor* tensor) const {
  const std::optional<std::vector<int64_t>> sizes = Numbers(args[2]), strides = Numbers(args[3]);
  const auto negative = [](int64_t number) { return number < 0; };
  Require(args[1].is(PickleKind::kInt) && args[1].integer >= 0 && sizes && strides &&
              sizes->size() == strides->size() && std::ranges::none_of(*sizes, negative) &&
              std::ranges::none_of(*strides, negative),
          "{}: a tensor whose offset, sizes and strides are not what PyTorch writes", where_);
  tensor->offset = static_cast<uint64_t>(args[1].integer);
  if (sizes->size() > Shape::kMaxRank) {
    tensor->obstacle = fmt::format("has {} axes, at most {} are read", sizes->size(), Shape::kMaxRank);
    return;
  }
  try {
    tensor->shape = Shape(*sizes);
  } catch (const Error& error) {
    Fail("{}: {}", where_, EscapedText{error.what()});
  }
  std::ranges::copy(*strides, tensor->strides.begin());
}

// ("storage", type, key, location, number of elements, perhaps a view of it). Null if the id is none.
const TorchStorageType* ContentsReader::ReadStorage(PickleValue id, size_t* storage, uint64_t* view) {
  if (!id.is(PickleKind::kTuple)) return nullptr;
  const Items parts = pickle_.items(id);
  if (parts.size() < 5 || !parts[0].is(PickleKind::kString) || parts[0].text() != "storage" ||
      !parts[2].is(PickleKind::kString) || parts[2].length > kMaxKey || !parts[4].is(PickleKind::kInt) ||
      parts[4].integer < 0) {
    return nullptr;
  }
  const TorchStorageType* const type = FindTorchStorage(pickle_.name(parts[1]));
  if (type == nullptr) return nullptr;
  // Before PyTorch 0.4, storages could be parts of others: (key, offset, number of elements).
  *view = 0;
  if (parts.size() > 5 && parts[5].is(PickleKind::kTuple)) {
    const Items part = pickle_.items(parts[5]);
    if (part.size() != 3 || !part[1].is(PickleKind::kInt) || part[1].integer < 0) return nullptr;
    *view = static_cast<uint64_t>(part[1].integer);
  }
  const auto elements = static_cast<uint64_t>(parts[4].integer);
  const auto [found, is_new] = storage_index_.try_emplace(std::string(parts[2].text()), contents_.storages.size());
  if (is_new) contents_.storages.push_back({found->first, type->element, elements});
  TorchStorage& known = contents_.storages[found->second];
  Require(known.element == type->element && known.elements == elements,
          "{}: storage {} has {} elements of {} bytes, and elsewhere {} of {}", where_, Quoted(known.key),
          known.elements, known.element, elements, type->element);
  *storage = found->second;
  return type;
}

TorchTensor ContentsReader::Rebuild(std::string_view function, Items args) {
  TorchTensor tensor;
  const bool v3 = function.ends_with("_v3");
  Require(args.size() >= (v3 ? 7u : 4u), "{}: {} with {} arguments", where_, function, args.size());
  uint64_t view = 0;
  const TorchStorageType* const storage = args[0].is(PickleKind::kPersistent)
                                              ? ReadStorage(pickle_.items(args[0]).front(), &tensor.storage, &view)
                                              : nullptr;
  Require(storage != nullptr, "{}: a tensor whose storage is not what PyTorch writes", where_);
  const std::optional<DType> type = v3 ? FindTorchType(pickle_.name(args[6])) : storage->type;
  if (!type) {
    tensor.obstacle = fmt::format("is of type {}, which qkv does not read; convert it to a float type",
                                  v3 ? pickle_.name(args[6]) : storage->name);
    return tensor;
  }
  tensor.dtype = *type;
  ReadExtents(args, &tensor);
  Require(!__builtin_add_overflow(tensor.offset, view, &tensor.offset), "{}: a tensor whose offset overflows", where_);
  // Bits that change the meaning of the elements: {"neg": True}.
  const size_t metadata = v3 ? 7 : 6;
  if (args.size() > metadata && args[metadata].is(PickleKind::kDict)) {
    const Items all = pickle_.items(args[metadata]), bits = all.first(std::min<size_t>(all.size(), 8));
    for (size_t i = 1; i < bits.size(); i += 2) {
      if (bits[i].is(PickleKind::kBool) && bits[i].integer != 0) tensor.obstacle = "is a lazy conjugate or negative";
    }
  }
  return tensor;
}

// None if the value is no tensor.
std::optional<TorchTensor> ContentsReader::ReadTensor(PickleValue value) {
  static constexpr std::string_view kUtils = "torch._utils.";
  constexpr int kMostWrappers = 8;  // parameters of parameters: one is usual
  for (int i = 0; i < kMostWrappers && value.is(PickleKind::kObject); ++i) {
    std::string_view name = ClassName(pickle_.object(value));
    Items args = ArgumentsOf(pickle_.object(value));
    // A subclass of Tensor, or one with attributes: (function, class, its arguments, state).
    if (name == "torch._tensor._rebuild_from_type_v2" && args.size() >= 3 && args[2].is(PickleKind::kTuple)) {
      name = pickle_.name(args[0]);
      args = pickle_.items(args[2]);
    }
    if (name == "torch.nn.parameter.Parameter" || name == "torch.nn.parameter.Buffer" ||
        name.starts_with("torch._utils._rebuild_parameter")) {
      if (args.empty()) return std::nullopt;
      value = args.front();
      continue;
    }
    if (name == "torch._utils._rebuild_tensor" || name == "torch._utils._rebuild_tensor_v2" ||
        name == "torch._utils._rebuild_tensor_v3") {
      return Rebuild(name, args);
    }
    if (name.starts_with("torch._utils._rebuild_")) {
      TorchTensor tensor;
      std::string_view kind = name.substr(kUtils.size() + std::string_view("_rebuild_").size());
      tensor.obstacle = fmt::format("is no plain tensor ({}); make it dense, of a float type", kind);
      return tensor;
    }
    if (name.ends_with("multiarray._reconstruct")) {
      TorchTensor tensor;
      tensor.obstacle = "is a NumPy array, expected a tensor (torch.from_numpy makes one)";
      return tensor;
    }
    return std::nullopt;
  }
  return std::nullopt;
}

void ContentsReader::NoteUnknown(std::string_view name) {
  if (contents_.unknown.size() < kMaxShownCalls &&
      std::ranges::find(contents_.unknown, name) == contents_.unknown.end()) {
    contents_.unknown.emplace_back(name);
  }
}

void ContentsReader::AddTensor(std::string name, TorchTensor tensor, TorchDictionary* to) {
  AddNameBytes(name.size());
  Require(++tensors_ <= kMaxTensors, "{}: more than {} tensors", where_, kMaxTensors);
  tensor.name = std::move(name);
  to->tensors.push_back(std::move(tensor));
}

// Records a value that is no tensor, beside tensors. The result of an unknown function of arguments may have been a
// tensor.
void ContentsReader::AddOther(std::string_view key, PickleValue value, TorchDictionary* to) {
  if (value.is(PickleKind::kObject)) {
    const PickleObject& object = pickle_.object(value);
    const std::string_view name = ClassName(object);
    // The callable is itself the result of a call: whatever looked it up, such as getattr, it may be any function.
    const bool known = IsHarmless(name) && !object.callable.is(PickleKind::kObject);
    const bool computed = !known && object.state.is(PickleKind::kNone) && !ArgumentsOf(object).empty();
    NoteUnknown(name);
    if (computed && !key.ends_with("_extra_state")) {
      TorchTensor tensor;
      tensor.obstacle = fmt::format("asks to run code: {}", name);
      return AddTensor(std::string(key), std::move(tensor), to);
    }
  }
  if (to->left_out.size() == kMaxTensors) return;
  AddNameBytes(key.size());
  to->left_out.emplace_back(key);
}

void ContentsReader::ReadDictionary(const Open& open, Items pairs) {
  Work(pairs.size());
  TorchDictionary dictionary{.path = open.path, .tensors = {}, .left_out = {}};
  std::vector<Open> inner;
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    if (!pairs[i].is(PickleKind::kString)) continue;
    const std::string_view key = pairs[i].text();
    const PickleValue value = pairs[i + 1];
    if (std::optional<TorchTensor> tensor = ReadTensor(value)) {
      AddTensor(std::string(key), std::move(*tensor), &dictionary);
    } else if (Pairs(value) || ModuleState(value)) {
      if (key.starts_with("optim") || open.depth >= kMaxDepth) continue;
      AddNameBytes(open.path.size() + key.size());
      std::string path = open.path == "." ? std::string(key) : fmt::format("{}.{}", open.path, key);
      inner.push_back({value, std::move(path), open.depth + 1});
    } else {
      AddOther(key, value, &dictionary);
    }
  }
  open_.insert(open_.end(), inner.rbegin(), inner.rend());
  if (!dictionary.tensors.empty()) contents_.dictionaries.push_back(std::move(dictionary));
}

// Parameters and persistent buffers, as state_dict() lists them.
void ContentsReader::ReadParameters(Items state, const std::string& prefix, TorchDictionary* to) {
  std::set<std::string_view> left_out;
  PickleValue names = Find(state, "_non_persistent_buffers_set");
  if (names.is(PickleKind::kObject)) {  // set([…]) of protocols below 4
    const Items args = ArgumentsOf(pickle_.object(names));
    if (args.size() == 1 && args.front().is(PickleKind::kList)) names = args.front();
  }
  if (names.is(PickleKind::kSet) || names.is(PickleKind::kList)) {
    Work(pickle_.items(names).size());
    for (const PickleValue name : pickle_.items(names)) {
      if (!name.is(PickleKind::kString)) continue;
      AddNameBytes(name.length);
      left_out.insert(name.text());
    }
  }
  for (const std::string_view group : {"_parameters", "_buffers"}) {
    const Items pairs = Pairs(Find(state, group)).value_or(Items{});
    Work(pairs.size());
    for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
      const PickleValue key = pairs[i], value = pairs[i + 1];
      if (!key.is(PickleKind::kString) || value.is(PickleKind::kNone)) continue;
      AddNameBytes(prefix.size() + key.length);  // also of those that are compared alone
      if (group == "_buffers" && left_out.contains(key.text())) continue;
      std::string name = prefix + std::string(key.text());
      if (std::optional<TorchTensor> tensor = ReadTensor(value)) {
        AddTensor(std::move(name), std::move(*tensor), to);
      } else {
        AddOther(name, value, to);
      }
    }
  }
}

void ContentsReader::ReadModule(const Open& open) {
  struct Module {
    PickleValue value;
    std::string prefix;
    size_t depth;
  };
  TorchDictionary dictionary{.path = open.path, .tensors = {}, .left_out = {}};
  std::vector<Module> modules = {{open.value, "", 0}};
  while (!modules.empty()) {
    const Module module = std::move(modules.back());
    modules.pop_back();
    const std::optional<Items> state = ModuleState(module.value);
    if (!state) continue;
    Require(module.depth <= kMaxDepth, "{}: modules nested more than {} deep", where_, kMaxDepth);
    ReadParameters(*state, module.prefix, &dictionary);
    const Items inner = Pairs(Find(*state, "_modules")).value_or(Items{});
    Work(inner.size());
    for (size_t i = inner.size() / 2; i-- > 0;) {
      const PickleValue key = inner[2 * i], value = inner[2 * i + 1];
      if (!key.is(PickleKind::kString) || !value.is(PickleKind::kObject)) continue;
      AddNameBytes(module.prefix.size() + key.length + 1);
      modules.push_back({value, fmt::format("{}{}.", module.prefix, key.text()), module.depth + 1});
    }
  }
  if (!dictionary.tensors.empty()) contents_.dictionaries.push_back(std::move(dictionary));
}

// A value that is plain data; null for all else.
Json ContentsReader::Plain(PickleValue value, int depth) {
  Work(1);
  switch (value.kind) {
    case PickleKind::kBool:
      return value.integer != 0;
    case PickleKind::kInt:
      return value.integer;
    case PickleKind::kFloat:
      return value.number;
    case PickleKind::kString:
      return value.length <= kMaxKey ? Json(std::string(value.text())) : Json();
    case PickleKind::kDict:
      return depth > 0 ? PlainPairs(pickle_.items(value), depth - 1) : Json();
    case PickleKind::kTuple:
    case PickleKind::kList:
      break;
    default:
      return {};
  }
  const Items items = pickle_.items(value);
  if (depth == 0 || items.size() > kMostSettings) return {};
  Json list = Json::array();
  for (const PickleValue item : items) list.push_back(Plain(item, depth - 1));
  return list;
}

Json ContentsReader::PlainPairs(Items pairs, int depth) {
  Json object = Json::object();
  if (pairs.size() > 2 * kMostSettings) return object;
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    const PickleValue key = pairs[i];
    if (key.is(PickleKind::kString) && key.length <= kMaxKey) {
      object[std::string(key.text())] = Plain(pairs[i + 1], depth);
    }
  }
  return object;
}

void ContentsReader::ReadTraining(Items pairs) {
  constexpr int kDepth = 2;  // of lists and dictionaries
  Json training = Json::object();
  if (const PickleValue arch = Find(pairs, "arch"); arch.is(PickleKind::kString)) training["arch"] = Plain(arch, 0);
  PickleValue args = Find(pairs, "args");
  if (args.is(PickleKind::kObject) && ClassName(pickle_.object(args)) == "argparse.Namespace") {
    args = pickle_.object(args).state;
  }
  if (args.is(PickleKind::kDict)) training["args"] = PlainPairs(pickle_.items(args), kDepth);
  if (!training.empty()) contents_.training = training.dump(-1, ' ', false, Json::error_handler_t::replace);
}

TorchContents ContentsReader::Read() {
  for (const std::string& global : pickle_.globals()) {
    Require(!IsSystemCall(global),
            "{}: this file asks to run code: {}; no file of weights does. qkv ran nothing of it; do not open the file "
            "with torch.load either",
            where_, Quoted(global));
  }
  for (const PickleValue id : pickle_.persistent_ids()) {
    size_t storage = 0;
    uint64_t view = 0;
    ReadStorage(id, &storage, &view);
  }
  const PickleValue root = pickle_.root();
  if (const std::optional<Items> pairs = Pairs(root)) ReadTraining(*pairs);
  open_.push_back({root, ".", 0});
  if (root.is(PickleKind::kList) || root.is(PickleKind::kTuple)) {  // (weights, optimiser, …)
    open_.clear();
    constexpr size_t kMostParts = 16;
    const Items parts = pickle_.items(root).first(std::min(kMostParts, pickle_.items(root).size()));
    for (size_t i = parts.size(); i-- > 0;) open_.push_back({parts[i], std::to_string(i), 1});
  }
  std::set<std::pair<bool, uint32_t>> seen;
  while (!open_.empty()) {
    const Open open = std::move(open_.back());
    open_.pop_back();
    const bool is_object = open.value.is(PickleKind::kObject);
    if (!is_object && !open.value.is(PickleKind::kDict)) continue;
    if (!seen.emplace(is_object, open.value.index).second) continue;
    if (const auto pairs = Pairs(open.value)) {
      ReadDictionary(open, *pairs);
    } else if (ModuleState(open.value)) {
      ReadModule(open);
    } else {
      const std::string_view name = ClassName(pickle_.object(open.value));
      if (!name.starts_with("torch._utils.")) NoteUnknown(name);  // a tensor without a name
    }
  }
  return std::move(contents_);
}

}  // namespace

size_t TorchDictionary::bytes() const {
  size_t sum = 0;
  for (const TorchTensor& tensor : tensors) sum += tensor.bytes();
  return sum;
}

TorchContents ReadTorchContents(const Pickle& pickle, std::string_view where) {
  return ContentsReader(pickle, where).Read();
}

}  // namespace qkv::io
