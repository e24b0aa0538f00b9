// Opens heads by what lies at a path.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "qkv/core/file.h"
#include "qkv/io/json.h"
#include "qkv/io/weights.h"
#include "qkv/mil/gated_files.h"
#include "qkv/mil/gated_head.h"
#include "qkv/mil/head.h"
#include "qkv/mil/trained_head.h"

namespace qkv::mil {
namespace {

namespace fs = std::filesystem;

// A folder may hold one checkpoint under any name, as CLAM writes s_0_checkpoint.pt.
fs::path FindWeights(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return path;
  for (const char* name : io::WeightFileNames()) {
    if (FileExists(path / name)) return path;
  }
  std::vector<fs::path> found;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error)) {
    const std::string suffix = entry->path().extension().string();
    if (suffix == ".pt" || suffix == ".pth" || suffix == ".safetensors") found.push_back(entry->path());
  }
  Require(!error, "cannot read folder {}: {}", path.string(), error.message());
  std::sort(found.begin(), found.end());
  if (found.size() > 1) {
    Fail("{}: {} heads lie here ({}, {}, …); name one of these files", path.string(), found.size(),
         found.front().filename().string(), found.back().filename().string());
  }
  return found.empty() ? path : found[0];
}

// `id2label` of a config.json as Hugging Face's library writes it; none if there is no such file or key.
std::vector<std::string> ReadClassNames(const fs::path& folder) {
  const fs::path file = folder / "config.json";
  if (!FileExists(file)) return {};
  const io::Json json = io::ReadJson(file);
  if (!json.is_object() || !json.contains("id2label") || !json["id2label"].is_object()) return {};
  const io::Json& labels = json["id2label"];
  std::vector<std::string> names;
  for (size_t i = 0; i < labels.size(); ++i) {
    const auto label = labels.find(std::to_string(i));
    Require(label != labels.end() && label->is_string(), "{}: id2label has no name of class {}", file.string(), i);
    names.push_back(label->get<std::string>());
  }
  return names;
}

}  // namespace

std::vector<double> Probabilities(View<const float> logits) {
  std::vector<double> shares(logits.data(), logits.data() + logits.size());
  if (shares.empty()) return shares;
  const double greatest = *std::max_element(shares.begin(), shares.end());
  double sum = 0;
  for (double& share : shares) sum += share = std::exp(share - greatest);
  for (double& share : shares) share /= sum;
  return shares;
}

std::unique_ptr<Head> OpenHead(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored) && FileExists(path / "config.json")) {
    const io::Json json = io::ReadJson(path / "config.json");
    if (json.is_object() && json.contains(kRunKey)) return OpenRunHead(path, json);
    if (json.is_object() && json.contains(kModelKey)) return OpenTrainedHead(path);
  }
  const fs::path file = FindWeights(path);
  io::TensorSet set = io::OpenWeights(file);
  std::error_code error;
  const std::vector<std::string> classes =
      fs::is_directory(path, error) ? ReadClassNames(path) : std::vector<std::string>{};
  return std::make_unique<GatedHead>(ReadGatedWeights(&set, path.string(), classes));
}

}  // namespace qkv::mil
