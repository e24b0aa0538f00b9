// qkv explore: the explorer's page, on a server for this machine alone.
#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <thread>

#include "cli/command.h"
#include "cli/output.h"
#include "cli/served_models.h"
#include "qkv/server/server.h"

namespace qkv::cli {
namespace {

struct ExploreOptions {
  std::string photo;  // not read: photos are dropped onto the page
  std::vector<std::string> models;
  int port = -1, threads = 0;
  bool no_browser = false;
};

// Opens the desktop's browser, if there is one. Failing is harmless: the address is printed.
void OpenBrowser(const std::string& url) {
  if (std::getenv("DISPLAY") == nullptr && std::getenv("WAYLAND_DISPLAY") == nullptr) return;
  std::thread([command = "xdg-open " + url + " > /dev/null 2>&1"] {
    std::ignore = std::system(command.c_str());
  }).detach();
}

std::unique_ptr<server::Server> Listen(server::ServerConfig config, bool any_port) {
  try {
    return std::make_unique<server::Server>(config, server::Log());
  } catch (const Error&) {
    if (!any_port) throw;
    config.port = 0;
    return std::make_unique<server::Server>(config, server::Log());
  }
}

// Refuses a model that the page has no view for; the page would show other models instead.
void RequireShown(const server::ModelEntry& entry) {
  Require(app::DescribeModel(entry).kind_name() != "text",
          "-m {}: the explorer shows image models, and of text models only encoder-decoders, as "
          "translators; for this one use: qkv attend -m {} -o a.html \"A text.\"",
          entry.path, entry.path);
}

int Explore(const ExploreOptions& options) {
  server::ServerConfig config;
  for (const std::string& model : options.models) {
    config.models.push_back(ParseServedModel(model, ""));
    RequireShown(config.models.back());
  }
  if (config.models.empty()) config.models = {{.id = "digits"}};
  server::RequireModels(config.models);
  if (options.port >= 0) config.port = static_cast<uint16_t>(options.port);
  config.threads = options.threads;
  config.log = false;
  const std::unique_ptr<server::Server> server = Listen(config, options.port < 0);
  Print("{}\n", server->Url());
  FlushOutput();
  if (!options.photo.empty()) PrintNote(FormatShown("drop {} onto the page to explore it", options.photo));
  PrintMessage("the explorer is at this address, for this machine alone; Ctrl+C ends it\n");
  if (!options.no_browser) OpenBrowser(server->Url());
  server->Run([] { std::_Exit(130); });
  return 0;
}

}  // namespace

void RegisterExplore(Command app, int* exit_code) {
  const auto options = std::make_shared<ExploreOptions>();
  const Command command = app.AddCommand("explore", "See and change attention in the browser");
  AddServedModels(command, &options->models,
                  "An image model to explore, or a translator, by its folder or hub id; ID=PATH gives it a name. "
                  "Several may be given; those that come with qkv are always there");
  command.AddOption("--port", &options->port, "Port to listen on; 0 takes a free one (default: 8080, or a free one)")
      .Range(0, 65535)
      .TypeName("N");
  command.AddOption("--threads", &options->threads, "Threads of the engine (default: all cores)")
      .Range(1, 1024)
      .TypeName("N");
  command.AddFlag("--no-browser", &options->no_browser, "Print the address and open nothing");
  AddMaxMemory(command);
  command.AddOption("PHOTO", &options->photo, "A photo to drop onto the page; the program itself does not read it");
  command.Footer(
      "Draw a digit or drop a photo, point at a patch and see where it looks in every block and head; turn queries "
      "and\n"
      "keys, cut ranks, knock out heads, go from smoothing to attention. Needs no internet.\n"
      "It shows image models and, in its last step, cross-attention of an encoder-decoder of texts; other\n"
      "text models: qkv attend.\n\n"
      "Examples:\n"
      "  qkv explore                           the digits, and the translator\n"
      "  qkv explore -m google/vit-base-patch16-224");
  command.Callback([options, exit_code] { *exit_code = Explore(*options); });
}

}  // namespace qkv::cli
