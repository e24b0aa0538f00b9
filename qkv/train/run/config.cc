#include "qkv/train/run/config.h"

#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <set>
#include <type_traits>

#include "qkv/core/error.h"
#include "qkv/core/file.h"
#include "qkv/core/text.h"
#include "qkv/io/json.h"

namespace qkv::train {
namespace {

// Far more than a configuration of a few dozen lines needs.
constexpr size_t kMaxFileBytes = size_t{1} << 20;
// First line of a run's config.yaml.
constexpr std::string_view kFirstLine = "# qkv train: every key, as it was resolved";

// Edit distance: insertions, deletions and substitutions of a letter (Levenshtein 1966).
size_t Distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t exchanged = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({exchanged, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

std::string WithDashes(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

std::vector<std::string_view> SplitWords(std::string_view choices) {
  std::vector<std::string_view> words;
  while (!choices.empty()) {
    const size_t end = std::min(choices.find('|'), choices.size());
    words.push_back(choices.substr(0, end));
    choices.remove_prefix(std::min(end + 1, choices.size()));
  }
  return words;
}

bool IsOneOf(std::string_view choices, std::string_view word) {
  const std::vector<std::string_view> words = SplitWords(choices);
  return std::find(words.begin(), words.end(), word) != words.end();
}

// Parses the whole text as a number.
template <typename T>
bool Parse(std::string_view text, T* value) {
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

bool Parse(std::string_view text, bool* value) {
  *value = IsOneOf("true|yes|on", text);
  return *value || IsOneOf("false|no|off", text);
}

// Requires UTF-8, since config.yaml must be.
bool Parse(std::string_view text, std::string* value) {
  *value = text;
  while (!text.empty()) {
    const size_t length = CharacterLength(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

// "28" or "28x32"
bool Parse(std::string_view text, Extents* value) {
  const size_t cross = text.find('x');
  if (!Parse(text.substr(0, cross), &value->first)) return false;
  value->second = value->first;
  return cross == text.npos || Parse(text.substr(cross + 1), &value->second);
}

bool Parse(std::string_view text, std::vector<double>* value) {
  value->clear();
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    if (!Parse(text.substr(begin, end - begin), &value->emplace_back())) return false;
    begin = end + 1;
  }
  return true;
}

template <typename T>
bool Within(const Key& key, const T& value) {
  if constexpr (std::is_arithmetic_v<T>) {
    const auto number = static_cast<double>(value);
    return key.low == key.high || (number >= key.low && number <= key.high);
  } else if constexpr (std::is_same_v<T, Extents>) {
    return Within(key, value.first) && Within(key, value.second);
  } else if constexpr (std::is_same_v<T, std::vector<double>>) {
    return std::all_of(value.begin(), value.end(), [&](double x) { return Within(key, x); });
  } else {
    return key.choices.empty() || value.empty() || IsOneOf(key.choices, value);
  }
}

template <typename T>
std::string_view What() {
  if constexpr (std::is_same_v<T, bool>) return "true or false";
  if constexpr (std::is_same_v<T, int64_t>) return "a whole number";
  if constexpr (std::is_same_v<T, double>) return "a number";
  if constexpr (std::is_same_v<T, Extents>) return "a size such as 224 or 224x160,";
  if constexpr (std::is_same_v<T, std::vector<double>>) return "numbers separated by commas,";
  return "a word";
}

template <typename T>
std::string Expected(const Key& key) {
  if (!key.choices.empty()) return fmt::format("one of {}", fmt::join(ListChoices(key), ", "));
  std::string text(What<T>());
  if (key.low != key.high) text += fmt::format(" from {} to {}", key.low, key.high);
  return text;
}

std::string ToText(bool value) { return value ? "true" : "false"; }
std::string ToText(int64_t value) { return std::to_string(value); }
std::string ToText(double value) { return fmt::format("{}", value); }
std::string ToText(const std::string& value) { return value; }
std::string ToText(const Extents& value) {
  return value.first == value.second ? std::to_string(value.first) : fmt::format("{}x{}", value.first, value.second);
}
std::string ToText(const std::vector<double>& value) { return fmt::format("{}", fmt::join(value, ",")); }

// A value of the file as Set accepts it. The key decides how list elements are joined.
std::string Joined(const Key& key, const std::vector<std::string>& elements) {
  return fmt::format("{}", fmt::join(elements, std::holds_alternative<Extents TrainConfig::*>(key.member) ? "x" : ","));
}

// Keys that pairs do not have, since Marian's layout fixes them.
constexpr std::string_view kFixedOfPairs[] = {"init",        "mlp",        "qkv-bias",    "qk-norm",
                                              "layer-scale", "positions",  "rotary-base", "causal",
                                              "norm",        "head-width", "key-heads",   "window"};

// The kind of data that a preset is for.
std::string_view DataOf(std::string_view preset) {
  return IsForPairs(preset) ? "pairs" : IsForSequences(preset) ? "sequences" : "images";
}

// True if the key has no meaning for the preset's kind of data.
bool IsKeyOfOtherData(const Key& key, std::string_view preset) {
  if (!IsForPairs(preset) && key.group == "Pairs") return true;
  if (IsForPairs(preset) && std::ranges::find(kFixedOfPairs, key.name) != std::end(kFixedOfPairs)) return true;
  if (!IsForSequences(preset)) return key.group == "Sequences";
  for (const std::string_view name :
       {"image-size", "patch-size", "channels", "class-token", "registers", "pool", "maps"}) {
    if (key.name == name) return true;
  }
  return key.group == "Images" || key.group == "Augmentation";
}

// The data that a key is for which other data do not have.
std::string_view OwnersOf(const Key& key) {
  if (key.group == "Pairs") return "pairs";
  const bool of_images = IsKeyOfOtherData(key, "seq-task"), of_sequences = IsKeyOfOtherData(key, "");
  return of_images ? "images" : of_sequences ? "sequences" : "images and sequences";
}

// True if the checkpoint decides the key when training continues from it.
bool IsModelKey(const Key& key) {
  if (key.group == "Model") return key.name != "image-size";
  if (key.group == "Sequences") return key.name != "length";
  if (key.group == "Pairs") return key.name != "valid" && key.name != "valid-lines";
  for (const std::string_view name : {"mean", "std", "interpolation", "crop-pct", "crop-mode", "background", "init"}) {
    if (key.name == name) return true;
  }
  return false;
}

// True if ToYaml omits the key.
bool IsLeftOut(const Key& key, std::string_view preset, bool continues, bool sized) {
  return IsKeyOfOtherData(key, preset) || (continues && (IsModelKey(key) || (key.name == "image-size" && !sized)));
}

// Ranks are of the kinds that have one, of the layers or of cross-attention.
void CheckRank(const TrainConfig& c, bool pairs) {
  const auto is_ranked = [](const std::string& kind) { return kind == "low_rank" || kind == "symmetric"; };
  const bool cross = pairs && is_ranked(c.cross_attention);
  const bool ranked = is_ranked(c.attention) || cross;
  Require(!ranked || c.rank > 0, "train: attention {} needs a rank", cross ? c.cross_attention : c.attention);
  Require(ranked || c.rank == 0 || c.attention == "positional", "train: attention {} has no rank", c.attention);
}

void CheckModel(const TrainConfig& c, std::string_view preset) {
  const bool sequences = IsForSequences(preset);
  Require(c.width % c.heads == 0 || c.head_width > 0, "train: width {} is no multiple of heads {}", c.width, c.heads);
  CheckRank(c, IsForPairs(preset));
  if (sequences) return;
  Require(c.channels != 2, "train: channels: expected 1 or 3, got 2");
  Require(c.patch_size.first <= c.image_size.first && c.patch_size.second <= c.image_size.second,
          "train: patch-size {} is larger than image-size {}", ToText(c.patch_size), ToText(c.image_size));
  Require(c.class_token || c.pool != "token",
          "train: pool token reads the class token, which class-token: false "
          "leaves out; try pool: avg");
  for (const auto* list : {&c.mean, &c.std}) {
    Require(list->size() == 1 || list->size() == static_cast<size_t>(c.channels),
            "train: mean and std: expected 1 or {} numbers, got {}", c.channels, list->size());
  }
}

void Check(const TrainConfig& c) {
  if (c.model.empty()) CheckModel(c, c.preset);
  Require(c.min_lr <= c.lr, "train: min-lr {} is above lr {}", c.min_lr, c.lr);
}

Settings FromJson(const std::string& file, std::string_view text) {
  const io::Json json = io::ParseJson(text, file);
  Require(json.is_object(), "{}: expected an object of keys and values", file);
  const auto plain = [](const io::Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); };
  Settings settings;
  for (const auto& [name, value] : json.items()) {
    const Key& key = FindKey(WithDashes(name));
    Require(!value.is_object() && !value.is_null(), "{}: {}: expected a plain value", file, name);
    std::vector<std::string> elements;
    if (value.is_array()) std::transform(value.begin(), value.end(), std::back_inserter(elements), plain);
    settings[std::string(key.name)] = value.is_array() ? Joined(key, elements) : plain(value);
  }
  return settings;
}

Settings FromYaml(const std::string& file, std::string_view text) {
  const YAML::Node root = YAML::Load(std::string(text));
  Settings settings;
  if (root.IsNull()) return settings;
  Require(root.IsMap(), "{}: expected lines of \"key: value\"", file);
  for (const auto& entry : root) {
    const std::string where = fmt::format("{}, line {}", file, entry.first.Mark().line + 1);
    Require(entry.first.IsScalar(), "{}: expected \"key: value\"", where);
    try {
      const Key& key = FindKey(WithDashes(entry.first.Scalar()));
      Require(!settings.contains(key.name), "{}: there twice", key.name);
      Require(entry.second.IsScalar() || entry.second.IsSequence(), "{}: expected a plain value", key.name);
      std::string& value = settings[std::string(key.name)];
      if (entry.second.IsScalar()) {
        value = entry.second.Scalar();
        continue;
      }
      std::vector<std::string> elements;
      for (const YAML::Node& element : entry.second) elements.push_back(element.as<std::string>());
      value = Joined(key, elements);
    } catch (const Error& error) {
      Fail("{}: {}", where, EscapedText{error.what()});
    }
  }
  return settings;
}

// Keys added later. Older runs lack them and behaved as their defaults do.
constexpr std::string_view kLaterKeys[] = {"norm",   "norm-place", "head-width", "key-heads",
                                           "window", "sinks",      "minutes"};

}  // namespace

const Key& FindKey(std::string_view name) {
  // Longer than any key: a file may hold megabytes without a colon.
  const std::string_view start = name.substr(0, 64);
  const Key* nearest = nullptr;
  size_t least = 0;
  for (const Key& key : Keys()) {
    if (key.name == name) return key;
    const size_t distance = Distance(start, key.name);
    if (nearest == nullptr || distance < least) nearest = &key, least = distance;
  }
  Fail("no key \"{}{}\"; did you mean \"{}\"?", start, start.size() < name.size() ? "…" : "", nearest->name);
}

bool IsSwitch(const Key& key) { return std::holds_alternative<bool TrainConfig::*>(key.member); }

std::vector<std::string_view> ListChoices(const Key& key) { return SplitWords(key.choices); }

Settings MergeSettings(Settings below, const Settings& above) {
  if (above.contains("epochs")) below.erase("steps");
  if (above.contains("epochs") || above.contains("steps")) below.erase("minutes");
  for (const auto& [key, value] : above) below.insert_or_assign(key, value);
  return below;
}

void Set(const Key& key, std::string_view text, std::string_view where, TrainConfig* config) {
  std::visit(
      [&](auto member) {
        using T = std::remove_cvref_t<decltype(config->*member)>;
        T value{};
        Require(Parse(text, &value) && Within(key, value), "{}{}expected {}, got \"{}\"", where,
                where.empty() ? "" : ": ", Expected<T>(key), text);
        config->*member = std::move(value);
      },
      key.member);
}

std::string FormatValue(const Key& key, const TrainConfig& config) {
  return std::visit([&](auto member) { return ToText(config.*member); }, key.member);
}

Settings ParseSettings(std::string_view text, const std::string& where) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  try {
    // The JSON parser accepts tabs and gives better messages.
    return first != text.npos && text[first] == '{' ? FromJson(where, text) : FromYaml(where, text);
  } catch (const YAML::Exception& error) {
    Fail("{}, line {}: {}", where, error.mark.line + 1, error.msg);
  }
}

Settings ReadSettings(const std::filesystem::path& file) {
  return ParseSettings(ReadFile(file, kMaxFileBytes), file.string());
}

std::string RunSettingsProblem(const std::filesystem::path& file) {
  const std::string text = ReadFile(file, kMaxFileBytes);
  if (text.empty()) return FormatShown("{} is empty", file.string());
  if (text.substr(0, text.find('\n')) == kFirstLine) return {};
  return FormatShown("the first line of {} is not \"{}\", as qkv train writes it", file.string(), kFirstLine);
}

Settings ReadRunSettings(const std::filesystem::path& file) {
  return ParseRunSettings(ReadFile(file, kMaxFileBytes), file.string());
}

Settings ParseRunSettings(std::string_view text, const std::string& where) {
  Require(text.substr(0, text.find('\n')) == kFirstLine,
          "{}: expected a first line \"{}\", as qkv train writes it; put back the file that the run was begun with",
          where, kFirstLine);
  Settings settings = ParseSettings(text, where);
  const auto preset = settings.find("preset"), model = settings.find("model");
  const bool continues = model != settings.end() && !model->second.empty();
  for (const Key& key : Keys()) {
    if (IsLeftOut(key, preset == settings.end() ? "" : preset->second, continues, /*sized=*/false)) continue;
    if (std::ranges::find(kLaterKeys, key.name) != std::end(kLaterKeys)) continue;
    Require(settings.contains(key.name), "{}: no key {}; put back the file that the run was begun with", where,
            key.name);
  }
  return settings;
}

TrainConfig Resolve(const Settings& given) {
  TrainConfig config;
  const auto text = [&](std::string_view name) {
    const auto found = given.find(name);
    return found == given.end() ? std::string() : found->second;
  };
  const bool continues = !text("model").empty();
  std::string preset = text("preset");
  if (preset.empty()) preset = continues ? "fine-tune" : "vit-tiny";
  for (const auto& [name, value] : PresetSettings(preset)) {
    const Key& key = FindKey(name);
    if (!continues || !(IsModelKey(key) || key.name == "image-size")) Set(key, value, name, &config);
  }
  if (continues) config.image_size = {0, 0};
  for (const auto& [name, value] : given) {
    const Key& key = FindKey(name);
    Require(!IsKeyOfOtherData(key, preset), "train: key {} is for {} only; preset {} is for {}", name, OwnersOf(key),
            preset, DataOf(preset));
    Require(!continues || !IsModelKey(key), "train: {} is decided by model {}", name, text("model"));
    Set(key, value, fmt::format("train: {}", name), &config);
  }
  config.preset = preset;
  Check(config);
  return config;
}

std::string ToYaml(const TrainConfig& config) {
  std::string text = fmt::format("{}\n", kFirstLine);
  std::string_view group;
  const bool continues = !config.model.empty();
  for (const Key& key : Keys()) {
    if (IsLeftOut(key, config.preset, continues, /*sized=*/config.image_size.first > 0)) continue;
    if (key.group != group) text += fmt::format("\n# {}\n", key.group);
    group = key.group;
    const bool quoted = std::holds_alternative<std::string TrainConfig::*>(key.member);
    // A JSON string is a valid YAML string.
    const std::string value = FormatValue(key, config);
    text += fmt::format("{}: {}\n", key.name, quoted ? io::Json(value).dump() : value);
  }
  return text;
}

void RequireSameRun(const TrainConfig& before, const TrainConfig& now, std::span<const std::string_view> fixed) {
  std::vector<std::string> changed;
  for (const Key& key : Keys()) {
    const std::string was = FormatValue(key, before), is = FormatValue(key, now);
    const bool may = key.later && std::ranges::find(fixed, key.name) == fixed.end();
    if (!may && was != is) changed.push_back(fmt::format("{} was {}, now {}", key.name, was, is));
  }
  Require(changed.empty(), "train: a resumed run must be the one that was begun: {}", fmt::join(changed, "; "));
}

}  // namespace qkv::train
