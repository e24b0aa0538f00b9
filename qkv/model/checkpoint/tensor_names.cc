// Resolves canonical names to stored ones, and binds tensors strictly.
#include "qkv/model/checkpoint/tensor_names.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <set>

#include "qkv/model/families/families.h"
#include "qkv/model/families/hf_caption.h"
#include "qkv/model/families/text_family.h"
#include "qkv/nn/rotary.h"

namespace qkv::model {
namespace {

// Splits "blocks.3.attn.qkv.weight" into pattern "blocks.{}.attn.qkv", index "3" and suffix ".weight".
struct CanonicalName {
  explicit CanonicalName(std::string_view name) : pattern(name) {
    if (name.starts_with("blocks.")) {
      const size_t begin = 7, end = name.find('.', begin);
      index = std::string(name.substr(begin, end - begin));
      pattern = "blocks.{}" + std::string(name.substr(end));
    }
  }
  std::string pattern, index;
};

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::string Expand(std::string_view stored, std::string_view prefix, std::string_view index, std::string_view suffix) {
  std::string name;
  for (size_t i = 0; i < stored.size(); ++i) {
    if (stored[i] == '@') {
      name += prefix;
    } else if (stored.substr(i).starts_with("{}")) {
      name += index;
      ++i;
    } else {
      name += stored[i];
    }
  }
  return name.append(suffix);
}

const NameRow* FindRow(const Layout& layout, std::string_view canonical) {
  for (const std::span<const NameRow> table : layout.tables) {
    for (const NameRow& row : table) {
      if (row.canonical == canonical) return &row;
    }
  }
  return nullptr;
}

// One way to store a tensor: names of its parts, and where it is within the only part.
struct Alternative {
  std::vector<std::string> parts;
  Extract extract;
};

// Splits "^NAME[1:3/3]", a name of a layout's table, into the name and the extract.
std::string_view ParseExtract(std::string_view stored, Extract* extract) {
  if (stored.starts_with('^')) {
    extract->transposed = true;
    stored.remove_prefix(1);
  }
  if (!stored.ends_with(']')) return stored;
  const size_t open = stored.rfind('[');
  const auto digit = [&](size_t after) { return int64_t{stored[open + after] - '0'}; };
  *extract = {digit(1), digit(3), digit(5), extract->transposed};
  return stored.substr(0, open);
}

// All alternatives for a canonical tensor. A row names the tensor or its module.
std::vector<Alternative> Alternatives(const Layout& layout, std::string_view prefix, std::string_view canonical) {
  const CanonicalName name(canonical);
  for (const std::string_view suffix : {"", ".weight", ".bias"}) {
    if (!name.pattern.ends_with(suffix)) continue;
    const std::string_view stem = std::string_view(name.pattern).substr(0, name.pattern.size() - suffix.size());
    const NameRow* row = FindRow(layout, stem);
    if (!row) continue;
    std::vector<Alternative> alternatives;
    for (const std::string_view alternative : Split(row->stored, '|')) {
      Alternative& added = alternatives.emplace_back();
      for (const std::string_view part : Split(alternative, '+')) {
        added.parts.push_back(Expand(ParseExtract(part, &added.extract), prefix, name.index, suffix));
      }
      if (suffix == ".bias") added.extract.transposed = false;
    }
    return alternatives;
  }
  Fail("layout: there is no name for tensor \"{}\"", canonical);
}

// The names of an alternative, to be written. Throws Error if they hold the tensor in another form.
std::vector<std::string> NamesToWrite(const Alternative& alternative) {
  Require(alternative.extract.whole(), "layout: conversion does not write \"{}\", which holds a tensor in another form",
          alternative.parts.front());
  return alternative.parts;
}

std::vector<int64_t> WithoutOnes(const Shape& shape) {
  std::vector<int64_t> extents;
  std::copy_if(shape.extents().begin(), shape.extents().end(), std::back_inserter(extents),
               [](int64_t extent) { return extent != 1; });
  return extents;
}

// True if an extract of this tensor has the table's shape.
bool ExtractFits(const Shape& expected, const Shape& stored, const Extract& extract) {
  std::vector<int64_t> extents(stored.extents().begin(), stored.extents().end());
  if (extents.empty() || extents[0] % extract.pieces != 0) return false;
  extents[0] = extents[0] / extract.pieces * (extract.end - extract.begin);
  if (extract.transposed) {
    if (extents.size() != 2) return false;
    std::swap(extents[0], extents[1]);
  }
  return Shape(extents) == expected;
}

// True if the parts, concatenated along the first axis, have the table's shape. Axes of extent 1 are ignored.
bool ShapesFit(const BoundTensor& bound) {
  const Shape& expected = bound.spec.shape;
  if (!bound.extract.whole()) return ExtractFits(expected, bound.parts[0]->shape, bound.extract);
  const auto count = static_cast<int64_t>(bound.parts.size()) + (bound.zero_part >= 0);
  if (count == 1) return WithoutOnes(bound.parts[0]->shape) == WithoutOnes(expected);
  const std::vector<int64_t>& rows = bound.spec.parts;
  if (!rows.empty() && rows.size() != bound.parts.size()) return false;
  for (size_t i = 0; i < bound.parts.size(); ++i) {
    const io::StoredTensor* const part = bound.parts[i];
    if (part->shape.rank() != expected.rank()) return false;
    if (rows.empty() ? part->shape[0] * count != expected[0] : part->shape[0] != rows[i]) return false;
    for (int axis = 1; axis < expected.rank(); ++axis) {
      if (part->shape[axis] != expected[axis]) return false;
    }
  }
  return true;
}

// The shape of each missing part of a tensor: of the rows that the others leave, an equal share.
Shape ShapeOfMissing(const BoundTensor& tensor, int64_t missing) {
  std::vector<int64_t> extents(tensor.spec.shape.extents().begin(), tensor.spec.shape.extents().end());
  for (const io::StoredTensor* part : tensor.parts) {
    if (part->shape.rank() > 0) extents[0] -= part->shape[0];
  }
  extents[0] = std::max<int64_t>(0, extents[0]) / (missing + (tensor.zero_part >= 0));
  return Shape(extents);
}

std::string FormatShapes(const std::vector<const io::StoredTensor*>& parts) {
  std::string text;
  for (const io::StoredTensor* part : parts) text += (text.empty() ? "" : " + ") + fmt::format("{}", part->shape);
  return text;
}

// A list for a message: the first few entries, and the number of the others.
std::string List(const std::vector<std::string>& entries) {
  constexpr size_t kShown = 8;
  std::string text;
  for (size_t i = 0; i < std::min(entries.size(), kShown); ++i) text += "\n  " + entries[i];
  if (entries.size() > kShown) text += fmt::format("\n  and {} more", entries.size() - kShown);
  return text;
}

// Tensors that a model has under one of these names.
constexpr std::string_view kImageAnchors[] = {"embeddings.patch_embeddings.projection.weight",
                                              "embeddings.patch_embedding.weight"};
// open_clip's image encoder, and timm's model in it.
constexpr std::pair<std::string_view, std::string_view> kOpenClipAnchors[] = {
    {"visual.class_embedding", "visual."}, {"visual.trunk.patch_embed.proj.weight", "visual.trunk."}};
constexpr std::string_view kTextAnchors[] = {"embeddings.token_embedding.weight", "token_embedding.weight"};

}  // namespace

std::string PrefixBefore(const io::TensorSet& tensors, std::span<const std::string_view> anchors) {
  for (const std::string_view anchor : anchors) {
    if (const io::StoredTensor* found = FindWithSuffix(tensors, anchor)) {
      return found->name.substr(0, found->name.size() - anchor.size());
    }
  }
  return "";
}

const io::StoredTensor* FindWithSuffix(const io::TensorSet& tensors, std::string_view suffix) {
  for (const io::StoredTensor& tensor : tensors.tensors()) {
    const std::string_view name = tensor.name;
    if (name.ends_with(suffix) && (name.size() == suffix.size() || name[name.size() - suffix.size() - 1] == '.')) {
      return &tensor;
    }
  }
  return nullptr;
}

std::string BasePrefix(const io::TensorSet& tensors) {
  for (const auto& [anchor, prefix] : kOpenClipAnchors) {
    if (tensors.Find(anchor) != nullptr) return std::string(prefix);
  }
  return PrefixBefore(tensors, kImageAnchors);
}

std::string TextPrefix(const io::TensorSet& tensors) { return PrefixBefore(tensors, kTextAnchors); }

const Layout& GetLayout(const VitConfig& config) { return FindFamily(config).layout(config); }

std::vector<std::string> PlaceholderNames(const Layout& layout, std::string_view prefix) {
  std::vector<std::string> names;
  for (const std::string_view name : layout.placeholders) names.push_back(Expand(name, prefix, "", ""));
  return names;
}

std::vector<std::string> StoredNames(const Layout& layout, std::string_view prefix, std::string_view canonical) {
  return NamesToWrite(Alternatives(layout, prefix, canonical).front());
}

std::vector<std::string> NamesBeside(const VitConfig& config, const io::TensorSet& tensors, std::string_view canonical,
                                     std::string_view beside) {
  const Layout& layout = GetLayout(config);
  const std::string prefix = BasePrefix(tensors);
  const auto names = Alternatives(layout, prefix, canonical), neighbours = Alternatives(layout, prefix, beside);
  const auto present = std::ranges::find_if(
      neighbours, [&](const Alternative& neighbour) { return tensors.Find(neighbour.parts.front()) != nullptr; });
  const auto generation = static_cast<size_t>(present - neighbours.begin());
  return NamesToWrite(names[generation < names.size() ? generation : 0]);
}

const BoundTensor* FindTensor(const std::vector<BoundTensor>& tensors, std::string_view canonical) {
  const auto found =
      std::ranges::find_if(tensors, [&](const BoundTensor& tensor) { return tensor.spec.name == canonical; });
  return found == tensors.end() ? nullptr : &*found;
}

namespace {

// The extract of a stored tensor, [rows, columns], in the table's shape.
template <typename T>
Tensor<T> ReadExtract(const io::StoredTensor& stored, const Extract& extract, const Shape& shape) {
  const Tensor<T> all = io::Convert<T>(stored);
  const int64_t piece = all.size() / extract.pieces, begin = extract.begin * piece;
  auto tensor = Tensor<T>::Uninitialised(shape);
  if (!extract.transposed) {
    std::copy_n(all.data() + begin, tensor.size(), tensor.data());
    return tensor;
  }
  const int64_t rows = shape[0], columns = shape[1];  // stored: [columns, rows]
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      tensor[row * columns + column] = all[begin + column * rows + row];
    }
  }
  return tensor;
}

