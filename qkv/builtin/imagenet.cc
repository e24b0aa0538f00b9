// The table is data/imagenet.tsv, which tools/imagenet_names.py writes, compressed. A line describes a class: its number,
// the sets that have it and its names.
#include "qkv/builtin/imagenet.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "qkv/builtin/imagenet_table.h"
#include "qkv/core/error.h"
#include "qkv/io/gzip.h"

namespace qkv::builtin {
namespace {

struct Set {
  int64_t classes;
  char letter;  // in the table
  std::string_view name;
};
constexpr std::array<Set, 6> kSets = {{{1000, 'a', "ImageNet-1k"},
                                       {10450, 'b', "ImageNet-21k of winter 2021, processed"},
                                       {11221, 'c', "ImageNet-21k, processed"},
                                       {11821, 'd', "ImageNet-12k"},
                                       {21841, 'e', "ImageNet-22k"},
                                       {21843, 'f', "ImageNet-21k"}}};

const Set* FindSet(int64_t classes) {
  for (const Set& set : kSets) {
    if (set.classes == classes) return &set;
  }
  return nullptr;
}

// The lines of ImageNet-1k come first in the table, within so many bytes.
constexpr size_t kFirstBytes = size_t{40} << 10, kAllBytes = size_t{1} << 20;

std::string Table(int64_t classes) {
  const auto packed = std::as_bytes(std::span(CompressedImageNetTable()));
  constexpr std::string_view kWhere = "names of ImageNet";
  return classes == kSets.front().classes ? io::GunzipFirst(packed, kFirstBytes, kWhere)
                                          : io::Gunzip(packed, kAllBytes, kWhere);
}

// The text before `end`, which is removed with it.
std::string_view Next(std::string_view& text, char end) {
  const std::string_view part = text.substr(0, text.find(end));
  text.remove_prefix(part.size() + 1);
  return part;
}

}  // namespace

std::string_view ImageNetSet(int64_t classes) {
  const Set* set = FindSet(classes);
  return set ? set->name : std::string_view();
}

std::vector<ImageNetClass> ImageNetClasses(int64_t classes) {
  std::vector<ImageNetClass> found;
  const Set* set = FindSet(classes);
  if (set == nullptr) return found;
  found.reserve(static_cast<size_t>(classes));
  const std::string table = Table(classes);
  for (std::string_view rest = table; !rest.empty() && std::ssize(found) < classes;) {
    const std::string_view number = Next(rest, '\t'), sets = Next(rest, '\t'), names = Next(rest, '\n');
    if (sets.find(set->letter) != sets.npos) found.push_back({std::string(number), std::string(names)});
  }
  std::ranges::sort(found, {}, &ImageNetClass::number);
  return found;
}

}  // namespace qkv::builtin
