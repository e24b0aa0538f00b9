#include "qkv/app/slides/slide_answers.h"

#include <set>

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
    const std::string name = std::filesystem::weakly_canonical(path).stem().string();
    Require(names.insert(name).second, "slide: two heads are called {}; rename one", name);
    heads.push_back({name, mil::OpenHead(path)});
  }
  return heads;
}

}  // namespace qkv::app
