// The algebra of queries and keys on arrays: all heads of a layer, in parallel.
#include "python/src/qk.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <complex>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "python/src/call.h"
#include "python/src/objects.h"
#include "python/src/tensors.h"
#include "qkv/algebra/directions.h"
#include "qkv/algebra/gauge.h"
#include "qkv/algebra/merge.h"
#include "qkv/algebra/split.h"
#include "qkv/algebra/truncate.h"
#include "qkv/core/memory.h"
#include "qkv/core/parallel.h"
#include "qkv/inspect/heads.h"

namespace qkv::python {
namespace {

using algebra::ProjectionView;
using algebra::QueryKey;
using algebra::QueryKeyView;
using algebra::Terms;

using OptionalArray = std::optional<Array>;

View<const double> ViewOf(const OptionalArray& array, const char* name) {
  return array ? AsView<const double>(*array, name) : View<const double>();
}

Terms TermsOf(bool exact) { return exact ? Terms::kExact : Terms::kSoftmax; }

// The weights of a layer as PyTorch stores them, [heads · E, D]; several heads may share one of the keys.
class Layer {
 public:
  Layer(const char* work, const Array& w_q, const Array& w_k, const OptionalArray& b_q, const OptionalArray& b_k,
        int64_t heads)
      : query_{AsView<const double>(w_q, "w_q"), ViewOf(b_q, "b_q")},
        key_{AsView<const double>(w_k, "w_k"), ViewOf(b_k, "b_k")},
        heads_(heads) {
    const auto check = [&](const ProjectionView& p, const char* weight, const char* bias) {
      Require(p.weight.rank() == 2 && p.weight.size() > 0, "{}: {}: an array {}, expected [heads · E, D]", work, weight,
              p.weight.shape());
      Require(p.bias.empty() || p.bias.shape() == Shape({p.weight.dim(0)}), "{}: {}: an array {}, expected [{}]", work,
              bias, p.bias.shape(), p.weight.dim(0));
    };
    check(query_, "w_q", "b_q"), check(key_, "w_k", "b_k");
    Require(query_.weight.dim(0) % heads == 0,
            "{}: the {} rows of w_q do not divide into {} heads; weights are [heads · E, D], as torch.nn.Linear has "
            "them: transpose those of GPT-2's Conv1D",
            work, query_.weight.dim(0), heads);
    const int64_t E = query_.weight.dim(0) / heads, rows = key_.weight.dim(0);
    Require(rows % E == 0 && heads % (rows / E) == 0,
            "{}: w_q {} has {} heads of {}, which w_k {} does not fit: expected [{}, D], or fewer heads that groups of "
            "queries share",
            work, query_.weight.shape(), heads, E, key_.weight.shape(), heads * E);
    key_heads_ = rows / E;
  }

  int64_t heads() const { return heads_; }
  int64_t key_heads() const { return key_heads_; }
  int64_t group() const { return heads_ / key_heads_; }  // heads that share keys
  ProjectionView Query(int64_t head) const { return algebra::Head(query_, head, heads_); }
  ProjectionView Key(int64_t key_head) const { return algebra::Head(key_, key_head, key_heads_); }
  QueryKeyView Pair(int64_t head) const { return {Query(head), Key(head / group())}; }

