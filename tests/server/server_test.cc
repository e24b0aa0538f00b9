// The whole server over real sockets: who may call, how much it takes, and how it ends.
#include "qkv/server/server.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "qkv/core/file.h"
#include "qkv/image/encode.h"
#include "qkv/io/json.h"
#include "qkv/report/base64.h"
#include "tests/server/running_server.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/goldens.h"

namespace qkv::server {
namespace {

TEST(Server, AnswersAndLogs) {
  RunningServer running;
  const Answer answer = running.Call(Classify(2));
  ASSERT_EQ(answer.status, 200) << answer.body;
  const io::Json json = io::Json::parse(answer.body);
  EXPECT_EQ(json["data"][1]["top"][0]["label"], "7");
  EXPECT_EQ(running.Call(Get("/health")).status, 200);
  EXPECT_EQ(running.Call(Get("/nothing")).status, 404);
  const Answer wrong = running.Call(Get("/v1/classify"));
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.headers.at("allow"), "POST");
  running.End();
  const auto logged = std::count_if(running.log().begin(), running.log().end(), [](const io::Json& line) {
    return line["event"] == "request" && line["path"] == "/v1/classify" && line["status"] == 200;
  });
  EXPECT_EQ(logged, 1);
}

TEST(Server, WantsItsKey) {
  ServerConfig config;
  config.api_keys = {"secret"};
  RunningServer running(config);
  const Answer without = running.Call(Get("/v1/models"));
  EXPECT_EQ(without.status, 401);
  EXPECT_NE(without.body.find("expected the header"), std::string::npos) << without.body;
  const Answer wrong = running.Call(Get("/v1/models", "Authorization: Bearer secre\r\n"));
  EXPECT_EQ(wrong.status, 401);
  EXPECT_NE(wrong.body.find("is wrong"), std::string::npos) << wrong.body;
  EXPECT_EQ(running.Call(Get("/v1/models", "Authorization: Bearer secret\r\n")).status, 200);
  EXPECT_EQ(running.Call(Get("/health")).status, 200);
}

TEST(Server, IsCalledByItsOwnNameAndPages) {
  ServerConfig config;
  config.origins = {"https://good.example"};
  RunningServer running(config);
  const auto by_host = [&](std::string_view host) {
    return running.Call(fmt::format("GET /health HTTP/1.1\r\nHost: {}\r\n\r\n", host));
  };
  EXPECT_EQ(by_host("localhost:8080").status, 200);
  EXPECT_EQ(by_host("[::1]:8080").status, 200);
  const Answer foreign = by_host("evil.example:8080");
  EXPECT_EQ(foreign.status, 403);
  EXPECT_NE(foreign.body.find("can add evil.example to hosts"), std::string::npos) << foreign.body;
  const Answer page = running.Call(Get("/health", "Origin: https://evil.example\r\n"));
  EXPECT_EQ(page.status, 403);
  EXPECT_NE(page.body.find("can add https://evil.example to origins"), std::string::npos) << page.body;
  const Answer good = running.Call(Get("/health", "Origin: https://good.example\r\n"));
  EXPECT_EQ(good.headers.at("access-control-allow-origin"), "https://good.example");
  EXPECT_EQ(running.Call(Get("/health", "Origin: http://127.0.0.1\r\n")).status, 200);
  const Answer preflight = running.Call(
      "OPTIONS /v1/classify HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: https://good.example\r\n"
      "Access-Control-Request-Method: POST\r\n\r\n");
  EXPECT_EQ(preflight.status, 204);
}

TEST(Server, StreamsToPagesOfItsOrigins) {
  ServerConfig config;
  config.origins = {"https://good.example"};
  config.models = {{.id = "gpt2", .path = GoldenFolder("tasks/gpt2").string()}};
  RunningServer running(config);
  const std::string body = R"({"prompt": "Once", "max_tokens": 3, "stream": true})";
  const Answer answer = running.Call(
      fmt::format("POST /v1/generate HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: https://good.example\r\nContent-Type: "
                  "application/json\r\nContent-Length: {}\r\n\r\n{}",
                  body.size(), body));
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.headers.at("content-type"), "text/event-stream");
  EXPECT_EQ(answer.headers.at("access-control-allow-origin"), "https://good.example");
  EXPECT_TRUE(answer.body.ends_with("data: [DONE]\n\n")) << answer.body;
}

