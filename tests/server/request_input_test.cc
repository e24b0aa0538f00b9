#include "qkv/server/request_input.h"

#include <gtest/gtest.h>

#include "qkv/explore/outdated_error.h"
#include "qkv/model/blocks/finite.h"
#include "qkv/report/base64.h"
#include "tests/support/errors.h"

namespace qkv::server {
namespace {

HttpRequest Request(const std::string& type, const std::string& body, const std::string& target = "/x") {
  HttpRequest request{.method = "POST", .body = body};
  if (!type.empty()) request.headers["content-type"] = type;
  ParseTarget(target, &request);
  return request;
}
const FieldNames kNames = {"image", "a", "b", "c", "d", "e", "f", "top", "rollout", "threshold", "name"};

// Its images are its own.
RequestInput Json(const std::string& body, const std::string& target = "/x") {
  const HttpRequest request = Request("application/json; charset=utf-8", body, target);
  return RequestInput(request, kNames);
}

TEST(Base64, IsDecodedAsStrictlyAsItMust) {
  EXPECT_EQ(report::FromBase64("aGFsbG8="), "hallo");
  EXPECT_EQ(report::FromBase64("aGFsbG8"), "hallo");
  EXPECT_EQ(report::FromBase64("aGFs\r\nbG8="), "hallo");
  EXPECT_EQ(report::FromBase64("-_-_"), report::FromBase64("+/+/"));
  EXPECT_EQ(report::FromBase64(""), "");
  for (const std::string wrong : {"a", "aGFsbG8=x", "aGF*", "aG=s"}) EXPECT_FALSE(report::FromBase64(wrong)) << wrong;
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  EXPECT_EQ(report::FromBase64(report::Base64(std::as_bytes(std::span(bytes)))), bytes);
}

TEST(RequestInput, ReadsJson) {
  const RequestInput input = Json(
      R"({"a": 3, "b": 0.5, "c": true, "d": "x", "e": ["x", "y"], "f": null, "image": "data:image/png;base64,eHk="})");
  EXPECT_EQ(input.Integer("a", 1, 0, 10), 3);
  EXPECT_EQ(input.Number("b", 1, 0, 1), 0.5);
  EXPECT_EQ(input.Number("a", 1, 0, 10), 3);
  EXPECT_TRUE(input.Flag("c"));
  EXPECT_EQ(input.Text("d"), "x");
  EXPECT_EQ(input.Texts("d"), std::vector<std::string>{"x"});
  EXPECT_EQ(input.Texts("e").size(), 2u);
  EXPECT_FALSE(input.Has("f"));
  EXPECT_EQ(input.Integer("missing", 7, 0, 10), 7);
  ASSERT_EQ(input.images().size(), 1u);
  EXPECT_EQ(input.images()[0].bytes(), "xy");
  EXPECT_EQ(Json(R"({"images": ["eHk=", "eHo="]})").images()[1].bytes(), "xz");
}

// Schemes and the word base64 have no case.
TEST(RequestInput, ReadsDataAddressesInAnyCase) {
  for (const std::string head : {"data:image/png;base64,", "DATA:image/png;base64,", "Data:image/png;BASE64,",
                                 "dAtA:;Base64,", "data:;base64,", "data:image/png;name=a;base64,", ""}) {
    EXPECT_EQ(ReadBase64(head + "eHk=", "image").bytes(), "xy") << head;
  }
  for (const std::string wrong : {"data:image/png,eHk=", "data:image/png;base64", "data:base64,eHk=",
                                  "data:;base64;x=y,eHk=", "data:;xbase64,eHk=", "DATA:;base6,eHk="}) {
    EXPECT_NE(ErrorMessage([&] { ReadBase64(wrong, "image"); }).find("a data URI with base64"), std::string::npos)
        << wrong;
  }
  for (const std::string address : {"http://x/y.png", "HTTP://x/y.png", "hTtPs://x/y.png"}) {
    EXPECT_NE(ErrorMessage([&] { ReadBase64(address, "image"); }).find("fetches no addresses"), std::string::npos)
        << address;
  }
}

TEST(RequestInput, IsStrictAboutJsonsTypes) {
  const RequestInput input = Json(R"({"a": "3", "b": "true", "c": 3.5, "d": 7, "e": 18446744073709551615, "f": [1]})");
  for (const char* name : {"a", "c", "e", "f"}) EXPECT_THROW(input.Integer(name, 1, 0, 100), HttpError) << name;
  EXPECT_THROW(input.Number("a", 1, 0, 10), HttpError);
  EXPECT_THROW(input.Flag("b"), HttpError);
  EXPECT_THROW(input.Text("d"), HttpError);
  EXPECT_THROW(input.Texts("f"), HttpError);
  EXPECT_THROW(input.Integer("d", 1, 8, 10), HttpError);
  EXPECT_NE(ErrorMessage([&] { input.Integer("d", 1, 8, 10); }).find("d: expected a whole number from 8 to 10"),
            std::string::npos);
}

TEST(RequestInput, ReadsAnImageWithAQuery) {
  const HttpRequest request = Request("image/png", "bytes", "/x?top=3&rollout=true&threshold=0.25&name=a%20b+c");
  const RequestInput input(request, kNames);
  EXPECT_EQ(input.Integer("top", 1, 0, 10), 3);
  EXPECT_TRUE(input.Flag("rollout"));
  EXPECT_EQ(input.Number("threshold", 1, 0, 1), 0.25);
  EXPECT_EQ(input.RequireImages()[0].bytes(), "bytes");
  EXPECT_THROW(input.Integer("name", 1, 0, 10), HttpError);
  EXPECT_THROW(input.Flag("name"), HttpError);
  const HttpRequest other = Request("application/octet-stream", "bytes");
  EXPECT_EQ(RequestInput(other, kNames).images().size(), 1u);
  EXPECT_THROW(RequestInput(other, {"top"}), HttpError);  // without images
}

TEST(RequestInput, ReadsAForm) {
  const HttpRequest request =
      Request("multipart/form-data; boundary=b",
              "--b\r\nContent-Disposition: form-data; name=\"image\"; filename=\"7.png\"\r\n\r\nxy\r\n"
              "--b\r\nContent-Disposition: form-data; name=\"top\"\r\n\r\n4\r\n--b--\r\n");
  const RequestInput input(request, kNames);
  EXPECT_EQ(input.Integer("top", 1, 0, 10), 4);
  EXPECT_EQ(input.images()[0].name(), "7.png");
}

TEST(RequestInput, RefusesWhatItCannotTake) {
  EXPECT_THROW(Json(R"({"top": 3})", "/x?top=4"), HttpError);  // twice
  EXPECT_THROW(Json("[1]"), HttpError);
  EXPECT_THROW(Json("{"), HttpError);
  EXPECT_THROW(Json(std::string(200, '[')), HttpError);
  for (const std::string image :
       {"http://127.0.0.1/a.png", "https://a.example/b", "data:image/png,xx", "data:", "*", "", "file:///a"}) {
    EXPECT_THROW(Json(io::Json({{"image", image}}).dump()), HttpError) << image;
  }
  EXPECT_THROW(Json(R"({"image": 7})"), HttpError);
  EXPECT_THROW(Json(R"({"images": [7]})"), HttpError);
  EXPECT_THROW(Json("{}").RequireImages(), HttpError);
  EXPECT_EQ(Json(io::Json{{"images", std::vector<std::string>(256, "eHk=")}}.dump()).RequireImages().size(), 256u);
  EXPECT_THROW(Json(io::Json{{"images", std::vector<std::string>(257, "eHk=")}}.dump()).RequireImages(), HttpError);
  for (const auto& [type, got] : {std::pair("text/html", "got text/html"), {"", "got none"}}) {
    try {
      const HttpRequest request = Request(type, "x");
      RequestInput(request, kNames);
      FAIL();
    } catch (const HttpError& error) {
      EXPECT_EQ(error.status(), 415);
      EXPECT_TRUE(std::string(error.what()).ends_with(got)) << error.what();
    }
  }
}

TEST(RequestInput, NamesFieldsThatItDoesNotKnow) {
  EXPECT_NE(ErrorMessage([] { Json(R"({"tops": 3})"); }).find("tops: there is no such field; there are model, image"),
            std::string::npos);
  EXPECT_THROW(Json("{}", "/x?tops=3"), HttpError);
  EXPECT_THROW(RequestInput(io::Json{{"tops", 3}}, {"top"}), HttpError);
  EXPECT_TRUE(Json(R"({"model": "m", "images": []})").images().empty());
}

TEST(RequestInput, TakesOneOfSomeTexts) {
  EXPECT_EQ(Json("{}").Choice({.name = "a", .choices = "json|png"}), "json");
  EXPECT_EQ(Json(R"({"a": "png"})").Choice({.name = "a", .choices = "json|png"}), "png");
  EXPECT_NE(ErrorMessage([] {
              Json(R"({"a": "gif"})").Choice({.name = "a", .choices = "json|png"});
            }).find("a: expected json or png"),
            std::string::npos);
}

TEST(RequestInput, LimitsValuesAndNotTexts) {
  std::string many = R"({"a": [[])";
  for (size_t i = 0; i <= kMaxValues; ++i) many += ",[]";
  EXPECT_NE(ErrorMessage([&] { Json(many + "]}"); }).find("more than 65536 values"), std::string::npos);
  EXPECT_THROW(Json("{\"a\":" + std::string(64, '[') + std::string(64, ']') + "}"), HttpError);
  const std::string image(size_t{24} << 20, 'A');
  EXPECT_EQ(Json(R"({"image": ")" + image + "\"}").images()[0].bytes().size(), size_t{18} << 20);
}

TEST(Errors, AreInTheWordsOfRequests) {
  const auto said = [](const std::string& message) { return std::string(AsHttpError(Error(message)).what()); };
  EXPECT_EQ(said("--layer: expected numbers"), "layers: expected numbers");
  EXPECT_EQ(said("attend: --discard and --start belong to --rollout"), "attend: discard and start belong to rollout");
  EXPECT_EQ(said("give --target, or more --tokens"), "give target, or more max_tokens");
  EXPECT_EQ(said("for classes of whole images try: qkv classify"), "for classes of whole images try: /v1/classify");
  EXPECT_EQ(said("a -- b --- c a--layer --"), "a -- b --- c a--layer --");
  EXPECT_EQ(AsHttpError(Error("x")).status(), 400);
  EXPECT_EQ(AsHttpError(HttpError(413, "t", "--layer")).status(), 413);
  EXPECT_EQ(AsHttpError(model::AnswerError("NaN")).status(), 500);
  EXPECT_EQ(AsHttpError(explore::OutdatedError("its files have changed")).status(), 503);
}

TEST(Target, IsDecoded) {
  HttpRequest request;
  ParseTarget("/a%2Fb/c?x=%41&y&z=", &request);
  EXPECT_EQ(request.path, "/a/b/c");
  EXPECT_EQ(request.query["x"], "A");
  EXPECT_EQ(request.query["y"], "");
  for (const std::string wrong : {"", "a", "*", "ftp://a/b", "http://u@a/b", "http:/b", "a:80", "http://", "http:///b",
                                  "http://a b/", "http://a#b", "/x?a=1&a=2", "/%", "/%zz", "/a b", "/%00", "/a#b"}) {
    HttpRequest other;
    EXPECT_THROW(ParseTarget(wrong, &other), HttpError) << wrong;
  }
}

TEST(Target, MayBeAWholeAddress) {
  HttpRequest request;
  request.headers["host"] = "other";
  ParseTarget("http://name:81/a%20b?y=1", &request);
  EXPECT_EQ(request.path, "/a b");
  EXPECT_EQ(request.query["y"], "1");
  EXPECT_EQ(request.Header("host"), "name:81");
  ParseTarget("https://name?x=2", &request);
  EXPECT_EQ(request.path, "/");
  EXPECT_EQ(request.Header("host"), "name");
}

TEST(Errors, UnderV2AreTexts) {
  EXPECT_EQ(io::Json::parse(ErrorResponse(404, "not_found_error", "no", "/v1/models").body)["error"]["message"], "no");
  EXPECT_EQ(io::Json::parse(ErrorResponse(404, "not_found_error", "no", "/v2/models").body)["error"], "no");
  EXPECT_TRUE(io::Json::parse(ErrorResponse(404, "not_found_error", "no", "/v22").body)["error"].is_object());
}

}  // namespace
}  // namespace qkv::server
