// What a run says of where it stands is believed as far as it can be true.
#include "qkv/train/run/run_state.h"

#include <gtest/gtest.h>

#include <cmath>

#include "qkv/io/json.h"
#include "tests/support/errors.h"

namespace qkv::train {
namespace {

RunState SomeState() {
  RunState state;
  state.step = 12;
  state.logged = {3.5, 40, 11};
  state.evaluated = {0.1 + 0.2, 96, 96};
  state.evaluations = 3, state.best_epoch = 2, state.without_better = 1;
  state.best_top1 = 1.0 / 3, state.best_loss = 0.7;
  state.data = 0xFEDCBA9876543210u;
  return state;
}

TEST(RunState, IsReadAsItWasWritten) {
  RunState state = SomeState();
  for (const bool due : {false, true}) {
    state.evaluation_due = due;
    const RunState read = RunState::FromJson(state.ToJson(), "here");
    EXPECT_EQ(read.ToJson(), state.ToJson());
    EXPECT_EQ(read.evaluated.loss, 0.1 + 0.2);
    EXPECT_EQ(read.data, state.data);
    EXPECT_EQ(read.evaluation_due, due);
  }
  // Of an older version.
  io::Json json = io::Json::parse(state.ToJson());
  json.erase("evaluation_due");
  EXPECT_FALSE(RunState::FromJson(json.dump(), "here").evaluation_due);
}

TEST(RunState, HoldsEveryNumberToWhatItCanBe) {
  const auto said = [](const char* key, const char* value) {
    io::Json json = io::Json::parse(SomeState().ToJson());
    if (*value != '\0') {
      json[key] = io::Json::parse(value);
    } else {
      json.erase(key);
    }
    return ErrorMessage([&] { RunState::FromJson(json.dump(), "here"); });
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
    EXPECT_NE(ErrorMessage([&] { RunState::FromJson(text, "here"); }), "") << text;
  }
}

// JSON has no number for it.
TEST(RunState, AnEvaluationWithoutALossIsWorseThanAnyOther) {
  RunState state;
  state.step = 2;
  EXPECT_TRUE(state.Rate(1, {.loss = NAN, .top1 = 0.5}));
  state = RunState::FromJson(state.ToJson(), "here");
  EXPECT_TRUE(std::isinf(state.best_loss));
  EXPECT_TRUE(state.Rate(2, {.loss = 9, .top1 = 0.5}));
}

}  // namespace
}  // namespace qkv::train
