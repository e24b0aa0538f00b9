#include "qkv/app/open/kinds.h"

#include <algorithm>

#include "qkv/app/open/hub.h"
#include "qkv/core/error.h"

namespace qkv::app {
namespace {

struct Kind {
  ModelKind kind;
  std::string_view name;
  std::string_view commands;  // "{0}": the model
};

constexpr Kind kKinds[] = {
    {ModelKind::kImages, "an image model",
     "qkv classify -m {0} photo.jpg says what an image shows, qkv embed makes vectors of images, qkv attend shows "
     "where it looks"},
    {ModelKind::kCaptions, "an image encoder with a decoder of texts",
     "qkv caption -m {0} photo.jpg writes what an image shows"},
    {ModelKind::kTexts, "a text model",
     "qkv embed --text makes vectors of texts, qkv generate, translate and summarize write them, qkv qk inspect and "
     "qkv qk certify say what its heads are, and qkv info describes it"},
    {ModelKind::kSequences, "a sequence model of qkv train",
     "qkv evaluate -m {0} DATA measures it, qkv generate -m {0} continues a text if it was trained on one, and qkv qk "
     "inspect says what its heads are"},
};

const Kind& RowOf(ModelKind kind) {
  return *std::ranges::find_if(kKinds, [&](const Kind& row) { return row.kind == kind; });
}

}  // namespace

ModelKind KindOf(const std::string& path) {
  return path.empty() ? ModelKind::kImages : model::FindKind(FindModel(path));
}

std::string KindMismatch(const std::string& name, ModelKind kind, std::initializer_list<ModelKind> expected) {
  std::string names;
  for (const ModelKind wanted : expected) names += (names.empty() ? "" : " or ") + std::string(RowOf(wanted).name);
  return FormatShown("{} is {}, expected {}; {}", name, RowOf(kind).name, names,
                     fmt::format(fmt::runtime(RowOf(kind).commands), name));
}

void RequireKind(std::string_view command, const std::string& path, std::initializer_list<ModelKind> expected) {
  const ModelKind kind = KindOf(path);
  if (std::ranges::find(expected, kind) != expected.end()) return;
  if (kind == ModelKind::kImages && !path.empty()) model::RequireFamily(FindModel(path));
  if (path.empty()) {
    Fail("{}: without -m the built-in digit classifier answers, which is an image model; name another by -m", command);
  }
  Fail("{}: {}", command, EscapedText{KindMismatch(path, kind, expected)});
}

}  // namespace qkv::app
