#include "qkv/server/infer_message.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/support/errors.h"

namespace qkv::server {
namespace {

HttpRequest Request(const std::string& json, const std::string& bytes = "", bool binary = false) {
  HttpRequest request{.method = "POST", .path = "/v2/models/a/infer", .body = json + bytes};
  if (binary) request.headers["inference-header-content-length"] = std::to_string(json.size());
  return request;
}
std::string Input(const std::string& type, const std::string& shape, const std::string& rest) {
  return R"({"inputs": [{"name": "x", "datatype": ")" + type + R"(", "shape": )" + shape + ", " + rest + "}]}";
}

TEST(InferMessage, ReadsJson) {
  const InferRequest r = ParseInferRequest(Request(
      R"({"id": "7", "parameters": {"binary_data_output": true, "max_tokens": 3}, "inputs": [
          {"name": "a", "datatype": "FP32", "shape": [2, 2], "data": [[1, 2], [3, 4.5]]},
          {"name": "b", "datatype": "INT64", "shape": [2], "data": [1, -2]},
          {"name": "c", "datatype": "BYTES", "shape": [1], "data": ["text"]}],
          "outputs": [{"name": "o", "parameters": {"binary_data": false, "classification": 3}}, {"name": "p"}]})"));
  EXPECT_EQ(r.id, "7");
  EXPECT_EQ(r.parameters["max_tokens"], 3);
  ASSERT_EQ(r.inputs.size(), 3u);
  EXPECT_EQ(r.inputs[0].floats, (std::vector<float>{1, 2, 3, 4.5F}));
  EXPECT_EQ(r.inputs[0].shape, Shape({2, 2}));
  EXPECT_EQ(r.inputs[1].numbers, (std::vector<int64_t>{1, -2}));
  EXPECT_EQ(r.inputs[2].texts, std::vector<std::string>{"text"});
  EXPECT_FALSE(r.outputs[0].binary);
  EXPECT_EQ(r.outputs[0].classes, 3);
  EXPECT_TRUE(r.outputs[1].binary);
}

TEST(InferMessage, TakesNumbersWithoutKeepingTheirJson) {
  const auto floats = [](const std::string& shape, const std::string& data) {
    return ParseInferRequest(Request(Input("FP32", shape, "\"data\": " + data))).inputs[0].floats;
  };
  EXPECT_EQ(floats("[3]", "[1, 2.5, -3]"), (std::vector<float>{1, 2.5F, -3}));
  EXPECT_EQ(floats("[1, 2, 2]", "[1, 2, 3, 4]"), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(floats("[1, 2, 2]", "[[[1, 2], [3, 18446744073709551615]]]").size(), 4u);
  EXPECT_EQ(floats("[0]", "[]").size(), 0u);
  // "data" before the rest, and twice: the last counts.
  EXPECT_EQ(ParseInferRequest(Request(R"({"inputs": [{"data": [7, 8], "data": [1], "name": "x", "datatype": "INT32",
                                          "shape": [1]}]})"))
                .inputs[0]
                .numbers,
            std::vector<int64_t>{1});
  std::string many = "[0";
  for (int i = 1; i < 200'000; ++i) many += ",0";
  EXPECT_EQ(floats("[200000]", many + "]").size(), 200'000u);
  for (const std::string data :
       {"[[1, 2], [3]]", "[1, [2, 3]]", "[[1, 2], 3]", "[1, null, 2]", "[{}, 1, 2]", "[1, \"2\", 3]", "[[1], [2], [3]]",
        "{\"a\": [1, 2, 3]}", "[[[[[[[[[1,2,3]]]]]]]]]", "[true, 1, 2]", "7"}) {
    EXPECT_THROW(floats("[3]", data), HttpError) << data;
  }
  // Beside tensors there are as few values as in any request.
  std::string parameters = R"({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [1]}], "x": [0)";
  for (int i = 1; i < 70'000; ++i) parameters += ",0";
  EXPECT_NE(ErrorMessage([&] { ParseInferRequest(Request(parameters + "]}")); }).find("more than 65536 values"),
            std::string::npos);
}

TEST(InferMessage, ReadsBytes) {
  const float numbers[2] = {1.5F, -2};
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), numbers, 8);
  bytes += std::string("\x02\0\0\0ab\0\0\0\0", 10);
  const InferRequest r = ParseInferRequest(Request(
      R"({"inputs": [{"name": "a", "datatype": "FP32", "shape": [2], "parameters": {"binary_data_size": 8}},
                     {"name": "b", "datatype": "BYTES", "shape": [2], "parameters": {"binary_data_size": 10}}]})",
      bytes, true));
  EXPECT_EQ(r.inputs[0].floats, (std::vector<float>{1.5F, -2}));
  EXPECT_EQ(r.inputs[1].texts, (std::vector<std::string>{"ab", ""}));
  HttpRequest raw{.body = "image"};
  raw.headers["inference-header-content-length"] = "0";
  EXPECT_EQ(ParseInferRequest(raw).raw, "image");
}

