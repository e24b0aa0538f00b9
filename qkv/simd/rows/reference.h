// The oracle: every kernel, naive and in double precision. Never optimised, never removed.
#pragma once

#include "qkv/simd/rows/elementwise.h"

namespace qkv::simd::reference {

double Activate(Activation activation, double x);
/// The derivative; of kRelu at 0: 0.
double ActivationSlope(Activation activation, double x);

/// y[M, N] = x[M, K] w[N, K]ᵀ, all dense. `magnitude`, if given, receives Σ|x||w|, from which tolerances follow.
void MatMul(const double* x, const double* w, int64_t M, int64_t N, int64_t K, double* y, double* magnitude = nullptr);

void NormRows(const double* x, int64_t rows, int64_t D, const double* gamma, const double* beta,
              const NormRule<double>& rule, double* y);
void Softmax(double* x, int64_t n);

}  // namespace qkv::simd::reference
