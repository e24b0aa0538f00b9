#include "qkv/server/generation_request.h"

#include <gtest/gtest.h>

#include "tests/support/errors.h"

namespace qkv::server {
namespace {

const FieldNames kNames = NamesOf(WithDecoding({{.name = "stop"}}));

TEST(GenerationRequest, ReadsSettings) {
  const RequestInput input(io::Json{{"max_tokens", 5}, {"temperature", 0.5}, {"top_k", 3}, {"seed", 9}, {"stop", "x"}},
                           kNames);
  const model::GenerationSettings s = SettingsOf(input, {.beams = 4});
  EXPECT_EQ(s.max_tokens, 5);
  EXPECT_EQ(s.sampling.temperature, 0.5);
  EXPECT_EQ(s.sampling.top_k, 3);
  EXPECT_EQ(s.sampling.seed, 9u);
  EXPECT_EQ(s.beams, 1);  // drawing is no search
  EXPECT_EQ(StopsOf(input), std::vector<std::string>{"x"});
  EXPECT_EQ(
      SettingsOf(RequestInput(io::Json{{"beams", 3}}, kNames), {.sampling = {.temperature = 1}}).sampling.temperature,
      0);
  for (const io::Json& wrong :
       {io::Json{{"max_tokens", 0}}, io::Json{{"temperature", -1}}, io::Json{{"top_p", 0}}, io::Json{{"beams", 65}},
        io::Json{{"beams", 2}, {"temperature", 1}}, io::Json{{"seed", -1}}, io::Json{{"top_k", 1.5}}}) {
    EXPECT_NE(ErrorMessage([&] { SettingsOf(RequestInput(wrong, kNames), {}); }), "") << wrong;
  }
  EXPECT_THROW(StopsOf(RequestInput(io::Json{{"stop", io::Json::array({""})}}, kNames)), HttpError);
  EXPECT_THROW(StopsOf(RequestInput(io::Json{{"stop", std::vector<std::string>(17, "a")}}, kNames)), HttpError);
}

}  // namespace
}  // namespace qkv::server