template <typename Config>
HalfSplitRows HalfSplitRowsOf(const Config& config, std::string_view canonical) {
  const nn::AttentionConfig& a = config.block.attention;
  if (!config.rotary_halves || canonical.find(".attn.") == std::string_view::npos) return {};
  const int64_t r = a.query_width();
  if (canonical.find(".attn.qkv.") != std::string_view::npos) return {(a.heads + a.kv_heads()) * r, r};
  const bool norm =
      canonical.find(".q_norm.") != std::string_view::npos || canonical.find(".k_norm.") != std::string_view::npos;
  return norm ? HalfSplitRows{r, r} : HalfSplitRows{};
}

}  // namespace

HalfSplitRows FindHalfSplitRows(const VitConfig& config, std::string_view canonical) {
  return HalfSplitRowsOf(config, canonical);
}
HalfSplitRows FindHalfSplitRows(const SequenceConfig& config, std::string_view canonical) {
  return HalfSplitRowsOf(config, canonical);
}

ScaledRows FindScaledRows(const SequenceConfig& config, std::string_view canonical) {
  if (!config.unscaled_scores) return {};
  const bool of_cross = canonical.find(".cross_attn.q.") != std::string_view::npos;
  if (!of_cross && canonical.find(".attn.qkv.") == std::string_view::npos) return {};
  const nn::AttentionConfig& a = of_cross ? *config.block.cross : config.block.attention;
  return {a.heads * a.query_width(), std::sqrt(static_cast<double>(a.head_width))};
}

