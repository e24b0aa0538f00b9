// What a run says of where it stands is believed as far as it can be true.
#include "qkv/train/standing.h"

#include <gtest/gtest.h>

#include <cmath>

#include "qkv/io/json.h"
#include "tests/support/errors.h"

namespace qkv::train {
namespace {

Standing SomeStanding() {
  Standing standing;
  standing.step = 12;
  standing.logged = {3.5, 40, 11};
  standing.evaluated = {0.1 + 0.2, 96, 96};
  standing.evaluations = 3, standing.best_epoch = 2, standing.without_better = 1;
  standing.best_top1 = 1.0 / 3, standing.best_loss = 0.7;
  standing.data = 0xFEDCBA9876543210u;
  return standing;
}

TEST(Standing, IsReadAsItWasWritten) {
  Standing standing = SomeStanding();
  for (const bool due : {false, true}) {
    standing.evaluation_due = due;
    const Standing read = Standing::FromJson(standing.ToJson(), "here");
    EXPECT_EQ(read.ToJson(), standing.ToJson());
    EXPECT_EQ(read.evaluated.loss, 0.1 + 0.2);
    EXPECT_EQ(read.data, standing.data);
    EXPECT_EQ(read.evaluation_due, due);
  }
  // Of an older version.
  io::Json json = io::Json::parse(standing.ToJson());
  json.erase("evaluation_due");
  EXPECT_FALSE(Standing::FromJson(json.dump(), "here").evaluation_due);
}

TEST(Standing, HoldsEveryNumberToWhatItCanBe) {
  const auto said = [](const char* key, const char* value) {
    io::Json json = io::Json::parse(SomeStanding().ToJson());
    if (*value != '\0') {
      json[key] = io::Json::parse(value);
    } else {
      json.erase(key);
    }
    return MessageOf([&] { Standing::FromJson(json.dump(), "here"); });
  };
  for (const auto& [key, value] : {std::pair<const char*, const char*>{"step", "-1"},
                                   {"step", "1e300"},
                                   {"step", "12.5"},
                                   {"step", "true"},
                                   {"step", "18446744073709551615"},
                                   {"step", "2251799813685249"},
                                   {"step", "\"12\""},
                                   {"step", "null"},
                                   {"step", "2"},  // fewer than evaluations
                                   {"evaluations", "13"},
                                   {"evaluations", "-1"},
                                   {"best_epoch", "13"},
                                   {"best_epoch", "-1"},
                                   {"without_better", "4"},
                                   {"best_top1", "1.5"},
                                   {"best_top1", "-0.1"},
                                   {"best_top1", "null"},
                                   {"best_loss", "\"0\""},
                                   {"since_log", "[1.0,-5,0]"},
                                   {"since_log", "[1.0,5,6]"},
                                   {"since_log", "[1.0,5]"},
                                   {"since_log", "[null,5,5]"},
                                   {"since_log", "7"},
                                   {"since_evaluation", "[1.0,5,-1]"},
                                   {"data", "-1"},
                                   {"data", "1.5"},
                                   {"evaluation_due", "1"},
                                   {"step", ""},
                                   {"since_log", ""},
                                   {"data", ""}}) {
    const std::string message = said(key, value);
    EXPECT_TRUE(message.starts_with("here: ")) << key << " " << value << ": " << message;
  }
  EXPECT_EQ(said("step", "13"), "");
  for (const char* text : {"", "[]", "null", "7", "{", "{}"}) {
    EXPECT_NE(MessageOf([&] { Standing::FromJson(text, "here"); }), "") << text;
  }
}

// JSON has no number for it.
TEST(Standing, AnEvaluationWithoutALossIsWorseThanAnyOther) {
  Standing standing;
  standing.step = 2;
  EXPECT_TRUE(standing.Rate(1, {.loss = NAN, .top1 = 0.5}));
  standing = Standing::FromJson(standing.ToJson(), "here");
  EXPECT_TRUE(std::isinf(standing.best_loss));
  EXPECT_TRUE(standing.Rate(2, {.loss = 9, .top1 = 0.5}));
}

}  // namespace
}  // namespace qkv::train
