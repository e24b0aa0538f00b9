#include "qkv/server/config.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <functional>
#include <map>
#include <set>

#include "qkv/app/open/hub.h"
#include "qkv/app/open/parse.h"
#include "qkv/app/vectors/embed.h"
#include "qkv/core/error.h"
#include "qkv/core/file.h"

namespace qkv::server {
namespace {

constexpr size_t kMaxFileBytes = size_t{1} << 20, kMaxKeyBytes = size_t{64} << 10;

// "64MB", "8 GB", "500000": bytes, in powers of 1000.
int64_t ParseBytes(const std::string& text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string unit(end, text.data() + text.size());
  unit.erase(0, unit.find_first_not_of(' ') == unit.npos ? unit.size() : unit.find_first_not_of(' '));
  static const std::map<std::string, double> kUnits = {{"", 1}, {"B", 1}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}};
  const auto factor = kUnits.find(unit);
  const double bytes = factor == kUnits.end() ? -1 : number * factor->second;
  Require(error == std::errc() && bytes >= 1 && bytes < 1e15, "expected bytes such as 64MB, got \"{}\"", text);
  return static_cast<int64_t>(bytes);
}

template <typename T>
T ParseNumber(const std::string& text, double least, double most) {
  T value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  Require(error == std::errc() && end == text.data() + text.size() && !text.empty() &&
              static_cast<double>(value) >= least && static_cast<double>(value) <= most,
          "expected a number from {} to {}, got \"{}\"", least, most, text);
  return value;
}

bool ParseSwitch(const std::string& text) {
  Require(text == "true" || text == "false", "expected true or false, got \"{}\"", text);
  return text == "true";
}

void RequireId(const std::string& id) {
  const bool fits = !id.empty() && id.size() <= 128 && std::all_of(id.begin(), id.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '-' || c == '_' || c == '.' || c == ':';
  });
  Require(fits, "an id of a model has only letters, digits and -_.: in it, got \"{}\"; give one by id", id);
}

using Setters = std::map<std::string, std::function<void(const YAML::Node&)>>;

// Reads one file; errors name it and the line.
std::string InLowerCase(std::string word) {
  std::transform(word.begin(), word.end(), word.begin(), [](unsigned char c) { return std::tolower(c); });
  return word;
}

// In the form that browsers and clients send.
std::string ParseHostName(std::string word) {
  Require(word.find_first_of(":/") == word.npos, "expected a name without port, such as qkv.example.org, got {}", word);
  return InLowerCase(std::move(word));
}

std::string ParseOrigin(std::string word) {
  if (word == "*") return word;
  const size_t name = word.find("://");
  Require(name != word.npos && word.find('/', name + 3) == word.npos,
          "expected an origin without path, such as https://example.org, got {}", word);
  return InLowerCase(std::move(word));
}

class Reader {
 public:
  explicit Reader(const std::filesystem::path& file) : file_(file), folder_(file.parent_path()) {}

  ServerConfig Read(const std::string& text) {
    YAML::Node root;
    try {
      root = YAML::Load(text);
    } catch (const YAML::Exception& error) {
      Fail("{}: line {}: {}", file_.string(), error.mark.line + 1, error.msg);
    }
    Require(!root.IsNull(), "{}: expected keys with values, such as port: 8080; the file is empty", file_.string());
    ServerConfig c;
    const auto words = [&](std::vector<std::string>& to, std::string (*parse)(std::string)) {
      return [&to, parse](const YAML::Node& node) {
        to = Words(node);
        for (std::string& word : to) word = parse(std::move(word));
      };
    };
    Map(root, "",
        {{"address", [&](const YAML::Node& n) { c.address = Word(n); }},
         {"port", [&](const YAML::Node& n) { c.port = ParseNumber<uint16_t>(Word(n), 0, 65535); }},
         {"api_key_file", [&](const YAML::Node& n) { c.api_keys = ReadKeyFile(folder_ / Word(n)); }},
         {"origins", words(c.origins, ParseOrigin)},
         {"hosts", words(c.hosts, ParseHostName)},
         {"trusted_proxies",
          [&](const YAML::Node& n) {
            c.trusted_proxies = Words(n);
            TrustedProxies{c.trusted_proxies};
          }},
         {"explorer", [&](const YAML::Node& n) { c.explorer = ParseSwitch(Word(n)); }},
         {"log", [&](const YAML::Node& n) { c.log = ParseSwitch(Word(n)); }},
         {"memory", [&](const YAML::Node& n) { c.memory = ParseBytes(Word(n)); }},
         {"threads", [&](const YAML::Node& n) { c.threads = ParseNumber<int>(Word(n), 1, 1024); }},
         {"limits", [&](const YAML::Node& n) { ReadLimits(n, c); }},
         {"models", [&](const YAML::Node& n) { ReadModels(n, c.models); }}});
    return c;
  }