LastTokens FindLastTokens(const VitConfig& c, std::string_view canonical) {
  if (c.detection_tokens == 0 || (canonical != "pos_embed" && canonical != "block_pos_embed")) return {};
  return {c.detection_begin(), c.patches(), c.detection_tokens};
}

void ReorderRows(const HalfSplitRows& split, RowOrder order, int64_t row_bytes, std::byte* rows) {
  if (split.rows == 0) return;
  const std::vector<int64_t> from = nn::HalfSplitToNeighbours(split.head);
  const auto bytes = static_cast<size_t>(row_bytes), of_head = static_cast<size_t>(split.head) * bytes;
  std::vector<std::byte> old(of_head);
  for (int64_t head = 0; head < split.rows / split.head; ++head, rows += of_head) {
    std::memcpy(old.data(), rows, of_head);
    for (size_t f = 0; f < from.size(); ++f) {
      const auto half = static_cast<size_t>(from[f]);
      const auto [to, at] = order == RowOrder::kToNeighbours ? std::pair(f, half) : std::pair(half, f);
      std::memcpy(rows + to * bytes, old.data() + at * bytes, bytes);
    }
  }
}

template <typename T>
Tensor<T> Read(const BoundTensor& bound) {
  auto tensor = bound.extract.whole() ? Tensor<T>::Uninitialised(bound.spec.shape)
                                      : ReadExtract<T>(*bound.parts[0], bound.extract, bound.spec.shape);
  T* to = tensor.data();
  if (bound.zero_part >= 0) std::fill_n(to, tensor.size(), T(0));
  for (size_t i = 0; i < bound.parts.size() && bound.extract.whole(); ++i) {
    const io::StoredTensor* const part = bound.parts[i];
    if (static_cast<int>(i) == bound.zero_part) to += part->shape.size();
    io::ConvertTo<T>(*part, to);
    to += part->shape.size();
    // Otherwise memory holds the weights twice while the model is built, stored and packed.
    if (part->file != nullptr) ReleasePages(part->bytes);
  }
  if (bound.split.rows > 0) {
    const int64_t row = tensor.size() / tensor.dim(0) * static_cast<int64_t>(sizeof(T));
    ReorderRows(bound.split, RowOrder::kToNeighbours, row, reinterpret_cast<std::byte*>(tensor.data()));
  }
  if (const auto& [rows, factor] = bound.scaled; rows > 0) {
    const auto of_rows = static_cast<T>(factor);
    T* const end = tensor.data() + tensor.size() / tensor.dim(0) * rows;
    for (T* value = tensor.data(); value < end; ++value) *value *= of_rows;
  }
  if (const LastTokens& order = bound.last_tokens; order.last > 0) {
    const int64_t width = tensor.dim(tensor.shape().rank() - 1), table = order.rows() * width;
    for (T* rows = tensor.data(); rows < tensor.data() + tensor.size(); rows += table) {
      std::rotate(rows + order.first * width, rows + (order.first + order.patches) * width, rows + table);
    }
  }
  // x − x is 0 for finite numbers only, and the sum vectorises.
  constexpr int kLanes = 16;
  T sums[kLanes] = {};
  const T* x = tensor.data();
  int64_t i = 0;
  for (; i + kLanes <= tensor.size(); i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) sums[lane] += x[i + lane] - x[i + lane];
  }
  bool finite = true;
  for (; i < tensor.size(); ++i) finite &= std::isfinite(x[i]);
  for (const T sum : sums) finite &= sum == T(0);
  Require(finite, "checkpoint: tensor \"{}\" holds NaN or infinity", bound.spec.name);
  return tensor;
}

