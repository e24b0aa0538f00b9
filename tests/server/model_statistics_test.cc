#include "qkv/server/model_statistics.h"

#include <gtest/gtest.h>

namespace qkv::server {
namespace {

TEST(ModelStatistics, AddsUpBatchesAndRequests) {
  ModelStatistics statistics;
  statistics.CountBatch({.labels = {"a", "logits"}, .tasks = 2, .size = 3, .waited = {0.5, 0.25}, .computed = 1});
  statistics.CountBatch({.labels = {"a", "logits"}, .tasks = 1, .size = 3, .waited = {0}, .computed = 1});
  statistics.CountBatch({.labels = {"a", "logits"}, .tasks = 1, .size = 1, .waited = {0}, .computed = 0.5});
  statistics.CountRequest("a", true, 2);
  statistics.CountRequest("a", false, 1);
  statistics.CountRequest("", false, 1);  // no model was named
  const io::Json a = statistics.Describe("a", "1");
  EXPECT_EQ(a["inference_count"], 7);
  EXPECT_EQ(a["execution_count"], 3);
  EXPECT_GT(a["last_inference"], 1'600'000'000'000);
  EXPECT_EQ(a["inference_stats"]["success"], io::Json({{"count", 1}, {"ns", 2'000'000'000}}));
  EXPECT_EQ(a["inference_stats"]["fail"]["count"], 1);
  EXPECT_EQ(a["inference_stats"]["queue"], io::Json({{"count", 4}, {"ns", 750'000'000}}));
  EXPECT_EQ(a["inference_stats"]["compute_infer"]["ns"], 2'500'000'000);
  ASSERT_EQ(a["batch_stats"].size(), 2u);
  EXPECT_EQ(a["batch_stats"][1]["batch_size"], 3);
  EXPECT_EQ(a["batch_stats"][1]["compute_infer"]["count"], 2);
  EXPECT_EQ(statistics.Describe("b", "7")["inference_count"], 0);
}

}  // namespace
}  // namespace qkv::server
