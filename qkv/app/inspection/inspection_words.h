// Sentences with numbers about a part's heads, for the page of qkv qk inspect.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "qkv/app/inspection/inspection.h"

namespace qkv::app::heads {

using Values = std::vector<double>;  // of every head

/// of(i) for every head.
Values Collect(const InspectedPart& part, const std::function<double(size_t)>& of);
/// The median of the finite values; NaN if there are none.
double Median(const Values& values);
/// The head with the greatest or least finite value; the first if none has one.
size_t Greatest(const Values& values);
size_t Least(const Values& values);
/// The shares of a LogitPart.
Values Shares(const InspectedPart& part, size_t which);

/// "block 3 head 2"
std::string HeadName(const InspectedPart& part, size_t i);
/// With a true minus sign, for prose.
std::string Signed(double value, int digits = 2);
/// "58 %", "0.4 %"
std::string Percent(double share);

// Sentences on what stands out.
std::string DescribeSymmetry(const InspectedPart& part);
std::string DescribeRank(const InspectedPart& part);
std::string DescribeWriting(const InspectedPart& part);
std::string DescribeGauge(const InspectedPart& part);
std::string DescribeKeyBias(const InspectedPart& part);
std::string DescribePosition(const InspectedPart& part);
std::string DescribeReach(const Inspection& inspection, const InspectedPart& part);

/// Why circuits of cross-attention have no symmetry and no eigenvalues.
inline constexpr const char* kTwoSpaces =
    "Queries come from the decoder's tokens, keys and values from the encoder's: rows and columns of M belong to two "
    "spaces. Symmetry and eigenvalues compare rows with columns, so they have no meaning here. Singular values and "
    "ranks "
    "have the meaning that they have elsewhere.";

}  // namespace qkv::app::heads