 private:
  void ReadLimits(const YAML::Node& node, ServerConfig& c) {
    const auto seconds = [](double& to) {
      return [&to](const YAML::Node& n) { to = ParseNumber<double>(Word(n), 0.1, 86400); };
    };
    Map(node, "limits",
        {{"body", [&](const YAML::Node& n) { c.limits.body = ParseBytes(Word(n)); }},
         {"bodies", [&](const YAML::Node& n) { c.limits.bodies = ParseBytes(Word(n)); }},
         {"connections", [&](const YAML::Node& n) { c.limits.connections = ParseNumber<int>(Word(n), 1, 65536); }},
         {"pixels", [&](const YAML::Node& n) { c.most_pixels = ParseNumber<int64_t>(Word(n), 1, 1e9); }},
         {"images", [&](const YAML::Node& n) { c.image_bytes = ParseBytes(Word(n)); }},
         {"active", [&](const YAML::Node& n) { c.most_active = ParseNumber<int>(Word(n), 1, 4096); }},
         {"batch", [&](const YAML::Node& n) { c.batching.most_together = ParseNumber<int64_t>(Word(n), 1, 4096); }},
         {"delay_ms",
          [&](const YAML::Node& n) {
            c.batching.most_delay =
                std::chrono::microseconds(static_cast<int64_t>(1000 * ParseNumber<double>(Word(n), 0, 1000)));
          }},
         {"request_seconds", seconds(c.request_seconds)},
         {"notice_seconds", [&](const YAML::Node& n) { c.notice_seconds = ParseNumber<double>(Word(n), 0, 3600); }},
         {"drain_seconds", seconds(c.drain_seconds)},
         {"header_seconds", seconds(c.limits.header_seconds)},
         {"idle_seconds", seconds(c.limits.idle_seconds)},
         {"transfer_seconds", seconds(c.limits.transfer_seconds)}});
    Require(c.limits.body <= c.limits.bodies, "body is above bodies, which all bodies share: {} and {}", c.limits.body,
            c.limits.bodies);
  }

  void ReadModels(const YAML::Node& node, std::vector<ModelEntry>& models) {
    if (!node.IsSequence()) FailAt(node, "models: expected a list");
    std::set<std::string> ids;
    for (const YAML::Node& item : node) {
      ModelEntry m;
      Map(item, "models",
          {{"id", [&](const YAML::Node& n) { m.id = Word(n); }},
           {"title", [&](const YAML::Node& n) { m.title = Word(n); }},
           {"path", [&](const YAML::Node& n) { m.path = Path(Word(n)); }},
           {"dtype", [&](const YAML::Node& n) { m.build.precision = app::ParsePrecision(Word(n), "dtype"); }},
           {"size", [&](const YAML::Node& n) { m.size = app::ParseSize(Word(n), "size"); }},
           {"pool",
            [&](const YAML::Node& n) {
              app::ParsePooling(Word(n), "pool");
              m.pool = Word(n);
            }},
           {"labels", [&](const YAML::Node& n) { m.labels = File(Word(n)); }},
           {"tasks",
            [&](const YAML::Node& n) {
              m.tasks = Words(n);
              for (const std::string& task : m.tasks) {
                Require(task == "translate" || task == "summarize", "tasks: expected translate or summarize, got {}",
                        task);
              }
            }},
           {"revision", [&](const YAML::Node& n) { m.revision = Word(n); }},
           {"at_start", [&](const YAML::Node& n) { m.at_start = ParseSwitch(Word(n)); }}});
      if (m.id.empty()) m.id = app::IdOfPath(m.path);
      try {
        RequireId(m.id);
        Require(ids.insert(m.id).second, "two models are called \"{}\"; give one of them another id", m.id);
      } catch (const Error& error) {
        FailAt(item, std::string("models: ") + error.what());
      }
      models.push_back(std::move(m));
    }
  }

