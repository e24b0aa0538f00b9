// qkv serve: the engine behind HTTP.
#include <fmt/format.h>

#include <cstdlib>
#include <functional>
#include <memory>

#include "cli/command.h"
#include "cli/output.h"
#include "cli/served_models.h"
#include "qkv/app/models/any_model.h"
#include "qkv/app/open/shipped.h"
#include "qkv/server/server.h"

namespace qkv::cli {
namespace {

struct ServeOptions {
  std::vector<std::string> models;
  std::string config, address, dtype, key_file;
  int port = -1, threads = 0;
  bool quiet = false, strict = false;
};

// The models that come with the program.
std::vector<server::ModelEntry> ShippedModels() {
  std::vector<server::ModelEntry> models = {{.id = "digits"}};
  for (const std::string_view name : {app::kTranslator, app::kSummarizer}) {
    try {
      app::FindShippedModel(name);
      models.push_back({.id = std::string(name), .path = std::string(name)});
    } catch (const Error&) {  // not installed
    }
  }
  return models;
}

server::ServerConfig ConfigOf(const ServeOptions& options) {
  Require(
      options.dtype.empty() || !options.models.empty(),
      "--dtype is the precision of the models of -m, and there is none; in a file (--config) each model has its own");
  server::ServerConfig config;
  if (!options.config.empty()) config = server::ReadServerConfig(options.config);
  for (const std::string& model : options.models) config.models.push_back(ParseServedModel(model, options.dtype));
  if (config.models.empty()) config.models = ShippedModels();
  if (options.config.empty() && !options.models.empty()) config.models.front().at_start = true;
  server::RequireModels(config.models);
  for (const server::ModelEntry& entry : config.models) {
    if (options.strict) io::RequireKnown(app::AnyModel(entry).Settings());
  }
  if (!options.address.empty()) config.address = options.address;
  if (options.port >= 0) config.port = static_cast<uint16_t>(options.port);
  if (options.threads > 0) config.threads = options.threads;
  if (!options.key_file.empty()) config.api_keys = server::ReadKeyFile(options.key_file);
  if (options.quiet) config.log = false;
  return config;
}

int Serve(const ServeOptions& options) {
  const auto log = [](const io::Json& line) {
    PrintMessage("{}\n", line.dump(-1, ' ', true, io::Json::error_handler_t::replace));
  };
  // Without a configuration file SIGHUP has nothing to reload, and means that the terminal has gone.
  std::function<server::ServerConfig()> reload;
  if (!options.config.empty() || !options.key_file.empty()) reload = [options] { return ConfigOf(options); };
  server::Server server(ConfigOf(options), log, reload);
  Print("{}\n", server.Url());
  FlushOutput();
  server.Run([] { std::_Exit(130); });
  return 0;
}

}  // namespace

void RegisterServe(Command app, int* exit_code) {
  const auto options = std::make_shared<ServeOptions>();
  const Command command = app.AddCommand("serve", "Answer over HTTP: embeddings, classes, attention, texts");
  AddServedModels(
      command, &options->models,
      "A model to offer, by its folder, hub id or the name of one that comes with qkv (digits, english-italian, …); "
      "ID=PATH gives it a name. Several may be given; without any those that come with qkv");
  command.AddOption("--config", &options->config, "Models, limits and keys from a YAML file (docs/server.md)")
      .TypeName("FILE");
  command.AddFlag("--strict", &options->strict, "Fail if a file of a model has a setting that qkv does not know");
  command.AddOption("--address", &options->address, "Address to listen on (default: 127.0.0.1, this machine alone)")
      .TypeName("IP");
  command.AddOption("--port", &options->port, "Port to listen on; 0 takes a free one (default: 8080)")
      .Range(0, 65535)
      .TypeName("N");
  command.AddOption("--dtype", &options->dtype, "Precision of the models of -m").TypeName("fp32|bf16|int8|auto");
  command.AddOption("--threads", &options->threads, "Threads of the engine (default: all cores)")
      .Range(1, 1024)
      .TypeName("N");
  command
      .AddOption("--api-key-file", &options->key_file,
                 "Ask for one of the keys in this file, one a line: Authorization: Bearer KEY")
      .TypeName("FILE");
  command.AddFlag("-q,--quiet", &options->quiet, "No log line for each request");
  AddMaxMemory(command);
  command.Footer(
      "The first line on stdout is the address; logs are JSON lines on stderr. SIGTERM answers what has begun and "
      "ends, "
      "SIGHUP reads the list of models in --config and the keys again.\n\n"
      "Examples:\n"
      "  qkv serve                                            digits, translation and summaries, at 127.0.0.1:8080\n"
      "  qkv serve -m clip=openai/clip-vit-base-patch32 --dtype int8\n"
      "  qkv serve --config /etc/qkv/server.yaml --address 0.0.0.0\n"
      "  curl -F image=@photo.jpg http://127.0.0.1:8080/v1/classify");
  command.Callback([options, exit_code] { *exit_code = Serve(*options); });
}

}  // namespace qkv::cli
