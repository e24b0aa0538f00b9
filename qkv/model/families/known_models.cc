// known_models.json has the models' cards in their families' words. Sources: the cards, and for files without a card's
// code the arguments of TRIDENT's patch encoders (github.com/mahmoodlab/TRIDENT).
#include "qkv/model/families/known_models.h"

#include <algorithm>
#include <cctype>

namespace qkv::model {
namespace {

io::Json ReadTable() { return io::ParseJson(KnownModelsText(), "known_models.json"); }

bool IsSameName(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

}  // namespace

std::optional<KnownModel> FindKnownModel(std::string_view name) {
  const io::Json table = ReadTable();
  for (const auto& [key, row] : table.items()) {
    const auto hub = row["hub"].get<std::string>();
    if (!IsSameName(key, name) && !IsSameName(hub, name)) continue;
    KnownModel model{key, hub, row["pool"], row["config"], {}};
    if (row.contains("preprocessor")) model.preprocessor = row["preprocessor"];
    return model;
  }
  return std::nullopt;
}

std::vector<std::string> KnownModelNames() {
  std::vector<std::string> names;
  const io::Json table = ReadTable();
  for (const auto& [key, row] : table.items()) names.push_back(key);
  return names;
}

}  // namespace qkv::model
