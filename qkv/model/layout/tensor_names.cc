#include "qkv/model/layout/tensor_names.h"

#include <algorithm>

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

// Splits "^NAME[1:3/3]" or "NAME[,1:3/3]", a name of a layout's table, into the name and the extract.
std::string_view ParseExtract(std::string_view stored, Extract* extract) {
  if (stored.starts_with('^')) {
    extract->transposed = true;
    stored.remove_prefix(1);
  }
  if (!stored.ends_with(']')) return stored;
  const size_t open = stored.rfind('[');
  extract->columns = stored[open + 1] == ',';
  const size_t first = open + (extract->columns ? 2 : 1);
  const auto digit = [&](size_t after) { return int64_t{stored[first + after] - '0'}; };
  *extract = {digit(0), digit(2), digit(4), extract->transposed, extract->columns};
  return stored.substr(0, open);
}

// The names of an alternative, to be written. Throws Error if they hold the tensor in another form.
std::vector<std::string> NamesToWrite(const Alternative& alternative) {
  Require(alternative.extract.whole(), "layout: conversion does not write \"{}\", which holds a tensor in another form",
          alternative.parts.front());
  return alternative.parts;
}

// Tensors that a model has under one of these names.
constexpr std::string_view kImageAnchors[] = {"embeddings.patch_embeddings.projection.weight",
                                              "embeddings.patch_embedding.weight"};
// open_clip's image encoder, and timm's model in it.
constexpr std::pair<std::string_view, std::string_view> kOpenClipAnchors[] = {
    {"visual.class_embedding", "visual."}, {"visual.trunk.patch_embed.proj.weight", "visual.trunk."}};
constexpr std::string_view kTextAnchors[] = {"embeddings.token_embedding.weight", "token_embedding.weight"};

}  // namespace

std::vector<Alternative> FindAlternatives(const Layout& layout, std::string_view prefix, std::string_view canonical) {
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

std::string WithPrefix(std::string_view stored, std::string_view prefix) { return Expand(stored, prefix, "", ""); }

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

std::vector<std::string> PlaceholderNames(const Layout& layout, std::string_view prefix) {
  std::vector<std::string> names;
  for (const std::string_view name : layout.placeholders) names.push_back(Expand(name, prefix, "", ""));
  return names;
}

std::vector<std::string> StoredNames(const Layout& layout, std::string_view prefix, std::string_view canonical) {
  return NamesToWrite(FindAlternatives(layout, prefix, canonical).front());
}

std::vector<std::string> NamesBeside(const Layout& layout, const io::TensorSet& tensors, std::string_view canonical,
                                     std::string_view beside) {
  const std::string prefix = BasePrefix(tensors);
  const auto names = FindAlternatives(layout, prefix, canonical), neighbours = FindAlternatives(layout, prefix, beside);
  const auto present = std::ranges::find_if(
      neighbours, [&](const Alternative& neighbour) { return tensors.Find(neighbour.parts.front()) != nullptr; });
  const auto generation = static_cast<size_t>(present - neighbours.begin());
  return NamesToWrite(names[generation < names.size() ? generation : 0]);
}

}  // namespace qkv::model
