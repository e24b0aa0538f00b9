// known_models.json has the models' cards in their families' words. Sources: the cards, and for files without a card's
// code the arguments of TRIDENT's patch encoders (github.com/mahmoodlab/TRIDENT), whose table of encoders has tiles,
// magnifications and licences too. What neither says is left out.
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
    const std::string trident = row.value("trident", key);
    if (!IsSameName(key, name) && !IsSameName(hub, name) && !IsSameName(trident, name)) continue;
    KnownModel model{.name = key, .hub_id = hub, .trident = trident, .refused = row.value("refused", "")};
    model.pool = row.value("pool", "");
    if (row.contains("config")) model.config = row["config"];
    if (row.contains("preprocessor")) model.preprocessor = row["preprocessor"];
    model.licence = row.value("licence", "");
    if (row.contains("gated")) model.gated = row["gated"].get<bool>();
    model.tile = row.value("tile", int64_t{0});
    model.magnification = row.value("magnification", 0.0);
    return model;
  }
  return std::nullopt;
}

std::string DescribeLicence(const KnownModel& model) {
  return model.licence + (model.gated.value_or(false) ? "; weights on request" : "");
}

std::vector<std::string> KnownModelNames() {
  std::vector<std::string> names;
  const io::Json table = ReadTable();
  for (const auto& [key, row] : table.items()) {
    if (!row.contains("refused")) names.push_back(key);
  }
  return names;
}

}  // namespace qkv::model
