// Byte-pair encoding by a list of merges, as GPT-2, CLIP, Llama 3 and Gemma store it.
#pragma once

#include <array>
#include <string>
#include <utility>

#include "qkv/text/subword_model.h"

namespace qkv::text {

struct BpeConfig {
  std::string continuing_prefix;  // in front of every character of a word but the first
  std::string end_suffix;         // behind the last one: "</w>" of CLIP
  std::string unknown;            // token of characters outside of the vocabulary; empty: they are dropped
  bool fuse_unknown = false;      // one token for a run of them
  bool byte_fallback = false;     // characters outside of the vocabulary become tokens of their bytes
  bool ignore_merges = false;     // a piece that is a token is encoded as this
};

class BpeModel : public SubwordModel {
 public:
  /// Takes the vocabulary, finished, and the merges, the most important first: Add each, then Finish. Throws Error,
  /// prefixed with `where`.
  BpeModel(Vocabulary vocabulary, BpeConfig config, std::string where);
  void AddMerge(std::string_view left, std::string_view right);
  void Finish();

  void Encode(std::string_view piece, ModelWorkspace& workspace, std::vector<int32_t>* ids) const override;
  const BpeConfig& config() const { return config_; }

 private:
  struct Merge {
    uint64_t pair;  // of ids
    uint32_t rank;
    int32_t id;  // -1: an empty slot
  };
  // Ids of characters below this are looked up in tables.
  static constexpr char32_t kTabled = 0x250;

  const Merge* FindMerge(int32_t left, int32_t right) const;
  void EncodeWord(std::string_view word, ModelWorkspace& workspace, std::vector<int32_t>* ids) const;
  void MakeSymbols(std::string_view word, ModelWorkspace& workspace) const;
  void MergeShort(ModelWorkspace& workspace, std::vector<int32_t>* ids) const;
  void MergeLong(ModelWorkspace& workspace, std::vector<int32_t>* ids) const;
  int32_t CharacterId(std::string_view character, char32_t code, bool first, bool last) const;

  BpeConfig config_;
  std::string where_;
  std::vector<Merge> merges_;  // as given
  std::vector<Merge> table_;   // open addressing
  std::vector<int32_t> byte_tokens_;
  std::array<std::array<int32_t, kTabled>, 4> characters_;  // index: 2 · first + last
  int32_t unknown_ = -1;
  bool metaspace_words_ = false;  // no merge crosses the beginning of a "▁"
};

}  // namespace qkv::text