TEST(Server, TurnsAwayWhatIsTooMuch) {
  ServerConfig config;
  config.most_active = 1;
  RunningServer running(config);
  running.Call(Classify());  // loads the model
  std::vector<std::future<Answer>> answers;
  for (int i = 0; i < 16; ++i) {
    answers.push_back(std::async(std::launch::async, [&] { return running.Call(Classify(50)); }));
  }
  int done = 0, refused = 0;
  for (std::future<Answer>& future : answers) {
    const Answer answer = future.get();
    done += answer.status == 200;
    if (answer.status != 429) continue;
    ++refused;
    EXPECT_TRUE(answer.headers.contains("retry-after"));
  }
  EXPECT_EQ(done + refused, 16);
  EXPECT_GE(done, 1);
  EXPECT_GE(refused, 1);
}

// Not even requests on connections that the server has not accepted yet.
TEST(Server, LosesNothingAtItsEnd) {
  constexpr int kPatience = 300;  // seconds; ThreadSanitizer takes half a minute
  for (const int wait : {0, 20}) {
    ServerConfig config;
    config.drain_seconds = kPatience;
    RunningServer running(config);
    running.Call(Classify());
    std::vector<std::unique_ptr<Client>> clients;
    for (int i = 0; i < 8; ++i) {
      clients.push_back(std::make_unique<Client>(running.port(), kPatience));
      clients.back()->Send(Classify(20));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(wait));
    running.server().Stop();
    for (const auto& client : clients) EXPECT_EQ(client->Read().status, 200) << "after " << wait << " ms";
    running.End();
    EXPECT_FALSE(running.gave_up());
  }
}

TEST(Server, GivesUpWhatTakesTooLong) {
  ServerConfig config;
  config.request_seconds = 0.001;
  config.batching.most_delay = std::chrono::seconds(1);
  RunningServer running(config);
  const Answer answer = running.Call(Classify(50));
  EXPECT_TRUE(answer.status == 503 || answer.status == 200) << answer.status;
}

// The time of a stream begins again with each of its pieces.
TEST(Server, LimitsTheSilenceOfAStream) {
  ServerConfig config;
  config.request_seconds = 1;
  config.models = {{.id = "t5", .path = GoldenFolder("tasks/t5").string()}};
  RunningServer running(config);
  // Twice as many texts until they take longer than one limit, whatever the machine.
  for (size_t count = 1500;; count *= 2) {
    const std::vector<std::string> texts(count, "The house is green.");
    const auto start = std::chrono::steady_clock::now();
    const Answer answer = running.Call(
        PostJson("/v1/translate", {{"text", texts}, {"stream", true}, {"max_tokens", 40}, {"min_tokens", 40}}));
    const auto took = std::chrono::steady_clock::now() - start;
    ASSERT_TRUE(answer.body.ends_with("data: [DONE]\n\n")) << answer.body.substr(answer.body.size() - 200);
    if (took > std::chrono::milliseconds(1200)) break;
  }
}

std::string Golden(const std::string& name) { return GoldenFolder(name).string(); }

// Texts that would take minutes.
class LongTexts : public testing::Test {
 protected:
  static ServerConfig Config(double request_seconds) {
    ServerConfig config;
    config.request_seconds = request_seconds;
    config.drain_seconds = 0.2;
    config.models = {{.id = "digits"}, {.id = "t5", .path = Golden("tasks/t5")}};
    return config;
  }
  static std::string Post(const char* path, const io::Json& fields) {
    io::Json json = {{"model", "t5"}, {"beams", 64}, {"max_tokens", 3000}, {"min_tokens", 3000}};
    json.update(fields);
    return PostJson(path, json);
  }
  static std::string Translate() { return Post("/v1/translate", {{"text", Texts(32)}}); }
  static std::vector<std::string> Texts(int count) {
    return std::vector<std::string>(static_cast<size_t>(count), "The house is green.");
  }
};

