#include "qkv/app/slides/slide_answers.h"

#include <set>

#include "qkv/app/models/model_facts.h"
#include "qkv/app/open/hub.h"

namespace qkv::app {

std::map<std::string, double> Probabilities(const mil::Head& head, const mil::Answer& answer) {
  std::map<std::string, double> probabilities;
  const std::vector<double> shares = mil::Probabilities(answer.logits);
  for (size_t c = 0; c < shares.size(); ++c) {
    probabilities[c < head.classes().size() ? head.classes()[c] : std::to_string(c)] = shares[c];
  }
  return probabilities;
}

std::vector<NamedHead> OpenHeads(const std::vector<std::string>& paths) {
  std::vector<NamedHead> heads;
  std::set<std::string> names;
  for (const std::string& path : paths) {
    const std::filesystem::path found = FindModel(path);
    const std::string id = HubIdOf(found);  // FEATHER's lie in the hub, below a folder that is called by a checksum
    const std::string name = IdOfPath(id.empty() ? std::filesystem::weakly_canonical(found).string() : id);
    Require(names.insert(name).second, "slide: two heads are called {}; rename one", name);
    heads.push_back({name, mil::OpenHead(found)});
  }
  return heads;
}

}  // namespace qkv::app
