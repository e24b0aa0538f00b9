// What a server offers, from a file or from options of the command line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "qkv/app/models/loaded_model.h"
#include "qkv/server/engine.h"
#include "qkv/server/host.h"
#include "qkv/server/http_message.h"

namespace qkv::server {

using app::ModelEntry;

struct ServerConfig {
  std::string address = "127.0.0.1";
  uint16_t port = 8080;                      // 0: a free one
  std::vector<ModelEntry> models;            // a request that names none goes to the first that can answer
  std::vector<std::string> api_keys;         // each request must carry one of them; empty: none needed
  std::vector<std::string> origins;          // origins of foreign pages that may call this server (CORS)
  std::vector<std::string> hosts;            // the server's names, beside its address and localhost; "*": any
  std::vector<std::string> trusted_proxies;  // addresses and networks whose X-Forwarded-For is trusted
  bool explorer = true;                      // serve the page
  bool log = true;                           // write a line for each request
  int64_t memory = 0;                        // bytes of all loaded models; 0: half of the machine's
  int64_t most_pixels = 50'000'000;          // of one image
  int64_t image_bytes = 1'000'000'000;       // of all images in progress, decoded and as models' inputs
  int most_active = 128;                     // requests in progress or waiting
  double request_seconds = 60;               // time limit of a request
  double notice_seconds = 0;                 // after SIGTERM: serves on, but reports that it is not ready
  double drain_seconds = 30;                 // then, for requests in progress
  int threads = 0;                           // of the engine; 0: all cores
  EngineOptions batching;
  Limits limits;
};

/// Reads YAML. Paths are relative to the file. Throws Error, with the file and the line, for an unknown key, a value
/// that does not fit, and a model id given twice.
ServerConfig ReadServerConfig(const std::filesystem::path& file);
/// The same for the file's text.
ServerConfig ParseServerConfig(const std::string& text, const std::filesystem::path& file);

/// The keys in a file, one a line, without blanks at their ends; lines that begin with # are comments. Throws Error if
/// there is none, or one that no header can have.
std::vector<std::string> ReadKeyFile(const std::filesystem::path& file);

/// Throws Error if two models have one id, or an id is not a name.
void RequireModels(const std::vector<ModelEntry>& models);

}  // namespace qkv::server
