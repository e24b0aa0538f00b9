// The table is imagenet.tsv, which tools/imagenet_names.py writes, compressed: a line a class, of its number, the sets
// that have it and its names.
#include "qkv/builtin/imagenet.h"

#include <zlib.h>

#include <array>
#include <utility>

#include "qkv/builtin/imagenet_table.h"
#include "qkv/core/error.h"

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

std::string Inflate(std::string_view compressed) {
  constexpr int kGzip = 16 + MAX_WBITS;
  z_stream stream{};
  Require(inflateInit2(&stream, kGzip) == Z_OK, "names of ImageNet: zlib does not start");
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(compressed.data()));
  stream.avail_in = static_cast<uInt>(compressed.size());
  std::string text;
  int status = Z_OK;
  while (status == Z_OK) {
    constexpr size_t kPiece = size_t{1} << 18;
    const size_t size = text.size();
    text.resize(size + kPiece);
    stream.next_out = reinterpret_cast<Bytef*>(text.data() + size);
    stream.avail_out = kPiece;
    status = inflate(&stream, Z_NO_FLUSH);
    text.erase(text.size() - stream.avail_out);
  }
  inflateEnd(&stream);
  Require(status == Z_STREAM_END, "names of ImageNet: the program's own table is damaged");
  return text;
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
  const std::string table = Inflate(CompressedImageNetTable());
  for (std::string_view rest = table; !rest.empty();) {
    const std::string_view number = Next(rest, '\t'), sets = Next(rest, '\t'), names = Next(rest, '\n');
    if (sets.find(set->letter) != sets.npos) found.push_back({std::string(number), std::string(names)});
  }
  return found;
}

}  // namespace qkv::builtin