  // A folder beside the file, or a name that the engine knows.
  std::string Path(const std::string& given) const {
    const std::filesystem::path beside = folder_ / given;
    std::error_code ignored;
    if (given.empty()) return given;
    if (std::filesystem::exists(beside, ignored)) return beside.string();
    const std::filesystem::path found = app::FindModel(given);
    if (found.empty()) return {};  // the built-in model
    Require(std::filesystem::exists(found, ignored), "no such file or folder, nor an id in the hub's cache: \"{}\"",
            given);
    return given;
  }
  std::string File(const std::string& given) const {
    std::error_code ignored;
    Require(std::filesystem::is_regular_file(folder_ / given, ignored), "no such file: \"{}\"", given);
    return (folder_ / given).string();
  }

  static std::string Word(const YAML::Node& node) {
    Require(node.IsScalar(), "expected one value");
    return node.Scalar();
  }
  static std::vector<std::string> Words(const YAML::Node& node) {
    std::vector<std::string> words;
    if (node.IsScalar()) return {node.Scalar()};
    Require(node.IsSequence(), "expected a list");
    for (const YAML::Node& item : node) words.push_back(Word(item));
    return words;
  }

  [[noreturn]] void FailAt(const YAML::Node& node, const std::string& what) const {
    Fail("{}: line {}: {}", file_.string(), node.Mark().line + 1, what);
  }

  // Calls the setter of each key. name: of the node, empty for the root.
  void Map(const YAML::Node& node, const std::string& name_of_node, const Setters& setters) const {
    Require(node.IsMap() || !name_of_node.empty(), "{}: line {}: expected keys with values, such as port: 8080",
            file_.string(), node.Mark().line + 1);
    Require(node.IsMap(), "expected keys with values");
    const std::string prefix = name_of_node.empty() ? "" : name_of_node + ".";
    std::set<std::string> seen;
    for (const auto& pair : node) {
      const YAML::Node &key = pair.first, &value = pair.second;
      const std::string name = key.IsScalar() ? key.Scalar() : "";
      const auto setter = setters.find(name);
      if (setter == setters.end()) {
        std::string known;
        for (const auto& [other, ignored] : setters) known += (known.empty() ? "" : ", ") + other;
        FailAt(key, prefix + name + ": no such key; there are " + known);
      }
      if (!seen.insert(name).second) FailAt(key, prefix + name + " stands twice");
      try {
        setter->second(value);
      } catch (const Error& error) {
        const std::string what = error.what();
        if (what.starts_with(file_.string())) throw;
        // A missing value has the position of what follows.
        FailAt(value.IsNull() ? key : value, prefix + name + ": " + what);
      }
    }
  }

  const std::filesystem::path file_, folder_;
};

}  // namespace

ServerConfig ParseServerConfig(const std::string& text, const std::filesystem::path& file) {
  return Reader(file).Read(text);
}

ServerConfig ReadServerConfig(const std::filesystem::path& file) {
  return ParseServerConfig(ReadFile(file, kMaxFileBytes), file);
}

std::vector<std::string> ReadKeyFile(const std::filesystem::path& file) {
  const std::string text = ReadFile(file, kMaxKeyBytes);
  std::vector<std::string> keys;
  int number = 0;
  for (std::string_view rest = text; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    line = TrimBlanks(line);
    if (line.empty() || line.starts_with('#')) continue;
    const bool fits = std::all_of(line.begin(), line.end(), [](unsigned char c) { return c > ' ' && c < 0x7F; });
    Require(fits, "{}: line {}: expected a key of printable ASCII without blanks", file.string(), number);
    keys.emplace_back(line);
  }
  Require(!keys.empty(), "{}: expected a key in a line, got none", file.string());
  return keys;
}

void RequireModels(const std::vector<ModelEntry>& models) {
  std::set<std::string> ids;
  for (const ModelEntry& model : models) {
    RequireId(model.id);
    Require(ids.insert(model.id).second, "models: two are called \"{}\"; give one of them another id", model.id);
  }
}

}  // namespace qkv::server
