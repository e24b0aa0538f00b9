#include "qkv/model/families/timm_registry.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "qkv/core/error.h"

namespace qkv::model {
namespace {

struct Row {
  std::string_view name, text;
};

constexpr Row kKnown[] = {
#define QKV_TIMM_KNOWN
#include "qkv/model/families/timm_registry.inc"
#undef QKV_TIMM_KNOWN
};

constexpr Row kRenamed[] = {
#define QKV_TIMM_RENAMED
#include "qkv/model/families/timm_registry.inc"
#undef QKV_TIMM_RENAMED
};

constexpr Row kRefused[] = {
#define QKV_TIMM_REFUSED
#include "qkv/model/families/timm_registry.inc"
#undef QKV_TIMM_REFUSED
};

constexpr std::string_view kCommonCfg =
#define QKV_TIMM_COMMON_CFG
#include "qkv/model/families/timm_registry.inc"
#undef QKV_TIMM_COMMON_CFG
    ;

template <size_t N>
const Row* FindRow(const Row (&rows)[N], std::string_view name) {
  const auto row = std::lower_bound(std::begin(rows), std::end(rows), name,
                                    [](const Row& r, std::string_view n) { return r.name < n; });
  return row != std::end(rows) && row->name == name ? row : nullptr;
}

// An architecture's name of today, and the tag of its weights.
std::pair<std::string, std::string> SplitName(std::string_view name) {
  std::string base(name.substr(0, name.find('.')));
  std::string tag(name.size() > base.size() ? name.substr(base.size() + 1) : "");
  if (const Row* renamed = FindRow(kRenamed, base)) {
    // The new name may have its own tag.
    base = renamed->text.substr(0, renamed->text.find('.'));
    if (tag.empty() && renamed->text.size() > base.size()) tag = renamed->text.substr(base.size() + 1);
  }
  return {base, tag};
}

}  // namespace

std::string_view TimmClass(std::string_view name) {
  const Row* known = FindRow(kKnown, SplitName(name).first);
  if (known == nullptr) return {};
  if (known->text.starts_with(R"({"class":"Eva")")) return kTimmEvaClass;
  return known->text.starts_with(R"({"class":"Beit")") ? kTimmBeitClass : "VisionTransformer";
}

std::vector<int64_t> TimmHeads(int64_t width, int64_t depth) {
  std::vector<int64_t> heads;
  for (const Row& row : kKnown) {
    const io::Json args = io::ParseJson(row.text, row.name).value("args", io::Json::object());
    if (args.value("embed_dim", 768) != width || args.value("depth", 12) != depth) continue;
    const int64_t number = args.value("num_heads", 12);
    if (std::ranges::find(heads, number) == heads.end()) heads.push_back(number);
  }
  return heads;
}

bool FindTimmArchitecture(std::string_view name, TimmArchitecture* architecture) {
  const auto [base, tag] = SplitName(name);
  const Row* refused = FindRow(kRefused, base);
  Require(refused == nullptr, "architecture \"{}\" is not supported: {}", name, refused ? refused->text : "");
  const Row* known = FindRow(kKnown, base);
  if (!known) return false;
  io::Json entry = io::ParseJson(known->text, known->name);
  architecture->args = entry.value("args", io::Json::object());
  architecture->pretrained_cfg = io::ParseJson(kCommonCfg, "timm_registry.inc");
  architecture->pretrained_cfg.update(entry.value("cfg", io::Json::object()));
  if (entry.contains("tags") && entry["tags"].contains(tag)) architecture->pretrained_cfg.update(entry["tags"][tag]);
  return true;
}

}  // namespace qkv::model