template Tensor<float> Read(const BoundTensor&);
template Tensor<double> Read(const BoundTensor&);

void RequirePlainWeights(const io::TensorSet& tensors) {
  constexpr std::string_view kAdapters[] = {".lora_", ".base_layer.", ".hada_w", ".ia3_l", ".oft_", ".boft_"};
  constexpr std::string_view kQuantised[] = {".qweight", ".qzeros", ".SCB", ".absmax", ".weight_packed"};
  const auto has = [](std::span<const std::string_view> parts, const std::string& name) {
    return std::ranges::any_of(parts, [&](std::string_view part) { return name.find(part) != name.npos; });
  };
  for (const io::StoredTensor& tensor : tensors.tensors()) {
    Require(!has(kAdapters, tensor.name),
            "{}: the layers still have an adapter (LoRA or one of its kind): merge it into its base model "
            "(merge_and_unload of PEFT) and save that",
            EscapedText{tensor.name});
    const bool narrow = tensor.name.ends_with("weight") && tensor.shape.rank() > 1 && ElementSize(tensor.dtype) == 1;
    Require(
        !narrow && !has(kQuantised, tensor.name),
        "tensor {} is {}: quantised weights are not read; take the model in float, bfloat16 or half, and --dtype int8 "
        "makes it small",
        io::Quoted(tensor.name), Name(tensor.dtype));
  }
}

