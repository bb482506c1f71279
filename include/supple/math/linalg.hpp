// Small dense linear algebra on lanes: Cholesky, Householder QR, one-sided Jacobi SVD, and extreme
// eigenvalues.
//
// Range: QR and SVD first scale the matrix by a power of two, so that the squares of up to 2^16
// entries can be added without overflow. Entries smaller than 1e-304 times the largest one (1e-34
// in float) count as zero. Results above the number range are infinite, for example the singular
// values of a matrix whose entries are all the largest finite number. Cholesky never squares an
// entry.
//
// Lanes are independent: a lane that has converged does not change while others continue, so that
// its bits do not depend on the other lanes.
#pragma once

#include "supple/math/linalg/cholesky.hpp"
#include "supple/math/linalg/eigenvalues.hpp"
#include "supple/math/linalg/matrix.hpp"
#include "supple/math/linalg/qr.hpp"
#include "supple/math/linalg/svd.hpp"
