// Nothing of the machine in an answer: no route names a folder or a file of the server, however it fails.
#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "qkv/server/context.h"
#include "qkv/server/routes.h"
#include "tests/server/running_server.h"
#include "tests/support/goldens.h"

namespace qkv::server {
namespace {

namespace fs = std::filesystem;

class Privacy : public testing::Test {
 protected:
  // A copy in the folder whose name is looked for.
  ModelEntry Copy(const std::string& id, const fs::path& from) {
    fs::copy(from, folder_ / id, fs::copy_options::recursive);
    return {.id = id, .path = (folder_ / id).string()};
  }
  void Damage(const std::string& file, std::string_view bytes) {
    ASSERT_TRUE(fs::exists(folder_ / file)) << file;
    std::ofstream(folder_ / file, std::ios::binary) << bytes;
  }

  // Every route with every model, with bodies that fit some of them, and some that fit none.
  std::vector<std::string> Requests(const ServerConfig& config) const {
    Context context(config, [](const std::string&, std::string_view, const std::string&) {});
    Router router;
    AddRoutes(router, context);
    std::vector<std::string> requests;
    for (const Route& route : router.routes()) {
      for (const ModelEntry& model : config.models) {
        std::vector<std::string> paths = {Replace(route.pattern, "{model}", model.id)};
        if (route.pattern.find("{call}") != std::string::npos) paths = route.counted_paths;
        for (std::string& path : paths) {
          path = Replace(path, "{version}", "1");
          if (route.method == "GET") {
            requests.push_back(Get(path));
            continue;
          }
          for (const std::string& body : Bodies(model.id)) {
            requests.push_back(
                fmt::format("POST {} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                            "Content-Length: {}\r\n\r\n{}",
                            path, body.size(), body));
          }
        }
        requests.push_back(Form(route.pattern, model.id));
      }
    }
    return requests;
  }

  // What the answers say of it, with the paths of the machine in them.
  static std::string Leaks(const Answer& answer, const std::vector<std::string>& secrets) {
    std::string text = answer.body;
    for (const auto& [name, value] : answer.headers) text += "\n" + name + ": " + value;
    for (const std::string& secret : secrets) {
      if (text.find(secret) != std::string::npos) return secret + " in " + text;
    }
    return "";
  }

  const TemporaryFolder folder_;

 private:
  static std::string Replace(std::string text, std::string_view from, const std::string& to) {
    const size_t at = text.find(from);
    return at == std::string::npos ? text : text.replace(at, from.size(), to);
  }
  static std::vector<std::string> Bodies(const std::string& model) {
    const io::Json m = {{"model", model}};
    std::vector<std::string> bodies = {"", "{", "[]", m.dump()};
    const auto add = [&](io::Json fields) {
      fields.update(m);
      bodies.push_back(fields.dump());
    };
    add({{"text", "a house"}, {"max_tokens", 2}});
    add({{"text", "a house"}, {"part", "cross"}});
    add({{"text", "a house"}, {"part", "encoder"}});
    add({{"text", "a house"}, {"part", "decoder"}, {"target", "b"}});
    add({{"prompt", "a house"}, {"max_tokens", 2}, {"stream", true}});
    add({{"input", "a house"}, {"dimensions", 2}});
    add({{"sample", "digit-3"}, {"block", 0}, {"head", 0}});
    add({{"image", "x"}});
    bodies.push_back(R"({"inputs": [{"name": "text", "datatype": "BYTES", "shape": [1], "data": ["a"]}]})");
    return bodies;
  }
  static std::string Form(const std::string& path, const std::string& model) {
    std::string request = Classify();
    request.replace(request.find("/v1/classify"), 12, Replace(path, "{model}", model) + "?model=" + model);
    return request;
  }
};

TEST_F(Privacy, NoAnswerNamesFoldersOrFiles) {
  const fs::path golden = GoldenFolder("");
  ServerConfig config;
  config.request_seconds = 30;
  config.models = {Copy("vit", golden / "hf_vit"),          Copy("gpt2", golden / "tasks/gpt2"),
                   Copy("bert", golden / "tasks/bert"),     Copy("t5", golden / "tasks/t5"),
                   Copy("clip", golden / "towers/clip"),    Copy("broken", golden / "hf_vit"),
                   Copy("vanished", golden / "hf_vit"),     Copy("config", golden / "hf_vit"),
                   Copy("tokenizer", golden / "tasks/bert")};
  Damage("broken/model.safetensors", "no tensors");
  Damage("config/config.json", "{");
  fs::remove_all(folder_ / "vanished");
  Damage("tokenizer/tokenizer.json", "{}");
  RunningServer running(config);
  const std::vector<std::string> secrets = {folder_.path().string(),
                                            folder_.path().filename().string(),
                                            fs::temp_directory_path().string() + "/",
                                            SourceFolder().string(),
                                            ".safetensors",
                                            "config.json"};
  int failures = 0;
  const auto ask = [&](const std::string& request) {
    const Answer answer = running.Call(request);
    const std::string_view line = std::string_view(request).substr(0, request.find('\r'));
    failures += answer.status >= 400;
    if (line.find("/openapi.json") != line.npos || line.starts_with("GET / ")) return;  // the same everywhere
    EXPECT_EQ(Leaks(answer, secrets), "") << request.substr(0, 400);
  };
  const std::vector<std::string> requests = Requests(config);
  for (const std::string& request : requests) ask(request);
  EXPECT_GT(failures, 300);
  // Files of loaded models that change: those that were loaded go on, and say why they are not loaded again.
  Damage("vit/model.safetensors", "no tensors");
  Damage("gpt2/config.json", "{");
  std::this_thread::sleep_for(std::chrono::milliseconds(2100));
  for (const std::string& request : requests) {
    if (request.find("vit") != request.npos || request.find("gpt2") != request.npos) ask(request);
  }
  running.End();
  const auto logged = [&](std::string_view words) {
    return std::any_of(running.log().begin(), running.log().end(), [&](const io::Json& line) {
      return line["event"] == "model" && line["detail"].get<std::string>().find(words) != std::string::npos;
    });
  };
  for (const char* id : {"broken", "config", "vanished", "tokenizer", "vit"}) {
    EXPECT_TRUE(logged((folder_ / id).string())) << "the log says why: " << id;
  }
}

TEST_F(Privacy, TheOwnerIsToldWhyTheStartFails) {
  ServerConfig config;
  config.models = {Copy("broken", GoldenFolder("hf_vit"))};
  config.models[0].at_start = true;
  Damage("broken/model.safetensors", "no tensors");
  RunningServer running(config);
  EXPECT_NE(running.Failure().find((folder_ / "broken").string()), std::string::npos);
}

}  // namespace
}  // namespace qkv::server