 private:
  ProjectionView query_, key_;
  int64_t heads_, key_heads_ = 1;
};

// of_head(h) for each head, on all cores; an Error names its head.
template <typename F>
auto OfHeads(int64_t heads, F of_head) {
  std::vector<std::invoke_result_t<F, int64_t>> results(static_cast<size_t>(heads));
  Call call;
  call.Run([&] {
    ParallelTasks(heads, [&](int64_t head, int) {
      try {
        results[static_cast<size_t>(head)] = of_head(head);
      } catch (const Error& error) {
        if (heads == 1) throw;
        Fail("head {}: {}", head, EscapedText{error.what()});
      }
    });
  });
  return results;
}

// The results' tensors one after the other, [count, …] in the shape of the greatest; lesser ones end with zeros. None
// where there are none.
template <typename T, typename Get>
nb::object Stack(const std::vector<T>& results, Get get) {
  Shape greatest = get(results.front()).shape();
  for (const T& result : results) {
    if (get(result).size() > greatest.size()) greatest = get(result).shape();
  }
  if (greatest.size() == 0) return nb::none();
  std::vector<int64_t> extents = {std::ssize(results)};
  extents.insert(extents.end(), greatest.extents().begin(), greatest.extents().end());
  Tensor<double> all{Shape(std::span<const int64_t>(extents))};
  for (size_t i = 0; i < results.size(); ++i) {
    std::ranges::copy(get(results[i]).span(), all.data() + static_cast<int64_t>(i) * greatest.size());
  }
  return ToArray(std::move(all));
}

template <typename T>
nb::object Stack(const std::vector<T>& results, Tensor<double> T::*member) {
  return Stack(results, [member](const T& result) -> const Tensor<double>& { return result.*member; });
}

// (w_q, w_k, b_q, b_k), each [heads, …].
nb::tuple ToTuple(const std::vector<QueryKey>& pairs) {
  using Projection = algebra::Projection;
  const auto stack = [&](Projection QueryKey::*side, Tensor<double> Projection::*part) {
    return Stack(pairs, [=](const QueryKey& pair) -> const Tensor<double>& { return pair.*side.*part; });
  };
  return nb::make_tuple(stack(&QueryKey::query, &Projection::weight), stack(&QueryKey::key, &Projection::weight),
                        stack(&QueryKey::query, &Projection::bias), stack(&QueryKey::key, &Projection::bias));
}

nb::tuple Merge(const Array& w_q, const Array& w_k, const OptionalArray& b_q, const OptionalArray& b_k, int64_t heads,
                bool exact) {
  const Layer layer("merge", w_q, w_k, b_q, b_k, heads);
  RequireMemory(2.0 * sizeof(double) * static_cast<double>(heads) * static_cast<double>(w_q.shape(1)) *
                    static_cast<double>(w_k.shape(1)),
                "merge: M [heads, D_q, D_k]");
  const auto merged = OfHeads(heads, [&](int64_t head) { return algebra::Merge(layer.Pair(head), TermsOf(exact)); });
  using algebra::Merged;
  nb::list constants;
  for (const Merged& one : merged) constants.append(one.constant);
  return nb::make_tuple(Stack(merged, &Merged::matrix), Stack(merged, &Merged::key_term),
                        Stack(merged, &Merged::query_term), std::move(constants));
}

// M [H, D_q, D_k] and its bias terms as the algebra takes them, a head at a time.
class MergedHeads {
 public:
  MergedHeads(const char* work, const Array& m, const OptionalArray& u, const OptionalArray& w, const OptionalArray& c)
      : m_(AsView<const double>(m, "m")), u_(ViewOf(u, "u")), w_(ViewOf(w, "w")), c_(ViewOf(c, "c")) {
    Require(m_.rank() == 3 && m_.size() > 0, "{}: m: an array {}, expected [heads, D_q, D_k]", work, m_.shape());
    const auto check = [&](const View<const double>& term, const char* name, const Shape& expected) {
      Require(term.empty() || term.shape() == expected, "{}: {}: an array {}, expected {}", work, name, term.shape(),
              expected);
    };
    check(u_, "u", {heads(), m_.dim(2)}), check(w_, "w", {heads(), m_.dim(1)}), check(c_, "c", {heads()});
  }

  int64_t heads() const { return m_.dim(0); }
  algebra::Merged Head(int64_t head) const {
    return {.matrix = Dense(m_[head]),
            .key_term = u_.empty() ? Tensor<double>() : Dense(u_[head]),
            .query_term = w_.empty() ? Tensor<double>() : Dense(w_[head]),
            .constant = c_.empty() ? 0 : *c_.at(head)};
  }

