#include "qkv/server/router.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>

#include "qkv/io/json.h"
#include "qkv/server/openapi_file.h"
#include "qkv/server/routes.h"
#include "tests/support/errors.h"

namespace qkv::server {
namespace {

HttpRequest Request(const std::string& method, const std::string& path) { return {.method = method, .path = path}; }

TEST(Router, FindsByMethodAndPath) {
  Router router;
  router.Add({"GET", "/a/{name}", {}});
  router.Add({"POST", "/a/{name}/run", {}});
  router.Add({"POST", "/a/{name}", {}});
  EXPECT_EQ(router.Find(Request("GET", "/a/x")).parameters.at("name"), "x");
  EXPECT_EQ(router.Find(Request("HEAD", "/a/x")).route->method, "GET");
  EXPECT_EQ(router.Find(Request("POST", "/a/x")).route->method, "POST");
  EXPECT_EQ(router.Find(Request("POST", "/a/x/run")).route->pattern, "/a/{name}/run");
  EXPECT_EQ(router.Methods(Request("PUT", "/a/x")), "GET, HEAD, POST");
  const auto status = [&](const std::string& method, const std::string& path) {
    try {
      router.Find(Request(method, path));
    } catch (const HttpError& error) {
      return error.status();
    }
    return 200;
  };
  EXPECT_EQ(status("DELETE", "/a/x"), 405);
  for (const std::string path : {"", "/", "/a", "/a/", "/a/x/", "/a/x/run/", "/a/x/other", "//a/x", "/b/x", "a/x"}) {
    EXPECT_EQ(status("GET", path), 404) << path;
  }
}

TEST(ImageMemory, IsBoundedForOneRequestAndForAll) {
  std::atomic<int64_t> all{0};
  ImageMemory first(all, 100);
  const auto status = [](ImageMemory& memory, int64_t bytes) {
    try {
      memory.Reserve(bytes);
    } catch (const HttpError& error) {
      return error.status();
    }
    return 200;
  };
  EXPECT_EQ(status(first, 60), 200);
  EXPECT_EQ(status(first, 41), 413);
  {
    ImageMemory second(all, 100);
    EXPECT_EQ(status(second, 41), 429);
    EXPECT_EQ(status(second, 40), 200);
    EXPECT_EQ(all, 100);
  }
  EXPECT_EQ(all, 60);
  first.Release(50);
  EXPECT_EQ(status(first, 90), 200);
}

// Each route is described, and each description has a route.
TEST(Routes, AreThoseOfTheOpenApiDocument) {
  ServerConfig config;
  config.models = {{.id = "digits"}};
  Context context(config, [](const std::string&, std::string_view, const std::string&) {});
  Router router;
  AddRoutes(router, context);
  std::set<std::string> routes, described, open;
  for (const Route& route : router.routes()) {
    const std::string name = route.method + " " + route.pattern;
    EXPECT_TRUE(routes.insert(name).second) << name << " is there twice";
    if (route.open) open.insert(name);
  }
  const io::Json document = io::Json::parse(OpenApiJson());
  for (const auto& [path, operations] : document["paths"].items()) {
    for (const auto& [method, operation] : operations.items()) {
      std::string name = method + " " + path;
      std::transform(name.begin(), name.begin() + static_cast<std::ptrdiff_t>(method.size()), name.begin(),
                     [](unsigned char c) { return std::toupper(c); });
      described.insert(name);
      EXPECT_EQ(operation.contains("security"), open.contains(name)) << name << ": with or without a key";
      EXPECT_TRUE(operation["responses"].contains("200")) << name;
      EXPECT_FALSE(operation.value("summary", "").empty()) << name;
    }
  }
  EXPECT_EQ(routes, described);
}

}  // namespace
}  // namespace qkv::server