namespace {

// Binds tables to the tensors of one file, and finds what no table used.
class Binder {
 public:
  explicit Binder(const io::TensorSet& tensors) : tensors_(tensors) {}

  /// names_of: all alternatives for a canonical tensor.
  template <typename NamesFunction>
  std::vector<BoundTensor> Bind(std::vector<TensorSpec> table, const NamesFunction& names_of) {
    std::vector<BoundTensor> bound;
    for (TensorSpec& spec : table) {
      const std::vector<Alternative> alternatives = names_of(spec.name);
      // The first of which a part is there: what it lacks is missing.
      const auto present = std::ranges::find_if(alternatives, [&](const Alternative& one) {
        return std::ranges::any_of(
            one.parts, [&](const std::string& name) { return name != kZeroPart && tensors_.Find(name) != nullptr; });
      });
      const Alternative& chosen = present == alternatives.end() ? alternatives.front() : *present;
      bound.push_back({.spec = std::move(spec), .parts = {}, .extract = chosen.extract});
      Take(chosen, &bound.back());
    }
    return bound;
  }
  /// The same by the names of a layout, whose ignored tensors are then not left over.
  std::vector<BoundTensor> Bind(std::vector<TensorSpec> table, const Layout& layout, const std::string& prefix) {
    Ignore(layout, prefix);
    return Bind(std::move(table), [&](const std::string& name) { return Alternatives(layout, prefix, name); });
  }
  /// Tensors that are not read.
  void Ignore(const Layout& layout, std::string_view prefix) {
    for (const std::string_view name : layout.ignored) {
      std::string expanded = Expand(name, prefix, "", "");
      if (expanded.starts_with('*')) {
        ignored_endings_.push_back(expanded.substr(1));
      } else if (expanded.ends_with('*')) {
        expanded.pop_back();
        ignored_beginnings_.push_back(std::move(expanded));
      } else {
        ignored_.insert(std::move(expanded));
      }
    }
  }

  /// Throws Error that names all missing, misshaped and unused tensors. advice: what to add, called if there are some.
  void Finish(std::string_view model, const std::function<std::string()>& advice = {}) const {
    std::vector<std::string> left_over;
    for (const io::StoredTensor& tensor : tensors_.tensors()) {
      if (!used_.contains(&tensor) && !IsIgnored(tensor.name) && tensor.shape.size() > 0) {
        left_over.push_back(FormatShown("{} {}", tensor.name, tensor.shape));
      }
    }
    std::string problems;
    if (!missing_.empty()) problems += fmt::format("\n{} missing:{}", missing_.size(), List(missing_));
    if (!misshaped_.empty()) problems += fmt::format("\n{} of another shape:{}", misshaped_.size(), List(misshaped_));
    if (!left_over.empty()) problems += fmt::format("\n{} left over:{}", left_over.size(), List(left_over));
    if (!problems.empty() && advice) problems += advice();
    Require(problems.empty(), "checkpoint: its tensors are not those of {}{}", model, EscapedText{problems});
  }

