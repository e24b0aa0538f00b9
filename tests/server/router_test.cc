#include "qkv/server/router.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>

#include "qkv/io/json.h"
#include "qkv/server/openapi.h"
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

ServerConfig DigitsAlone() {
  ServerConfig config;
  config.models = {{.id = "digits"}};
  return config;
}

// Each route is described, and each description has a route.
TEST(Routes, AreThoseOfTheOpenApiDocument) {
  Context context(DigitsAlone(), [](const std::string&, std::string_view, const std::string&) {});
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

TEST(Routes, HaveTheirFieldsInTheOpenApiDocument) {
  Context context(DigitsAlone(), [](const std::string&, std::string_view, const std::string&) {});
  Router router;
  AddRoutes(router, context);
  const io::Json document = io::Json::parse(DescribeRoutes(router));
  int with_fields = 0;
  for (const Route& route : router.routes()) {
    if (route.fields.empty()) continue;
    ++with_fields;
    const io::Json& operation = document["paths"][route.pattern]["post"];
    const io::Json& properties = operation["requestBody"]["content"]["application/json"]["schema"]["properties"];
    for (const std::string_view name : NamesOf(route.fields))
      EXPECT_TRUE(properties.contains(name)) << route.pattern << name;
    EXPECT_TRUE(properties.contains("model")) << route.pattern;
  }
  EXPECT_EQ(with_fields, 9);
  const io::Json& classify = document["paths"]["/v1/classify"]["post"];
  const io::Json& content = classify["requestBody"]["content"];
  const io::Json& json = content["application/json"]["schema"]["properties"];
  EXPECT_EQ(json["top"]["type"], io::Json::parse(R"(["integer", "null"])"));
  EXPECT_EQ(json["top"]["maximum"], 1 << 20);
  EXPECT_TRUE(json.contains("images"));
  const io::Json& form = content["multipart/form-data"]["schema"];
  EXPECT_EQ(form["properties"]["prompts"]["type"], "string");
  EXPECT_EQ(form["required"], io::Json::parse(R"(["image"])"));
  ASSERT_EQ(classify["parameters"].size(), 2u);  // beside an image as the body
  EXPECT_EQ(classify["parameters"][1]["name"], "top");
  const io::Json& segment = document["paths"]["/v1/segment"]["post"]["requestBody"]["content"];
  EXPECT_EQ(segment["application/json"]["schema"]["properties"]["task"]["enum"],
            io::Json::parse(R"(["semantic", "instance", "panoptic", null])"));
}

}  // namespace
}  // namespace qkv::server
