// Answers the questions of the explorer's page about models, one call after the other (docs/explore_protocol.md). The
// server and the WebAssembly build carry the same packets. Not here: HTTP, threads, queues.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/explore/image_store.h"
#include "qkv/explore/loaded_model.h"
#include "qkv/explore/packet.h"

namespace qkv::explore {

struct ExplorerOptions {
  std::vector<ModelEntry> models;   // empty: DefaultModels()
  double memory = 0;                // bytes of built models; 0: a quarter of MemoryLimit()
  int64_t max_pixels = 50'000'000;  // of an image
};

/// What comes with qkv and is there: the digits, their twins with shared and with merged queries and keys, and the
/// translator.
std::vector<ModelEntry> DefaultModels();

/// One caller at a time. Models are opened at their first use; the least recently used are dropped above the memory.
class Explorer {
 public:
  /// Throws Error for two models of one id.
  explicit Explorer(ExplorerOptions options = {});

  /// Offers one more. Throws Error if one is called like it.
  void Add(ModelEntry entry);

  /// Answers a call, "models", "image", "pass", … Throws Error for a name that is none of Calls(), and for a request
  /// that cannot be answered.
  Packet Call(std::string_view name, const Packet& request);
  /// The same of bytes. Throws Error likewise.
  std::string Call(std::string_view name, std::string_view request);

  /// Names of all calls.
  static std::vector<std::string> Calls();

 private:
  LoadedModel& ModelOf(const Packet& request);
  void Trim();
  Packet Models();

  ExplorerOptions options_;
  std::vector<std::unique_ptr<LoadedModel>> models_;
  std::list<LoadedModel*> used_;  // most recently first
  ImageStore images_;
};

}  // namespace qkv::explore