TEST_F(LongTexts, EndWithTheirTimeAndHoldNobodyUp) {
  const RunningServer running(Config(1.5));
  running.Call(Classify());  // loads the model
  const io::Json tensor = {{"name", "text"}, {"datatype", "BYTES"}, {"shape", {3}}, {"data", Texts(3)}};
  const io::Json infer = {{"inputs", {tensor}},
                          {"parameters", {{"beams", 64}, {"max_tokens", 3000}, {"min_tokens", 3000}}}};
  int answered = 0;
  for (const std::string& request :
       {Translate(), Post("/v1/translate", {{"text", Texts(2)}, {"stream", true}}),
        Post("/v1/attention", {{"text", "The house is green."}}), PostJson("/v2/models/t5/infer", infer)}) {
    Client client(running.port());
    client.Send(request);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    answered += running.Call(Classify()).status == 200;
    const Answer answer = client.Read();
    EXPECT_EQ(answer.status, 503) << request << answer.body;
  }
  EXPECT_GE(answered, 1) << "a busy machine may miss its time";
}

TEST_F(LongTexts, EndWithTheirClientAndWithTheServer) {
  RunningServer running(Config(60));
  {
    Client client(running.port());
    client.Send(Translate());
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  std::string metrics;
  for (int i = 0; i < 200 && metrics.find("\nqkv_active_requests 0\n") == std::string::npos; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    metrics = running.Call(Get("/metrics")).body;
  }
  EXPECT_NE(metrics.find("\nqkv_active_requests 0\n"), std::string::npos);
  Client client(running.port());
  client.Send(Translate());
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const auto start = std::chrono::steady_clock::now();
  running.End();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  // Also what ended soon after it was given up; the one whose client left was not.
  EXPECT_TRUE(running.gave_up());
  const auto end = std::find_if(running.log().begin(), running.log().end(),
                                [](const io::Json& line) { return line["event"] == "end"; });
  ASSERT_NE(end, running.log().end());
  EXPECT_EQ(end->value("given_up", 0), 1) << *end;
}

// Beside the photo: its map, its drawing and the drawing's file, of one photo at a time.
TEST(Server, CountsMapsAndDrawingsOfPhotos) {
  constexpr int64_t kSide = 1000;
  const std::string photo = image::EncodePng({Tensor<uint8_t>({kSide, kSide, 3})});
  const std::string encoded = report::Base64(std::as_bytes(std::span(photo)));
  ServerConfig config;
  config.models = {{.id = "yolos", .path = Golden("detector")}, {.id = "eomt", .path = Golden("segmenter")}};
  const auto status = [&](int64_t bytes_of_pixel, std::string_view path, std::string_view format, size_t photos = 1) {
    config.image_bytes = bytes_of_pixel * kSide * kSide;
    const RunningServer running(config);
    const std::vector<std::string> images(photos, encoded);
    return running.Call(PostJson(path, {{"images", images}, {"format", format}})).status;
  };
  EXPECT_EQ(status(6, "/v1/detect", "json"), 200);
  EXPECT_EQ(status(6, "/v1/segment", "json"), 413);
  EXPECT_EQ(status(10, "/v1/segment", "json"), 200);
  EXPECT_EQ(status(10, "/v1/segment", "json", 3), 200);
  EXPECT_EQ(status(10, "/v1/segment", "png"), 413);
  EXPECT_EQ(status(8, "/v1/detect", "png"), 413);
  EXPECT_EQ(status(24, "/v1/detect", "png"), 200);
  EXPECT_EQ(status(24, "/v1/segment", "png"), 200);
}

TEST(Server, ChoosesAModelThatCanDoIt) {
  ServerConfig config;
  config.models = {{.id = "digits"},
                   {.id = "bert", .path = Golden("tasks/bert")},
                   {.id = "t5", .path = Golden("tasks/t5"), .tasks = {"translate", "summarize"}},
                   {.id = "gpt2", .path = Golden("tasks/gpt2")},
                   {.id = "clip", .path = Golden("towers/clip")},
                   {.id = "yolos", .path = Golden("detector")},
                   {.id = "eomt", .path = Golden("segmenter")}};
  const std::string file = ReadFile(SourceFolder() / "examples/digits/7-black.png");
  const std::string image = report::Base64(std::as_bytes(std::span(file))), uri = "data:image/png;base64," + image;
  const io::Json part = {{"type", "image_url"}, {"image_url", {{"url", uri}}}};
  const auto model = [](const RunningServer& running, std::string_view path, const io::Json& fields) {
    const Answer answer = running.Call(PostJson(path, fields));
    return answer.status == 200 ? io::Json::parse(answer.body)["model"].get<std::string>() : answer.body;
  };
  {
    const RunningServer running(config);
    EXPECT_EQ(model(running, "/v1/translate", {{"text", "Once"}, {"max_tokens", 1}}), "t5");
    EXPECT_EQ(model(running, "/v1/summarize", {{"text", "Once"}, {"max_tokens", 1}}), "t5");
    EXPECT_EQ(model(running, "/v1/generate", {{"prompt", "Once"}, {"max_tokens", 1}}), "gpt2");
    EXPECT_EQ(model(running, "/v1/completions", {{"prompt", "Once"}, {"max_tokens", 1}}), "gpt2");
    EXPECT_EQ(model(running, "/v1/classify", {{"image", image}}), "digits");
    EXPECT_EQ(model(running, "/v1/classify", {{"image", image}, {"prompts", "a cat,a dog"}}), "clip");
    EXPECT_EQ(model(running, "/v1/embeddings", {{"image", image}}), "digits");
    EXPECT_EQ(model(running, "/v1/embeddings", {{"input", "a cat"}}), "bert");
    EXPECT_EQ(model(running, "/v1/embeddings", {{"input", {"a cat", part}}}), "clip");
    EXPECT_EQ(model(running, "/v1/detect", {{"image", image}}), "yolos");
    EXPECT_EQ(model(running, "/v1/segment", {{"image", image}}), "eomt");
    EXPECT_EQ(model(running, "/v1/attention", {{"image", image}}), "digits");
    EXPECT_EQ(model(running, "/v1/attention", {{"text", "Once"}}), "bert");
    // A named one that cannot is called as its owner calls it, and those that can are named.
    const auto says = [&](std::string_view path, const io::Json& fields, std::string_view what) {
      const std::string answer = model(running, path, fields);
      EXPECT_NE(answer.find(what), std::string::npos) << path << " " << answer;
    };
    says("/v1/detect", {{"model", "digits"}, {"image", image}}, "model digits cannot detect objects: expected YOLOS");
    says("/v1/detect", {{"model", "digits"}, {"image", image}}, "models yolos can");
    says("/v1/segment", {{"model", "yolos"}, {"image", image}}, "models eomt can");
    says("/v1/classify", {{"model", "clip"}, {"image", image}}, "models digits can");
    says("/v1/embeddings", {{"model", "digits"}, {"input", "a cat"}}, "models bert, clip can");
    says("/v1/embeddings", {{"model", "bert"}, {"image", image}}, "models digits, clip, yolos, eomt can");
    // An address is a text to text models; where there are none, the error says how images are sent.
    const io::Json address = {{"model", "digits"}, {"input", {"https://example.org/a.jpg"}}};
    says("/v1/embeddings", address, "this server fetches no addresses");
    says("/v1/embeddings", address, "image_url");
    says("/v1/attention", {{"model", "bert"}, {"image", image}}, "show attention in images");
    says("/v1/attention", {{"model", "bert"}}, "the field text");
    says("/v1/generate", {{"model", "t5"}, {"prompt", "Once"}}, "models gpt2 can");
    says("/v1/translate", {{"model", "gpt2"}, {"text", "Once"}}, "models t5 can");
    says("/v1/detect", {{"model", "nothing"}, {"image", image}}, "there is no model nothing");
  }
  config.models.resize(2);
  const RunningServer running(config);
  const auto none = [&](std::string_view path, const io::Json& fields) {
    return model(running, path, fields).find("no model of this server can ") != std::string::npos;
  };
  EXPECT_TRUE(none("/v1/translate", {{"text", "Once"}}));
  EXPECT_TRUE(none("/v1/generate", {{"prompt", "Once"}}));
  EXPECT_TRUE(none("/v1/detect", {{"image", image}}));
  EXPECT_TRUE(none("/v1/embeddings", {{"input", {"a cat", part}}}));
}

TEST(Server, SummarizesByModelsThatSummarize) {
  ServerConfig config;
  config.models = {{.id = "translator", .path = Golden("tasks/marian")},
                   {.id = "told", .path = Golden("tasks/t5"), .tasks = {"summarize"}}};
  const RunningServer running(config);
  const io::Json usual = {{"text", "Once"}, {"max_tokens", 1}};
  const auto ask = [&](std::string_view path, const io::Json& more) {
    io::Json fields = usual;
    fields.update(more);
    return running.Call(PostJson(path, fields));
  };
  const Answer refused = ask("/v1/summarize", {{"model", "translator"}});
  EXPECT_EQ(refused.status, 400);
  EXPECT_NE(refused.body.find("told can"), std::string::npos) << refused.body;
  EXPECT_EQ(ask("/v1/translate", {{"model", "told"}}).status, 400);
  EXPECT_EQ(ask("/v1/summarize", {{"model", "translator"}, {"prefix", "tl;dr "}}).status, 200);
  EXPECT_EQ(ask("/v1/summarize", io::Json::object()).status, 200);
  EXPECT_EQ(ask("/v1/translate", io::Json::object()).status, 200);
}

TEST(Server, NamesNoBrokenModelWhenNoneIsAble) {
  ServerConfig config;
  config.models = {{.id = "digits"}, {.id = "broken", .path = Golden("tasks/nothing-there")}};
  const RunningServer running(config);
  const Answer answer = running.Call(PostJson("/v1/summarize", {{"text", "Once"}}));
  EXPECT_EQ(answer.status, 400) << answer.body;
  EXPECT_NE(answer.body.find("no model of this server can "), std::string::npos) << answer.body;
  EXPECT_NE(answer.body.find("and 1 cannot be read"), std::string::npos) << answer.body;
  EXPECT_EQ(answer.body.find("broken"), std::string::npos) << answer.body;
}

TEST(Server, RefusesTextsBeforeItComputesImages) {
  ServerConfig config;
  config.models = {{.id = "clip", .path = Golden("towers/clip")}};
  const RunningServer running(config);
  std::string text;
  for (int i = 0; i < 600; ++i) text += "a ";
  // Not an image, which would be 400.
  const Answer answer = running.Call(PostJson(
      "/v1/classify", {{"image", "data:image/png;base64,AAAA"}, {"prompts", {text, "b"}}, {"truncate", false}}));
  EXPECT_EQ(answer.status, 413) << answer.body;
}

TEST(Server, SaysWhatItReadOfTexts) {
  ServerConfig config;
  config.models = {{.id = "bert", .path = Golden("tasks/bert")}, {.id = "clip", .path = Golden("towers/clip")}};
  const RunningServer running(config);
  std::string text;
  for (int i = 0; i < 600; ++i) text += "a ";
  for (const std::string model : {"bert", "clip"}) {
    const auto ask = [&](const io::Json& more) {
      io::Json fields = {{"model", model}};
      fields.update(more);
      return running.Call(PostJson("/v1/embeddings", fields));
    };
    const Answer both = ask({{"input", {"a", text}}});
    ASSERT_EQ(both.status, 200) << both.body;
    const io::Json json = io::Json::parse(both.body);
    EXPECT_FALSE(json["data"][0].contains("truncated"));
    EXPECT_EQ(json["data"][1]["truncated"], true);
    EXPECT_LT(json["usage"]["prompt_tokens"], 600);
    const Answer refused = ask({{"input", {"a", text}}, {"truncate", false}});
    EXPECT_EQ(refused.status, 413) << refused.body;
    EXPECT_NE(refused.body.find("text 2 has 60"), std::string::npos) << refused.body;
    EXPECT_EQ(ask({{"input", "a"}, {"truncate", false}}).status, 200);
    EXPECT_EQ(ask({{"input", std::string(1'000'000, 'a')}}).status, 413) << "refused before it is encoded";
    const auto infer = [&](const std::string& last, const io::Json& parameters) {
      const io::Json input = {{"name", "text"}, {"datatype", "BYTES"}, {"shape", {2}}, {"data", {"a", last}}};
      return running.Call(
          PostJson("/v2/models/" + model + "/infer", {{"inputs", {input}}, {"parameters", parameters}}));
    };
    EXPECT_EQ(io::Json::parse(infer(text, io::Json::object()).body)["parameters"]["truncated"], true);
    EXPECT_FALSE(io::Json::parse(infer("b", io::Json::object()).body).contains("parameters"));
    EXPECT_EQ(infer(text, {{"truncate", false}}).status, 413);
    // Dimensions.
    const auto width = static_cast<int64_t>(json["data"][0]["embedding"].size());
    for (const io::Json& wrong : {io::Json(0), io::Json(-1), io::Json(1.5), io::Json(width + 1), io::Json("x")}) {
      const Answer unfit = ask({{"input", "a"}, {"dimensions", wrong}});
      EXPECT_EQ(unfit.status, 400);
      EXPECT_NE(unfit.body.find(fmt::format("a whole number from 1 to {}", width)), std::string::npos) << unfit.body;
    }
    const io::Json whole = io::Json::parse(ask({{"input", "a"}, {"dimensions", width}}).body);
    EXPECT_EQ(whole["data"][0]["embedding"], json["data"][0]["embedding"]);
    const io::Json part = io::Json::parse(ask({{"input", "a"}, {"dimensions", 3}}).body)["data"][0]["embedding"];
    double squares = 0;
    for (const double value : part) squares += value * value;
    EXPECT_EQ(part.size(), 3u);
    EXPECT_NEAR(squares, 1, 1e-5);
  }
}

TEST(Server, RefusesNumbersThatNoAnswerCanHold) {
  ServerConfig config;
  config.models = {{.id = "marian", .path = Golden("tasks/marian")}};
  const RunningServer running(config);
  for (const char* rule : {"gaussian=1e-300", "gaussian=1e-155", "gaussian=5e-324", "gaussian=1e200", "gaussian=nan",
                           "softmax=1e-300", "gaussian=1,1e300"}) {
    const Answer answer = running.Call(PostJson("/v1/translate", {{"text", "Once"}, {"cross_weights", rule}}));
    EXPECT_EQ(answer.status, 400) << rule << answer.body;
  }
  for (const char* field : {"temperature", "top_p", "min_p", "length_penalty", "repetition_penalty"}) {
    for (const double value : {-1e308, -1.0, -5e-324, 0.0, 5e-324, 1e-300, 1e-7, 1e-3, 1.0, 1e3, 1e6, 1e300}) {
      for (const int beams : {1, 3}) {
        const Answer answer = running.Call(
            PostJson("/v1/translate", {{"text", "Once"}, {"max_tokens", 3}, {"beams", beams}, {field, value}}));
        EXPECT_TRUE(answer.status == 200 || answer.status == 400) << field << " " << value << " " << answer.body;
      }
    }
  }
}

TEST(Server, ListsWhatModelsCanDoWithoutLoadingThem) {
  ServerConfig config;
  config.models = {{.id = "digits"},
                   {.id = "bert", .path = Golden("tasks/bert")},
                   {.id = "t5", .path = Golden("tasks/t5")},
                   {.id = "clip", .path = Golden("towers/clip")},
                   {.id = "yolos", .path = Golden("detector")},
                   {.id = "gone", .path = Golden("nothing")}};
  const RunningServer running(config);
  const io::Json data = io::Json::parse(running.Call(Get("/v1/models")).body)["data"];
  const auto is = [&](size_t i, std::string_view kind, const std::vector<std::string>& routes) {
    EXPECT_EQ(data[i]["kind"], kind) << data[i];
    EXPECT_EQ(data[i]["routes"], io::Json(routes)) << data[i];
    EXPECT_EQ(data[i]["loaded"], false);
  };
  is(0, "image", {"/v1/classify", "/v1/embeddings", "/v1/attention"});
  is(1, "text", {"/v1/embeddings", "/v1/attention"});
  is(2, "pair", {"/v1/attention", "/v1/translate"});
  is(3, "towers", {"/v1/classify", "/v1/embeddings", "/v1/attention"});
  is(4, "image", {"/v1/embeddings", "/v1/detect", "/v1/attention"});
  EXPECT_FALSE(data[5].contains("kind"));
  EXPECT_NE(data[5].value("error", "").find("log says why"), std::string::npos) << data[5];
  EXPECT_EQ(io::Json::parse(running.Call(Get("/v1/models/clip")).body)["kind"], "towers");
}

// As the text tower reads them: with the tokens at both ends, and cut.
TEST(Server, CountsTheTokensOfTextsOfTwoTowers) {
  ServerConfig config;
  config.models = {{.id = "clip", .path = Golden("towers/clip")}};
  const RunningServer running(config);
  const auto tokens = [&](const io::Json& input) {
    const Answer answer = running.Call(PostJson("/v1/embeddings", {{"input", input}}));
    return io::Json::parse(answer.body)["usage"]["prompt_tokens"].get<int64_t>();
  };
  const int64_t one = tokens("a cat");
  EXPECT_GE(one, 3);
  EXPECT_EQ(tokens({"a cat", "a cat"}), 2 * one);
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "a cat ";
  const int64_t most = tokens(text);
  EXPECT_GT(most, one);
  EXPECT_LE(most, 77);
  const std::string metrics = running.Call(Get("/metrics")).body;
  const std::string line = fmt::format("qkv_tokens_total{{direction=\"read\",model=\"clip\"}} {}\n", 3 * one + most);
  EXPECT_NE(metrics.find(line), std::string::npos) << line << metrics;
}

// In as many tasks as it takes, and as many as other routes take.
TEST(Server, InfersIdsAFewAtATime) {
  ServerConfig config;
  config.models = {{.id = "clip", .path = Golden("towers/clip")}};
  const auto vectors = [&](int64_t rows) {
    const RunningServer running(config);
    std::vector<int64_t> ids;
    for (int64_t i = 0; i < 4 * rows; ++i) ids.push_back(1 + i % 50);
    const io::Json one = {{"name", "input_ids"}, {"datatype", "INT64"}, {"shape", {rows, 4}}, {"data", ids}};
    const Answer answer = running.Call(PostJson("/v2/models/clip/infer", {{"inputs", {one}}}));
    const io::Json json = io::Json::parse(answer.body);
    return answer.status == 200 ? json["outputs"][0]["data"] : json["error"];
  };
  const io::Json together = vectors(7);
  ASSERT_TRUE(together.is_array()) << together;
  config.batching.most_together = 2;
  EXPECT_EQ(vectors(7), together);
  EXPECT_NE(vectors(2049).dump().find("up to 2048 rows"), std::string::npos);
}

TEST(Server, SearchesPhotosByTwoTowersAlone) {
  RunningServer running;
  const auto predict = [&](const std::string& model) {
    const std::string entries = R"({"clip": {"textual": {"modelName": ")" + model + R"("}}})";
    const std::string body = "--b\r\nContent-Disposition: form-data; name=\"entries\"\r\n\r\n" + entries +
                             "\r\n--b\r\nContent-Disposition: form-data; name=\"text\"\r\n\r\na cat\r\n--b--\r\n";
    return running.Call(
        fmt::format("POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: multipart/form-data; boundary=b\r\n"
                    "Content-Length: {}\r\n\r\n{}",
                    body.size(), body));
  };
  const Answer answer = predict("digits");
  EXPECT_EQ(answer.status, 422) << answer.body;
  EXPECT_NE(answer.body.find("CLIP or SigLIP"), std::string::npos);
}

TEST(Server, IsThereWhileModelsAreLoaded) {
  ServerConfig config;
  config.models = {{.id = "digits", .at_start = true}};
  RunningServer running(config);
  EXPECT_EQ(running.Call(Get("/health")).status, 200);
  int status = 503;
  for (int i = 0; i < 200 && status == 503; ++i) {
    status = running.Call(Get("/v2/health/ready")).status;
    if (status == 503) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_EQ(status, 200);
}

// A model whose numbers are broken is not the client's fault.
TEST(Server, SaysWhenAModelIsBroken) {
  const TemporaryFolder folder;
  std::filesystem::copy(SourceFolder() / "models/digits", folder / "broken");
  const std::filesystem::path file = folder / "broken" / "model.safetensors";
  std::string bytes = ReadFile(file);
  uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof(header));
  const io::Json tensors = io::Json::parse(bytes.substr(8, header));
  const std::vector<size_t> place = tensors["norm.weight"]["data_offsets"];
  for (size_t at = place[0]; at < place[1]; at += sizeof(float)) {
    const float huge = 3e38F;  // finite, as a file's weights must be
    std::memcpy(bytes.data() + 8 + header + at, &huge, sizeof(huge));
  }
  std::ofstream(file, std::ios::binary) << bytes;
  ServerConfig config;
  config.models = {{.id = "broken", .path = (folder / "broken").string()}};
  RunningServer running(config);
  const Answer answer = running.Call(Classify());
  EXPECT_EQ(answer.status, 500) << answer.body;
  EXPECT_NE(answer.body.find("NaN or infinity"), std::string::npos);
  running.End();
  EXPECT_TRUE(std::any_of(running.log().begin(), running.log().end(),
                          [](const io::Json& line) { return line["event"] == "fault"; }));
}

TEST(Server, SaysWhichFieldIsWrong) {
  RunningServer running;
  const std::string file = ReadFile(SourceFolder() / "examples/digits/7-black.png");
  const std::string image = report::Base64(std::as_bytes(std::span(file)));
  const auto says = [&](const io::Json& fields, std::string_view what, std::string_view path) {
    io::Json json = fields;
    json["image"] = image;
    const Answer answer = running.Call(PostJson(path, json));
    return answer.status == 400 && answer.body.find(what) != std::string::npos ? "" : answer.body;
  };
  EXPECT_EQ(says({{"layers", 9}}, "\"layers: expected", "/v1/attention"), "");
  EXPECT_EQ(says({{"tops", 3}}, "tops: there is no such field", "/v1/classify"), "");
  EXPECT_EQ(says({{"model", "digits"}}, "digits has the routes /v1/classify, /v1/embeddings", "/v1/detect"), "");
  EXPECT_EQ(running.Call(PostJson("/v1/classify?top=1&top=2", {{"image", image}})).status, 400);
}

// Each pass but the last has a copy of the pixels, which counts.
TEST(Server, CountsTheCopiesOfPixels) {
  ServerConfig config;
  config.image_bytes = 2 * 28 * 28 * 4;
  RunningServer running(config);
  const auto status = [&](std::initializer_list<const char*> names) {
    io::Json outputs = io::Json::array();
    for (const char* name : names) outputs.push_back({{"name", name}});
    return running
        .Call(PostJson("/v2/models/digits/infer", {{"inputs",
                                                    {{{"name", "pixels"},
                                                      {"datatype", "FP32"},
                                                      {"shape", {1, 1, 28, 28}},
                                                      {"data", std::vector<float>(784, 0.5F)}}}},
                                                   {"outputs", outputs}}))
        .status;
  };
  EXPECT_EQ(status({"logits"}), 200);
  EXPECT_EQ(status({"logits", "tokens"}), 200);
  EXPECT_EQ(status({"logits", "tokens", "embedding"}), 413);
}

std::string Explore(std::string_view call, std::string_view json) {
  return fmt::format(
      "POST /explore/{} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
      call, json.size(), json);
}

TEST(Server, DescribesModelsWithoutLoadingThem) {
  RunningServer running;
  const auto loaded = [&] { return io::Json::parse(running.Call(Get("/v1/models/digits")).body)["loaded"]; };
  const io::Json metadata = io::Json::parse(running.Call(Get("/v2/models/digits")).body);
  EXPECT_EQ(metadata["inputs"][0]["shape"], io::Json({-1, 1, -1, -1})) << metadata;
  EXPECT_EQ(running.Call(Get("/v2/models/digits/config")).status, 200);
  EXPECT_EQ(running.Call(Explore("models", "{}")).status, 200);
  EXPECT_EQ(loaded(), false);
  running.Call(Classify());
  EXPECT_EQ(loaded(), true);
  EXPECT_EQ(io::Json::parse(running.Call(Get("/v2/models/digits")).body), metadata);
}

TEST(Server, LoadsAModelOnceForThePageToo) {
  RunningServer running;
  EXPECT_EQ(running.Call(Explore("pass", R"({"model": "digits", "sample": "digit-3"})")).status, 200);
  EXPECT_EQ(running.Call(Explore("pass", R"({"model": "nothing", "sample": "digit-3"})")).status, 404);
  EXPECT_EQ(running.Call(Explore("rollout", R"({"sample": "digit-3"})")).status, 200);
  running.Call(Classify());
  running.End();
  EXPECT_EQ(std::count_if(running.log().begin(), running.log().end(),
                          [](const io::Json& line) { return line["event"] == "model" && line["what"] == "loaded"; }),
            1);
}

TEST(Server, SaysWhichModelCannotBeLoaded) {
  ServerConfig config;
  config.models = {{.id = "broken", .path = (SourceFolder() / "tests/golden/README.md").string()}};
  RunningServer running(config);
  const Answer answer = running.Call(Classify());
  EXPECT_EQ(answer.status, 503);
  EXPECT_NE(answer.body.find("broken"), std::string::npos);
  config.models[0].at_start = true;
  RunningServer other(config);
  EXPECT_NE(other.Failure().find("broken"), std::string::npos);
}

}  // namespace
}  // namespace qkv::server
