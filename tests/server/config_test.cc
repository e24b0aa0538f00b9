#include "qkv/server/config.h"

#include <gtest/gtest.h>

#include "qkv/core/file.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"

namespace qkv::server {
namespace {

class ServerConfigFile : public testing::Test {
 protected:
  ServerConfig Read(const std::string& yaml) const {
    WriteFile(folder_ / "server.yaml", yaml);
    return ReadServerConfig(folder_ / "server.yaml");
  }
  std::string Error(const std::string& yaml) const {
    return ErrorMessage([&] { Read(yaml); });
  }
  const TemporaryFolder folder_;
};

TEST_F(ServerConfigFile, HasEveryKey) {
  WriteFile(folder_ / "key", "# of the search\r\n secret \r\n\nmore\t");
  WriteFile(folder_ / "names.txt", "one\ntwo\n");
  std::filesystem::create_directories(folder_ / "somewhere/model");
  const ServerConfig c = Read(R"(
address: 0.0.0.0
port: 9000
api_key_file: key
origins: [https://a.example, https://b.example]
hosts: qkv.example
trusted_proxies: [10.0.0.0/8, "::1"]
explorer: false
log: false
memory: 8GB
threads: 3
limits:
  body: 10MB
  bodies: 100 MB
  connections: 7
  pixels: 1000000
  active: 9
  batch: 16
  delay_ms: 1.5
  request_seconds: 5
  notice_seconds: 4
  drain_seconds: 6
  header_seconds: 7
  idle_seconds: 8
  transfer_seconds: 9
models:
  - id: a
    path: somewhere/model
    title: A model
    dtype: int8
    size: 224x160
    pool: mean
    labels: names.txt
    revision: "3"
    at_start: true
  - path: )" + (SourceFolder() / "models/english-italian").string());
  EXPECT_EQ(c.address, "0.0.0.0");
  EXPECT_EQ(c.port, 9000);
  EXPECT_EQ(c.api_keys, (std::vector<std::string>{"secret", "more"}));
  EXPECT_EQ(c.origins.size(), 2u);
  EXPECT_EQ(c.hosts, std::vector<std::string>{"qkv.example"});
  EXPECT_EQ(c.trusted_proxies, (std::vector<std::string>{"10.0.0.0/8", "::1"}));
  EXPECT_EQ(c.notice_seconds, 4);
  EXPECT_FALSE(c.explorer);
  EXPECT_FALSE(c.log);
  EXPECT_EQ(c.memory, 8'000'000'000);
  EXPECT_EQ(c.threads, 3);
  EXPECT_EQ(c.limits.body, 10'000'000);
  EXPECT_EQ(c.limits.bodies, 100'000'000);
  EXPECT_EQ(c.limits.connections, 7);
  EXPECT_EQ(c.most_pixels, 1'000'000);
  EXPECT_EQ(c.most_active, 9);
  EXPECT_EQ(c.batching.most_together, 16);
  EXPECT_EQ(c.batching.most_delay.count(), 1500);
  EXPECT_EQ(c.request_seconds, 5);
  EXPECT_EQ(c.drain_seconds, 6);
  EXPECT_EQ(c.limits.header_seconds, 7);
  EXPECT_EQ(c.limits.idle_seconds, 8);
  EXPECT_EQ(c.limits.transfer_seconds, 9);
  ASSERT_EQ(c.models.size(), 2u);
  EXPECT_EQ(c.models[0].id, "a");
  EXPECT_EQ(c.models[0].path, (folder_ / "somewhere/model").string());
  EXPECT_EQ(c.models[0].title, "A model");
  EXPECT_EQ(c.models[0].build.precision, simd::Precision::kInt8);
  EXPECT_EQ(c.models[0].size, (app::InputSize{224, 160}));
  EXPECT_EQ(c.models[0].pool, "mean");
  EXPECT_EQ(c.models[0].labels, (folder_ / "names.txt").string());
  EXPECT_EQ(c.models[0].revision, "3");
  EXPECT_TRUE(c.models[0].at_start);
  EXPECT_EQ(c.models[1].id, "english-italian");
  EXPECT_EQ(c.models[1].path, (SourceFolder() / "models/english-italian").string());
}

TEST_F(ServerConfigFile, PathsAreBesideIt) {
  std::filesystem::create_directories(folder_ / "model");
  EXPECT_EQ(Read("models: [{path: model}]").models[0].path, (folder_ / "model").string());
  EXPECT_EQ(Read("models: [{id: digits}]").models[0].path, "");
  EXPECT_EQ(Read("models: [{path: digits}]").models[0].path, "");
  EXPECT_EQ(Read("models: [{path: digits}]").models[0].id, "digits");
  EXPECT_EQ(Read("hosts: [A.Example.org]").hosts[0], "a.example.org");
  EXPECT_EQ(Read("origins: [\"HTTPS://A.org\"]").origins[0], "https://a.org");
}

// docs/server.md and docs/nginx.conf give the defaults in these words.
TEST_F(ServerConfigFile, HasTheDefaultsOfItsDescription) {
  const ServerConfig c = Read("limits: {body: 64MB, bodies: 512MB, images: 1GB}"), unless_given{};
  EXPECT_EQ(c.limits.body, unless_given.limits.body);
  EXPECT_EQ(c.limits.bodies, unless_given.limits.bodies);
  EXPECT_EQ(c.image_bytes, unless_given.image_bytes);
}

TEST_F(ServerConfigFile, ErrorsNameTheLineAndTheKey) {
  const auto says = [&](const std::string& yaml, const std::string& words) {
    EXPECT_NE(Error(yaml).find(words), std::string::npos) << yaml << "\n" << Error(yaml);
  };
  says("port: 1\nprot: 2\n", "line 2: prot: no such key");
  says("port: 70000", "port: expected a number from 0 to 65535");
  says("port: 1\nport: 2", "port stands twice");
  says("hosts: [\"a.org:80\"]", "hosts: expected a name without port");
  says("origins: [\"https://a.org/\"]", "origins: expected an origin without path");
  says("memory: lots", "expected bytes such as 64MB");
  says("explorer: perhaps", "expected true or false");
  says("port: 1\nlimits: 7", "line 2: limits: expected keys with values");
  says("port: 1\nlimits:\n", "line 2: limits: expected keys with values");
  says("port: 1\nlimits: {body: 2MB, bodies: 1MB}", "line 2: limits: body is above bodies");
  says("", "the file is empty");
  says("# nothing\n", "the file is empty");
  says("limits: {batch: 0}", "limits.batch: expected a number from 1");
  says("limits: {delay_ms: -1}", "limits.delay_ms");
  says("models: {a: b}", "models: expected a list");
  says("models:\n  - id: a\n  - id: a\n", "line 3: models: two models are called \"a\"");
  says("models:\n  - id: a\n  -\n", "models: expected keys with values");
  says("models:\n  - id: a\n    pool: sum\n", "line 3: models.pool: ");
  says("models:\n  - id: a\n    path: nosuch\n", "line 3: models.path: no such file or folder");
  says("models:\n  - id: a\n    path: org/nosuch\n", "line 3: models.path: ");
  says("models:\n  - id: a\n    labels: nosuch\n", "line 3: models.labels: no such file");
  says("models: [{id: \"a/b\"}]", "an id of a model has only letters");
  says("models: [{id: a, dtype: fp8}]", "dtype");
  says("models: [{id: a, size: big}]", "size");
  says("port: [", "line 1");
  says("api_key_file: missing", "missing");
  WriteFile(folder_ / "none", "\n # nothing\n");
  says("api_key_file: none", "expected a key in a line");
  WriteFile(folder_ / "two", "one\ntwo words\n");
  says("api_key_file: two", "line 2: expected a key of printable ASCII");
  says("port: 1\ntrusted_proxies: [10.0.0.0/33]", "line 2: trusted_proxies: expected an address or a network");
  says("- a", "expected keys with values");
  says("? [a]\n: b", "no such key");
  EXPECT_NE(ErrorMessage([] { ReadServerConfig("/no/such/file.yaml"); }), "");
}

TEST(ServerConfig, NamesAModelByItsPath) {
  EXPECT_EQ(app::IdOfPath(""), "digits");
  EXPECT_EQ(app::IdOfPath("models/vit-base/"), "vit-base");
  EXPECT_EQ(app::IdOfPath("openai/clip-vit-large-patch14-336"), "clip-vit-large-patch14-336");
  EXPECT_EQ(app::IdOfPath("a/model.safetensors"), "model");
  EXPECT_EQ(app::IdOfPath("a/Qwen2.5"), "Qwen2.5");
  EXPECT_EQ(app::IdOfPath("a/two words"), "two-words");
}

}  // namespace
}  // namespace qkv::server
