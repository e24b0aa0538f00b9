#include "qkv/app/slides/slide_answers.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace qkv::app {

std::map<std::string, double> Probabilities(const mil::Head& head, const mil::Answer& answer) {
  std::map<std::string, double> probabilities;
  const auto logits = answer.logits.span();
  if (logits.empty()) return probabilities;
  const double greatest = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - greatest);
  for (size_t c = 0; c < logits.size(); ++c) {
    const std::string name = c < head.classes().size() ? head.classes()[c] : std::to_string(c);
    probabilities[name] = std::exp(logits[c] - greatest) / sum;
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
