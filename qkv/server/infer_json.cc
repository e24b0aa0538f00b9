#include "qkv/server/infer_json.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "qkv/core/work.h"
#include "qkv/server/request_input.h"

namespace qkv::server {
namespace {

using Event = io::Json::parse_event_t;

constexpr int64_t kStepsOfValue = 64;  // some hundred nanoseconds

// Takes out the elements of "data" while parsing. Depths are nlohmann's: 0 is the object itself, 1 its keys and their
// values, 3 the keys of an object in "inputs".
class Taker {
 public:
  explicit Taker(std::vector<InferData>* data) : data_(*data) {}

  // False: the parser need not keep it.
  bool operator()(int depth, Event event, const io::Json& value) {
    Spend(kStepsOfValue);
    if (taken_) return Take(depth, event, value);
    if (event != Event::array_end && event != Event::object_end && ++values_ > kMaxValues) {
      BadRequest(fmt::format("body: JSON with more than {} values beside the tensors' data", kMaxValues));
    }
    if (event == Event::key && depth == 1) {
      in_inputs_ = value == "inputs";
      if (in_inputs_) data_.clear();
    }
    if (!in_inputs_) return true;
    if (event == Event::object_start && depth == 2) data_.emplace_back();
    if (event == Event::key && depth == 3) is_data_ = value == "data";
    if (event == Event::array_start && depth == 3 && is_data_ && !data_.empty()) {
      data_.back() = {};
      taken_ = &data_.back();
      counts_ = {0};
      element_depth_.reset();
    }
    return true;
  }

 private:
  bool Take(int depth, Event event, const io::Json& value) {
    switch (event) {
      case Event::value:
        ++counts_.back();
        AddElement(value);
        return false;
      case Event::array_start:
        ++counts_.back();
        counts_.push_back(0);
        return true;  // or its elements would not come
      case Event::array_end:
        EndList();
        if (depth > 3) return false;
        taken_ = nullptr;
        return true;
      default:
        taken_->fault = "an object in it";
        return false;
    }
  }

  // All lists of one depth must have one length; elements are in the deepest.
  void EndList() {
    const size_t axis = counts_.size() - 1;
    if (axis >= Shape::kMaxRank) taken_->fault = "lists nested too deeply";
    std::vector<int64_t>& extents = taken_->extents;
    if (extents.size() <= axis) extents.resize(axis + 1, -1);
    if (extents[axis] < 0) extents[axis] = counts_.back();
    if (extents[axis] != counts_.back()) taken_->fault = "lists of different lengths";
    counts_.pop_back();
  }

  void AddElement(const io::Json& value) {
    InferData& data = *taken_;
    RequireDepth();
    if (value.is_string()) {
      if (std::ssize(data.texts) == kMaxInferTexts) BadRequest("data", fmt::format("up to {} texts", kMaxInferTexts));
      data.texts.push_back(value.get_ref<const std::string&>());
    } else if (!value.is_number()) {
      data.fault = "neither numbers nor texts";
    } else if (data.floats.empty() && IsInteger(value)) {
      data.integers.push_back(value.get<int64_t>());
    } else {
      if (data.floats.empty()) data.floats.assign(data.integers.begin(), data.integers.end()), data.integers.clear();
      data.floats.push_back(value.get<float>());
    }
    if (!data.texts.empty() && (!data.integers.empty() || !data.floats.empty())) data.fault = "numbers beside texts";
  }

  void RequireDepth() {
    const size_t depth = counts_.size();
    if (element_depth_.value_or(depth) != depth) taken_->fault = "elements beside lists";
    element_depth_ = depth;
  }

  static bool IsInteger(const io::Json& value) {
    return value.is_number_integer() && (!value.is_number_unsigned() || value.get<uint64_t>() <= INT64_MAX);
  }

  std::vector<InferData>& data_;
  size_t values_ = 0;
  bool in_inputs_ = false, is_data_ = false;
  InferData* taken_ = nullptr;   // whose list the parser is in
  std::vector<int64_t> counts_;  // of elements in the lists that are open
  std::optional<size_t> element_depth_;
};

}  // namespace

bool InferData::Fits(const Shape& shape) const {
  if (size() != shape.size()) return false;
  return std::ssize(extents) == 1 ||
         std::equal(extents.begin(), extents.end(), shape.extents().begin(), shape.extents().end());
}

InferJson ParseInferJson(std::string_view text) {
  InferJson parsed;
  try {
    io::CheckJsonLimits(text, {.depth = 64, .token_bytes = std::numeric_limits<size_t>::max()}, "body");
    Taker taker(&parsed.data);
    parsed.json =
        io::Json::parse(text, [&taker](int depth, Event event, io::Json& value) { return taker(depth, event, value); });
  } catch (const io::Json::exception& error) {
    BadRequest(FormatShown("body: not valid JSON: {}", io::JsonErrorReason(error)));
  } catch (const HttpError&) {
    throw;
  } catch (const Error& error) {
    BadRequest(error.what());
  }
  if (!parsed.json.is_object()) BadRequest("body", "a JSON object");
  return parsed;
}

}  // namespace qkv::server