 private:
  bool IsIgnored(std::string_view name) const {
    return ignored_.contains(name) ||
           std::ranges::any_of(ignored_beginnings_,
                               [&](const std::string& begin) { return name.starts_with(begin); }) ||
           std::ranges::any_of(ignored_endings_, [&](const std::string& end) { return name.ends_with(end); });
  }
  void Take(const Alternative& chosen, BoundTensor* tensor) {
    const Shape& shape = tensor->spec.shape;
    std::vector<std::string> absent;
    for (const std::string& name : chosen.parts) {
      if (name == kZeroPart) {
        tensor->zero_part = static_cast<int>(tensor->parts.size());
      } else if (const io::StoredTensor* part = tensors_.Find(name)) {
        tensor->parts.push_back(part);
        used_.insert(part);
      } else {
        absent.push_back(name);
      }
    }
    for (const std::string& name : absent) {
      missing_.push_back(FormatShown("{} {}", name, ShapeOfMissing(*tensor, std::ssize(absent))));
    }
    if (absent.empty() && !ShapesFit(*tensor)) {
      const std::string where = chosen.extract.transposed ? ", transposed"
                                : !chosen.extract.whole()
                                    ? fmt::format(" in pieces {} to {} of {}", chosen.extract.begin, chosen.extract.end,
                                                  chosen.extract.pieces)
                                    : "";
      misshaped_.push_back(
          FormatShown("{} is {}, expected {}{}", tensor->parts[0]->name, FormatShapes(tensor->parts), shape, where));
    }
  }

  const io::TensorSet& tensors_;
  std::set<std::string, std::less<>> ignored_;
  std::vector<std::string> ignored_beginnings_, ignored_endings_;
  std::set<const io::StoredTensor*> used_;
  std::vector<std::string> missing_, misshaped_;
};

// How the file stores the weights of a part.
void SetStorage(const SequenceConfig& config, std::vector<BoundTensor>* bound) {
  for (BoundTensor& tensor : *bound) {
    tensor.split = FindHalfSplitRows(config, tensor.spec.name);
    tensor.scaled = FindScaledRows(config, tensor.spec.name);
  }
}

}  // namespace

std::vector<BoundTensor> Bind(const VitConfig& config, const io::TensorSet& tensors) {
  return BindTowers(config, nullptr, nullptr, tensors).image;
}

BoundTowers BindTowers(const VitConfig& config, const TextTower* text, const CaptionDecoder* decoder,
                       const io::TensorSet& tensors) {
  const FamilyRow& family = FindFamily(config);
  Binder binder(tensors);
  BoundTowers bound;
  bound.image = binder.Bind(TensorTable(config), family.layout(config), BasePrefix(tensors));
  for (BoundTensor& tensor : bound.image) {
    tensor.split = FindHalfSplitRows(config, tensor.spec.name);
    tensor.last_tokens = FindLastTokens(config, tensor.spec.name);
  }
  if (text != nullptr) {
    Require(family.text_layout != nullptr, "families: {} has no names for a text encoder", config.architecture);
    bound.text = binder.Bind(TensorTable(*text), *family.text_layout, TextPrefix(tensors));
  }
  if (decoder != nullptr) {
    const TextFamilyRow& row = TextFamilyOf(decoder->model_type);
    bound.decoder =
        binder.Bind(TensorTable(decoder->config), row.decoder(decoder->config), PrefixBefore(tensors, row.anchors));
    SetStorage(decoder->config, &bound.decoder);
    for (BoundTensor& tensor : binder.Bind(ProjectionTable(*decoder, config.block.width), HfCaptionLayout(), "")) {
      bound.decoder.push_back(std::move(tensor));
    }
  }
  const std::string& owner = decoder != nullptr ? decoder->architecture : config.architecture;
  binder.Finish(fmt::format("{} ({} layout)", owner, Name(config.family)), [&]() -> std::string {
    const std::string settings = family.settings_that_fit ? family.settings_that_fit(config, tensors) : "";
    return settings.empty() ? "" : fmt::format("\nthe tensors are those of a model with{}", settings);
  });
  return bound;
}

std::vector<std::vector<BoundTensor>> BindParts(std::vector<BoundPart> parts, const io::TensorSet& tensors,
                                                std::string_view model) {
  Binder binder(tensors);
  std::vector<std::vector<BoundTensor>> bound;
  for (BoundPart& part : parts) {
    bound.push_back(binder.Bind(std::move(part.table), part.layout, part.prefix));
    SetStorage(part.config, &bound.back());
  }
  binder.Finish(model);
  return bound;
}

std::vector<BoundTensor> Bind(std::vector<TensorSpec> table, const io::TensorSet& tensors, std::string_view model) {
  Binder binder(tensors);
  std::vector<BoundTensor> bound = binder.Bind(std::move(table), [](const std::string& name) {
    return std::vector<Alternative>{{{name}, {}}};
  });
  binder.Finish(model);
  return bound;
}

}  // namespace qkv::model
