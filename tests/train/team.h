// Processes as threads of this one: what they do to each other is seen, and MPI is not needed.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <string>
#include <thread>
#include <vector>

#include "qkv/train/communicator.h"

namespace qkv::train {

class Team {
 public:
  explicit Team(int size) : size_(size), barrier_(size), values_(Sized()), texts_(Sized()) {}

  /// f(communicator) for each member, all at the same time.
  template <typename F>
  void Run(F&& f) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size_; ++rank) {
      threads.emplace_back([this, rank, &f] {
        Member member(*this, rank);
        f(member);
        EXPECT_TRUE(member.Idle()) << "sums that were begun and not finished";
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  /// Sums that were begun by a member's StartSum, over all members.
  int64_t started() const { return started_.load(); }

 private:
  class Member : public Communicator {
   public:
    Member(Team& team, int rank) : team_(team), rank_(rank) {}
    int rank() const override { return rank_; }
    int size() const override { return team_.size_; }
    void Sum(std::span<double> values) override { SumNow(values); }
    void StartSum(std::span<float> values) override { floats_.push_back(values), ++team_.started_; }
    void StartSum(std::span<double> values) override { doubles_.push_back(values), ++team_.started_; }
    void FinishSums() override {
      for (const auto& values : floats_) SumNow(values);
      for (const auto& values : doubles_) SumNow(values);
      floats_.clear(), doubles_.clear();
    }
    void CancelSums() override { floats_.clear(), doubles_.clear(); }
    std::vector<std::string> Gather(const std::string& own) override {
      team_.texts_[static_cast<size_t>(rank_)] = own;
      team_.barrier_.arrive_and_wait();
      std::vector<std::string> all = team_.texts_;
      team_.barrier_.arrive_and_wait();
      return all;
    }
    bool Idle() const { return floats_.empty() && doubles_.empty(); }

   private:
    template <typename T>
    void SumNow(std::span<T> values) {
      team_.values_[static_cast<size_t>(rank_)].assign(values.begin(), values.end());
      team_.barrier_.arrive_and_wait();
      for (size_t i = 0; i < values.size(); ++i) {
        T sum = 0;
        for (const auto& of_one : team_.values_) {
          ASSERT_EQ(of_one.size(), values.size()) << "members sum different ranges";
          sum += static_cast<T>(of_one[i]);
        }
        values[i] = sum;
      }
      team_.barrier_.arrive_and_wait();
    }

    Team& team_;
    const int rank_;
    std::vector<std::span<float>> floats_;
    std::vector<std::span<double>> doubles_;
  };

  size_t Sized() const { return static_cast<size_t>(size_); }

  const int size_;
  std::barrier<> barrier_;
  std::vector<std::vector<double>> values_;
  std::vector<std::string> texts_;
  std::atomic<int64_t> started_{0};
};

}  // namespace qkv::train
