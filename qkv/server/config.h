// What a server offers, from a file or from options of the command line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "qkv/app/loaded_model.h"
#include "qkv/server/engine.h"
#include "qkv/server/http_message.h"

namespace qkv::server {

using app::ModelEntry;

struct ServerConfig {
  std::string address = "127.0.0.1";
  uint16_t port = 8080;                 // 0: a free one
  std::vector<ModelEntry> models;       // a request that names none goes to the first that can answer
  std::string api_key;                  // empty: none is asked for
  std::vector<std::string> origins;     // pages of others that may call this server (CORS)
  std::vector<std::string> hosts;       // names by which it is called, beside its address and localhost; "*": any
  bool explorer = true;                 // serve the page
  bool log = true;                      // a line for each request
  int64_t memory = 0;                   // bytes of all loaded models; 0: half of the machine's
  int64_t most_pixels = 50'000'000;     // of one image
  int64_t image_bytes = 1'000'000'000;  // of all images that are worked on, decoded and as models' inputs
  int most_active = 128;                // requests that are worked on or wait
  double request_seconds = 60;          // until a request is given up
  double drain_seconds = 30;            // at the end, for what has begun
  int threads = 0;                      // of the engine; 0: all cores
  EngineOptions batching;
  Limits limits;
};

/// Reads YAML. Paths are relative to the file. Throws Error, with the file and the line, for a key that there is not, a
/// value that does not fit, and a model id given twice.
ServerConfig ReadServerConfig(const std::filesystem::path& file);
/// The same of the file's text.
ServerConfig ParseServerConfig(const std::string& text, const std::filesystem::path& file);

/// The first line of a file that holds a key. Throws Error if it is empty.
std::string ReadKeyFile(const std::filesystem::path& file);

/// Throws Error if two models have one id, or an id is not a name.
void RequireModels(const std::vector<ModelEntry>& models);

}  // namespace qkv::server