TEST(InferMessage, LimitsTexts) {
  const auto json = [](int count) {
    std::string data = "\"\"";
    for (int i = 1; i < count; ++i) data += ",\"\"";
    return Request(Input("BYTES", fmt::format("[{}]", count), "\"data\": [" + data + "]"));
  };
  const auto bytes = [](const std::string& shape, size_t count) {
    const std::string texts(4 * count, '\0');
    return Request(Input("BYTES", shape, fmt::format("\"parameters\": {{\"binary_data_size\": {}}}", texts.size())),
                   texts, true);
  };
  EXPECT_EQ(ParseInferRequest(json(2048)).inputs[0].texts.size(), 2048u);
  EXPECT_EQ(ParseInferRequest(bytes("[2048]", 2048)).inputs[0].texts.size(), 2048u);
  const auto said = [](const HttpRequest& request) { return ErrorMessage([&] { ParseInferRequest(request); }); };
  EXPECT_NE(said(json(2049)).find("up to 2048 texts"), std::string::npos);
  EXPECT_NE(said(bytes("[15000000]", 15'000'000)).find("up to 2048 texts"), std::string::npos);
  EXPECT_NE(said(bytes("[2]", 15'000'000)).find("2 elements"), std::string::npos);
}

TEST(InferMessage, RefusesWhatDoesNotFit) {
  for (const std::string& json :
       {std::string("{}"), std::string(R"({"inputs": []})"), std::string(R"({"inputs": [7]})"),
        Input("FP64", "[1]", R"("data": [1])"), Input("FP32", "[2]", R"("data": [1])"),
        Input("FP32", "[1]", R"("data": [1, 2])"), Input("FP32", "[1]", R"("data": ["1"])"),
        Input("FP32", "[1]", R"("data": [[1]])"), Input("FP32", "[-1]", R"("data": [1])"),
        Input("FP32", "[1,1,1,1,1,1,1]", R"("data": [1])"), Input("FP32", "[4611686018427387904, 8]", R"("data": [1])"),
        Input("INT64", "[1]", R"("data": [1.5])"), Input("INT64", "[1]", R"("data": [18446744073709551615])"),
        Input("BYTES", "[1]", R"("data": [1])"), Input("FP32", "[1]", R"("other": [1])"),
        Input("FP32", "[1]", R"("parameters": {"binary_data_size": 4})"),
        Input("FP32", "[1]", R"("parameters": {"shared_memory_region": "a"})"),
        Input("FP32", "[1]", R"("parameters": 7, "data": [1])")}) {
    EXPECT_THROW(ParseInferRequest(Request(json)), HttpError) << json;
  }
  const std::string four = Input("FP32", "[1]", R"("parameters": {"binary_data_size": 4})");
  EXPECT_EQ(ParseInferRequest(Request(four, "abcd", true)).inputs.size(), 1u);
  EXPECT_THROW(ParseInferRequest(Request(four, "abcde", true)), HttpError);
  EXPECT_THROW(ParseInferRequest(Request(four, "abc", true)), HttpError);
  const std::string text = Input("BYTES", "[1]", R"("parameters": {"binary_data_size": 4})");
  EXPECT_THROW(ParseInferRequest(Request(text, "\xff\xff\xff\xff", true)), HttpError);
  HttpRequest request = Request("{}");
  for (const std::string length : {"x", "-1", "3", "99999999999999999999", " 2"}) {
    request.headers["inference-header-content-length"] = length;
    EXPECT_THROW(ParseInferRequest(request), HttpError) << length;
  }
}

TEST(InferMessage, AnswersInJsonAndBytes) {
  const InferTensor numbers{.name = "a", .datatype = "FP32", .shape = {1, 2}, .floats = {1, 2}};
  const InferTensor texts{.name = "b", .datatype = "BYTES", .shape = {1}, .texts = {"xyz"}};
  const HttpResponse plain = InferResponse("m", "1", "id", {.outputs = {{numbers, false}, {texts, false}}});
  EXPECT_TRUE(plain.headers.empty());
  EXPECT_EQ(io::Json::parse(plain.body),
            io::Json::parse(R"({"model_name": "m", "model_version": "1", "id": "id", "outputs": [
                {"name": "a", "datatype": "FP32", "shape": [1, 2], "data": [1.0, 2.0]},
                {"name": "b", "datatype": "BYTES", "shape": [1], "data": ["xyz"]}]})"));
  const HttpResponse binary =
      InferResponse("m", "1", "", {.outputs = {{numbers, true}, {texts, true}}, .truncated = true});
  ASSERT_EQ(binary.headers.size(), 1u);
  const size_t length = std::stoul(binary.headers[0].second);
  const io::Json json = io::Json::parse(binary.body.substr(0, length));
  EXPECT_EQ(json["parameters"], io::Json::parse(R"({"truncated": true})"));
  EXPECT_EQ(json["outputs"][0]["parameters"]["binary_data_size"], 8);
  EXPECT_EQ(json["outputs"][1]["parameters"]["binary_data_size"], 7);
  EXPECT_EQ(binary.body.substr(length + 8), std::string("\x03\0\0\0xyz", 7));
}

}  // namespace
}  // namespace qkv::server