 private:
  View<const double> m_, u_, w_, c_;
};

nb::tuple Split(const Array& m, const OptionalArray& u, const OptionalArray& w, const OptionalArray& c, int64_t rank,
                double rounding) {
  const MergedHeads merged("split", m, u, w, c);
  return ToTuple(
      OfHeads(merged.heads(), [&](int64_t head) { return algebra::Split(merged.Head(head), rank, rounding); }));
}

nb::tuple Truncate(const Array& w_q, const Array& w_k, const OptionalArray& b_q, const OptionalArray& b_k,
                   int64_t heads, int64_t rank, bool exact, const OptionalArray& queries, const OptionalArray& keys) {
  const Layer layer("truncate", w_q, w_k, b_q, b_k, heads);
  const View<const double> x = ViewOf(queries, "x"), y = ViewOf(keys, "y");
  return ToTuple(OfHeads(heads, [&](int64_t head) {
    return queries ? algebra::TruncateForData(layer.Pair(head), x, y, rank, TermsOf(exact))
                   : algebra::Truncate(layer.Pair(head), rank, TermsOf(exact));
  }));
}

// The transform of each head of keys, by its name.
nb::object Gauge(const std::string& name, const Array& w_q, const Array& w_k, int64_t heads) {
  const Layer layer("regauge", w_q, w_k, {}, {}, heads);
  const algebra::Gauge gauge = algebra::ParseGauge(name, "regauge");
  const auto transforms = OfHeads(layer.key_heads(), [&](int64_t head) {
    std::vector<ProjectionView> queries;
    for (int64_t i = 0; i < layer.group(); ++i) queries.push_back(layer.Query(head * layer.group() + i));
    return algebra::FixGauge(gauge, queries, layer.Key(head));
  });
  return Stack(transforms, [](const Tensor<double>& transform) -> const Tensor<double>& { return transform; });
}

nb::tuple Regauge(const Array& w_q, const Array& w_k, const OptionalArray& b_q, const OptionalArray& b_k, int64_t heads,
                  const Array& transforms) {
  const Layer layer("regauge", w_q, w_k, b_q, b_k, heads);
  const View<const double> t = AsView<const double>(transforms, "transforms");
  const int64_t E = w_q.shape(0) / heads;
  Require(t.shape() == Shape({layer.key_heads(), E, E}), "regauge: transforms: an array {}, expected {}", t.shape(),
          Shape({layer.key_heads(), E, E}));
  const auto pairs =
      OfHeads(heads, [&](int64_t head) { return algebra::Regauge(layer.Pair(head), t[head / layer.group()]); });
  return ToTuple(pairs);
}

nb::object ToComplex(const std::vector<inspect::Circuit>& circuits) {
  const auto heads = circuits.size(), count = circuits.front().eigenvalues.size();
  if (count == 0) return nb::none();
  auto* const all = new std::vector<std::complex<double>>();
  const nb::capsule owner(all,
                          [](void* owned) noexcept { delete static_cast<std::vector<std::complex<double>>*>(owned); });
  for (const inspect::Circuit& circuit : circuits) {
    all->insert(all->end(), circuit.eigenvalues.begin(), circuit.eigenvalues.end());
  }
  return nb::cast(nb::ndarray<nb::numpy, std::complex<double>>(all->data(), {heads, count}, owner));
}

// The numbers of each head, in the names of `qkv qk inspect --json`.
nb::dict ToDict(const std::vector<inspect::Circuit>& circuits) {
  using inspect::Circuit;
  nb::dict numbers;
  const auto add = [&](const char* name, auto number) {
    nb::list values;
    for (const Circuit& circuit : circuits) values.append(number(circuit));
    numbers[name] = std::move(values);
  };
  add("singular_values", [](const Circuit& c) {
    nb::list values;
    for (const double value : c.singular_values) values.append(value);
    return values;
  });
  add("effective_rank", [](const Circuit& c) { return c.effective_rank; });
  add("stable_rank", [](const Circuit& c) { return c.stable_rank; });
  add("rank", [](const Circuit& c) { return c.rank; });
  add("condition", [](const Circuit& c) { return c.condition; });
  add("symmetry", [](const Circuit& c) { return c.symmetry; });
  add("eigenvalue_sign", [](const Circuit& c) { return c.eigenvalue_sign; });
  constexpr const char* kRanks[] = {"rank_90", "rank_99", "rank_99_9"};
  for (size_t i = 0; i < inspect::kEnergyShares.size(); ++i) {
    add(kRanks[i], [i](const Circuit& c) { return c.energy_rank[i]; });
  }
  numbers["eigenvalues"] = ToComplex(circuits);
  return numbers;
}

inspect::Spaces SpacesOf(int64_t rows, int64_t columns, bool cross) {
  return cross || rows != columns ? inspect::Spaces::kTwo : inspect::Spaces::kOne;
}

nb::dict Spectra(const Array& w_q, const Array& w_k, int64_t heads, bool cross) {
  const Layer layer("spectra", w_q, w_k, {}, {}, heads);
  return ToDict(OfHeads(heads, [&](int64_t head) {
    const QueryKeyView pair = layer.Pair(head);
    return inspect::MeasureCircuit(pair.query.weight, pair.key.weight,
                                   SpacesOf(pair.query.weight.dim(1), pair.key.weight.dim(1), cross));
  }));
}

// (singular values [H, k], left [H, k, D_q], right [H, k, D_k], the subspaces' first numbers of each head).
nb::tuple ToTuple(const std::vector<algebra::Directions>& directions) {
  using algebra::Directions;
  nb::list values, subspaces;
  for (const Directions& one : directions) values.append(nb::cast(one.singular_values));
  for (const Directions& one : directions) subspaces.append(nb::cast(one.subspaces));
  return nb::make_tuple(std::move(values), Stack(directions, &Directions::left), Stack(directions, &Directions::right),
                        std::move(subspaces));
}

nb::tuple FindDirections(const Array& w_q, const Array& w_k, int64_t heads, double rounding) {
  const Layer layer("directions", w_q, w_k, {}, {}, heads);
  return ToTuple(OfHeads(heads, [&](int64_t head) {
    const QueryKeyView pair = layer.Pair(head);
    return algebra::FindDirections(pair.query.weight, pair.key.weight, rounding);
  }));
}

// A NumPy array of float64 in the same shape.
nb::object ToFloat64(const Array& array, const std::string& name) {
  return ToArray(Dense(Operand<double>(array, name).view()));
}

int64_t KeyHeads(const Array& w_q, const Array& w_k, const OptionalArray& b_q, const OptionalArray& b_k,
                 int64_t heads) {
  Require(heads >= 1, "heads: expected at least 1, got {}", heads);
  return Layer("weights", w_q, w_k, b_q, b_k, heads).key_heads();
}

}  // namespace

void BindQk(nb::module_& module) {
  using namespace nb::literals;
  module.def("to_float64", &ToFloat64, "array"_a.noconvert(), "name"_a);
  module.def("qk_key_heads", &KeyHeads, "w_q"_a, "w_k"_a, "b_q"_a.none(), "b_k"_a.none(), "heads"_a);
  module.def("qk_merge", &Merge, "w_q"_a, "w_k"_a, "b_q"_a.none(), "b_k"_a.none(), "heads"_a, "exact"_a);
  module.def("qk_split", &Split, "m"_a, "u"_a.none(), "w"_a.none(), "c"_a.none(), "rank"_a, "rounding"_a);
  module.def("qk_truncate", &Truncate, "w_q"_a, "w_k"_a, "b_q"_a.none(), "b_k"_a.none(), "heads"_a, "rank"_a, "exact"_a,
             "x"_a.none(), "y"_a.none());
  module.def("qk_gauge", &Gauge, "name"_a, "w_q"_a, "w_k"_a, "heads"_a);
  module.def("qk_regauge", &Regauge, "w_q"_a, "w_k"_a, "b_q"_a.none(), "b_k"_a.none(), "heads"_a, "transforms"_a);
  module.def("qk_spectra", &Spectra, "w_q"_a, "w_k"_a, "heads"_a, "cross"_a);
  module.def("qk_directions", &FindDirections, "w_q"_a, "w_k"_a, "heads"_a, "rounding"_a);
}

}  // namespace qkv::python
