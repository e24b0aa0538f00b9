#include "qkv/lab/claims/claims.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "qkv/core/error.h"
#include "qkv/lab/claims/replay.h"
#include "qkv/report/text.h"

namespace qkv::lab {
namespace {

using Replay = Result (*)(const internal::Bench&);

struct Entry {
  std::string_view id;
  Replay replay;
};

constexpr std::array kEntries = {
    Entry{"C1", internal::ReplayUnified},
    Entry{"C2", internal::ReplaySeparate},
    Entry{"C3", internal::ReplaySameQk},
    Entry{"C4", internal::ReplayRestriction},
    Entry{"C5", internal::ReplayPatterns},
    Entry{"C6", internal::ReplayLearning},
    Entry{"C7", internal::ReplayIdentity},
    Entry{"C8", internal::ReplayParameters},
    Entry{"C9", internal::ReplaySpeed},
    Entry{"C10", internal::ReplayObstacles},
    Entry{"C11", internal::ReplayOneMatrix},
    Entry{"C12", internal::ReplaySmoothing},
    Entry{"C13", internal::ReplaySearch},
    Entry{"C14", internal::ReplayDictionary},
    Entry{"C15", internal::ReplaySpectra},
    Entry{"C16", internal::ReplayVariance},
    Entry{"C17", internal::ReplayHeads},
    Entry{"C18", internal::ReplayAllAtOnce},
    Entry{"C19", internal::ReplayTwoSequences},
    Entry{"C20", internal::ReplaySoftDictionary},
    Entry{"C21", internal::ReplayAlongTheDiagonal},
    Entry{"C22", internal::ReplayLanguageModel},
};

}  // namespace

std::string_view Name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kHolds:
      return "holds";
    case Verdict::kHoldsUnderConditions:
      return "holds under conditions";
    case Verdict::kDoesNotHold:
      return "does not hold";
    case Verdict::kOpen:
      return "left open";
    case Verdict::kNotMeasured:
      return "not measured";
  }
  return "?";
}

bool Check::holds() const {
  switch (relation) {
    case Relation::kEquals:
      return std::abs(measured - predicted) <= tolerance;
    case Relation::kAtMost:
      return measured <= predicted + tolerance;
    case Relation::kAtLeast:
      return measured >= predicted - tolerance;
    case Relation::kObserved:
      return true;
  }
  return false;
}

namespace {

std::string WithUnit(double value, const std::string& unit) {  // "64 G", "31.1 µs"
  if (unit == "s") return report::Seconds(value);
  return unit.empty() ? report::Number(value) : report::Number(value) + " " + unit;
}

}  // namespace

std::string Predicted(const Check& check) {
  switch (check.relation) {
    case Relation::kEquals:
      // Show the tolerance if it is statistical, not rounding.
      if (check.tolerance > 1e-6 * std::abs(check.predicted) && check.tolerance > 0) {
        return fmt::format("= {} ± {}", WithUnit(check.predicted, check.unit), report::Number(check.tolerance, 2));
      }
      return fmt::format("= {}", WithUnit(check.predicted, check.unit));
    case Relation::kAtMost:
      if (check.predicted == 0 && check.tolerance > 0) return fmt::format("≤ {}", report::Number(check.tolerance, 2));
      return fmt::format("≤ {}", WithUnit(check.predicted, check.unit));
    case Relation::kAtLeast:
      return fmt::format("≥ {}", WithUnit(check.predicted, check.unit));
    case Relation::kObserved:
      return std::isnan(check.predicted) ? "" : fmt::format("about {}", WithUnit(check.predicted, check.unit));
  }
  return "";
}

std::string Measured(const Check& check) { return WithUnit(check.measured, check.unit); }

bool Result::agrees() const {
  return std::ranges::all_of(checks, [](const Check& check) { return check.holds(); });
}

const Check* Result::Find(std::string_view what) const {
  const auto found = std::ranges::find(checks, what, &Check::what);
  return found == checks.end() ? nullptr : &*found;
}

std::span<const std::string_view> ClaimIds() {
  static const auto ids = [] {
    std::array<std::string_view, kEntries.size()> names;
    std::ranges::transform(kEntries, names.begin(), &Entry::id);
    return names;
  }();
  return ids;
}

std::vector<Result> ReplayClaims(const Setup& setup, std::span<const std::string> ids,
                                 const std::function<void(const Result&)>& done) {
  std::vector<const Entry*> wanted;
  for (const std::string& id : ids) {
    const auto found = std::ranges::find(kEntries, id, &Entry::id);
    Require(found != kEntries.end(), "claims: expected one of C1 to C22, got \"{}\"", id);
    wanted.push_back(&*found);
  }
  const internal::Bench bench(setup);
  std::vector<Result> results;
  for (const Entry* entry : wanted) {
    results.push_back(entry->replay(bench));
    results.back().id = entry->id;
    if (done) done(results.back());
  }
  return results;
}

}  // namespace qkv::lab
