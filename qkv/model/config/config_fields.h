// The fields of a configuration, declared once: a function VisitFields(config, visitor) visits each field with its key.
// Reading, writing and checking are visitors.
//
//   Int(key, what, value, low, high)        always written
//   Number(key, what, value, low, high)
//   Bool(key, value)
//   Enum(key, value, find, names)           by Name(value) and find(name); names: those that find accepts, for messages
// Each has an optional last argument: the default of an absent key, which is not written either.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "qkv/core/error.h"
#include "qkv/io/fields.h"
#include "qkv/io/json.h"
#include "qkv/model/config/block_config.h"

namespace qkv::model {

/// Reads fields; absent keys keep the configuration's value. Throws Error that names the key.
class FieldReader {
 public:
  explicit FieldReader(const io::Fields& fields) : fields_(fields) {}

  void Int(std::string_view key, std::string_view, int64_t& value, int64_t, int64_t, std::optional<int64_t> = {}) {
    value = fields_.Int(key, value);
  }
  void Number(std::string_view key, std::string_view, double& value, double, double, std::optional<double> = {}) {
    value = fields_.Number(key, value);
  }
  void Bool(std::string_view key, bool& value, std::optional<bool> = {}) { value = fields_.Bool(key, value); }
  template <typename E, typename Find>
  void Enum(std::string_view key, E& value, Find find, std::string_view names,
            std::optional<std::type_identity_t<E>> = {}) {
    const std::string name = fields_.String(key, std::string(Name(value)));
    const std::optional<E> found = find(name);
    Require(found.has_value(), "{}: \"{}\" is {}, expected {}", fields_.where(), key, io::Quoted(name), names);
    value = *found;
  }

 private:
  const io::Fields& fields_;
};

class FieldWriter {
 public:
  explicit FieldWriter(io::Json* json) : json_(*json) {}

  void Int(std::string_view key, std::string_view, int64_t value, int64_t, int64_t,
           std::optional<int64_t> absent = {}) {
    if (value != absent) json_[std::string(key)] = value;
  }
  void Number(std::string_view key, std::string_view, double value, double, double, std::optional<double> absent = {}) {
    if (value != absent) json_[std::string(key)] = value;
  }
  void Bool(std::string_view key, bool value, std::optional<bool> absent = {}) {
    if (value != absent) json_[std::string(key)] = value;
  }
  template <typename E, typename Find>
  void Enum(std::string_view key, E value, Find, std::string_view, std::optional<std::type_identity_t<E>> absent = {}) {
    if (value != absent) json_[std::string(key)] = Name(value);
  }

 private:
  io::Json& json_;
};

/// Checks fields. Throws Error that names the value if it is out of range.
class FieldBounds {
 public:
  void Int(std::string_view, std::string_view what, int64_t value, int64_t low, int64_t high,
           std::optional<int64_t> = {}) {
    RequireRange(what, value, low, high);
  }
  void Number(std::string_view, std::string_view what, double value, double low, double high,
              std::optional<double> = {}) {
    Require(value >= low && value <= high, "config: {} is {}, expected {} to {}", what, value, low, high);
  }
  void Bool(std::string_view, bool, std::optional<bool> = {}) {}
  template <typename E, typename Find>
  void Enum(std::string_view, E, Find, std::string_view, std::optional<std::type_identity_t<E>> = {}) {}
};

/// The fields of a block under qkv's own keys (those of SequenceConfig). Cross-attention is not read from files.
/// An attention layer, in qkv's own words.
template <typename Visitor>
void VisitFields(nn::AttentionConfig& c, Visitor& visit) {
  visit.Int("heads", "the number of heads", c.heads, 1, kMaxExtent);
  visit.Int("head_width", "the head width", c.head_width, 1, kMaxExtent);
  visit.Int("key_heads", "the number of key heads", c.key_heads, 0, kMaxExtent, 0);
  visit.Int("window_left", "the window to the left", c.window_left, -1, kMaxExtent, -1);
  visit.Int("window_right", "the window to the right", c.window_right, -1, kMaxExtent, -1);
  visit.Bool("sinks", c.sinks, false);
  visit.Enum("qkv_attention", c.kind, FindAttentionKind, kAttentionKindNames);
  visit.Int("qkv_attention_rank", "the rank of attention", c.qk_width, 0, kMaxExtent, 0);
  visit.Bool("qkv_bias", c.bias);
  visit.Bool("qk_norm", c.qk_norm);
}

/// A block, likewise. Cross-attention has no fields: only a program sets it.
template <typename Visitor>
void VisitFields(nn::BlockConfig& c, Visitor& visit) {
  visit.Int("width", "the width", c.width, 1, kMaxExtent);
  VisitFields(c.attention, visit);
  visit.Int("mlp_width", "the MLP's hidden width", c.mlp.width, 1, kMaxExtent);
  visit.Enum("activation", c.mlp.activation, FindActivation, kActivationNames);
  bool gated = c.mlp.gate != simd::Gate::kNone;
  visit.Bool("gated", gated);
  if (gated != (c.mlp.gate != simd::Gate::kNone)) c.mlp.gate = gated ? simd::Gate::kFirst : simd::Gate::kNone;
  visit.Enum("norm", c.norm.kind, FindNormKind, "layer or rms", simd::NormKind::kLayer);
  visit.Bool("norm_bias", c.norm.bias, true);
  visit.Number("eps", "the norm's eps", c.norm.eps, 0, 1);
  visit.Enum("norm_place", c.norm_place, FindNormPlace, "before or after", nn::NormPlace::kBefore);
  visit.Bool("layer_scale", c.layer_scale);
}

}  // namespace qkv::model
