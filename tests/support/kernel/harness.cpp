// A C interface to the kernel's lanes, for the tests. harness.py compiles it for each instruction
// set. The name of a function consists of its operation and its lane: svd_f64x4 is an SVD on packs
// of four doubles.
//
// Batches are C-ordered: the batch axis is the last for numbers and the first for matrices.
// Neighbors in a batch are neighbors in a pack; a last pack that is not full repeats the last
// element.
#include <vector>

#include "batch.hpp"
#include "supple/math/elementary.hpp"
#include "supple/step/estimated.hpp"
#include "supple/step/filtering.hpp"
#include "supple/math/linalg.hpp"
#include "supple/math/linalg/gram_svd.hpp"
#include "supple/step/optimal.hpp"
#include "supple/math/se3.hpp"

namespace supple {
namespace {

// ---- numbers -----------------------------------------------------------------------------------

// out (out_rows, count) <- f(in (in_rows, count)), pack by pack.
template <class L, class F>
void map(long count, const scalar_t<L>* in, scalar_t<L>* out, F f) {
  for (long first = 0; first < count; first += width<L>) {
    L x[F::in_rows], y[F::out_rows];
    for (int i = 0; i < width<L>; ++i) {
      const long at = first + i < count ? first + i : count - 1;
      for (int k = 0; k < F::in_rows; ++k) set(x[k], i, in[k * count + at]);
    }
    f(x, y);
    for (int i = 0; i < width<L> && first + i < count; ++i) {
      for (int k = 0; k < F::out_rows; ++k) out[k * count + first + i] = get(y[k], i);
    }
  }
}

template <class L>
L number(const mask_t<L>& mask) {
  return select(mask, L(1), L(0));
}

// A function of lanes x[0], x[1], ... with results y[0], y[1], ...
#define LAB_FUNCTION(name, in, out, ...)      \
  struct name {                               \
    static constexpr int in_rows = in;        \
    static constexpr int out_rows = out;      \
    template <class L>                        \
    void operator()(const L* x, L* y) const { \
      __VA_ARGS__;                            \
    }                                         \
  };

namespace function {
LAB_FUNCTION(arithmetic, 2, 5, y[0] = x[0] + x[1]; y[1] = x[0] - x[1]; y[2] = x[0] * x[1];
             y[3] = x[0] / x[1]; y[4] = -x[0])
LAB_FUNCTION(fused, 3, 1, y[0] = fma(x[0], x[1], x[2]))
LAB_FUNCTION(root, 1, 1, y[0] = sqrt(x[0]))
LAB_FUNCTION(signs, 2, 2, y[0] = abs(x[0]); y[1] = copysign(x[0], x[1]))
LAB_FUNCTION(extremes, 2, 2, y[0] = min(x[0], x[1]); y[1] = max(x[0], x[1]))
LAB_FUNCTION(exponent, 1, 1, y[0] = power_of_two(x[0]))
LAB_FUNCTION(comparisons, 2, 6, y[0] = number<L>(x[0] < x[1]); y[1] = number<L>(x[0] <= x[1]);
             y[2] = number<L>(x[0] > x[1]); y[3] = number<L>(x[0] >= x[1]);
             y[4] = number<L>(x[0] == x[1]); y[5] = number<L>(x[0] != x[1]))
LAB_FUNCTION(selection, 2, 1, y[0] = select(x[0] < L(0), x[0], x[1]))
// The operations on the masks x[0] < 0 and x[1] < 0.
LAB_FUNCTION(masks, 2, 5, const mask_t<L> a = x[0] < L(0); const mask_t<L> b = x[1] < L(0);
             y[0] = number<L>(a & b); y[1] = number<L>(a | b); y[2] = number<L>(!a);
             y[3] = L(any(a) ? 1 : 0); y[4] = L(all(a) ? 1 : 0))
LAB_FUNCTION(finiteness, 1, 1, y[0] = number<L>(finite(x[0])))
LAB_FUNCTION(circle, 1, 2, sincos(x[0], y[0], y[1]))
LAB_FUNCTION(angle, 2, 1, y[0] = atan2(x[0], x[1]))
LAB_FUNCTION(angle_of_unit_vector, 2, 1, y[0] = unit_angle(x[0], x[1]))
// A rotation by its columns -> its rotation vector, and back.
LAB_FUNCTION(rotation_vector, 9, 3,
             const Vec3<L> r = log(Rotation<L>{
                 {x[0], x[1], x[2]}, {x[3], x[4], x[5]}, {x[6], x[7], x[8]}});
             y[0] = r.x; y[1] = r.y; y[2] = r.z)
LAB_FUNCTION(rotation, 3, 9, const Rotation<L> R = exp(Vec3<L>{x[0], x[1], x[2]}); y[0] = R.x.x;
             y[1] = R.x.y; y[2] = R.x.z; y[3] = R.y.x; y[4] = R.y.y; y[5] = R.y.z; y[6] = R.z.x;
             y[7] = R.z.y; y[8] = R.z.z)
}  // namespace function

// ---- matrices ----------------------------------------------------------------------------------

// a (n, n) -> factor (n, n), and b (n) -> x (n); full: 1 where all pivots were positive.
template <class L, class T = scalar_t<L>>
void cholesky_batch(long count, int n, const T* a, const T* b, T* factor, T* x, T* full) {
  for (long i = 0; i < count; i += width<L>) {
    std::vector<L> c = load<L>(n * n, count - i, a + i * n * n);
    std::vector<L> y = load<L>(n, count - i, b + i * n);
    const L whole = number<L>(cholesky(n, c.data()));
    cholesky_solve(n, c.data(), y.data());
    store(n * n, count - i, c.data(), factor + i * n * n);
    store(n, count - i, y.data(), x + i * n);
    store(1, count - i, &whole, full + i);
  }
}

// a (m, n) -> r (m, n, reflectors below the diagonal) and q (m, m), and b (m) -> projected = Q^T b
// (m); for m >= n, x (n) = the least-squares solution, full: 1 where the diagonal of R has no zero.
template <class L, class T = scalar_t<L>>
void qr_batch(long count, int m, int n, const T* a, const T* b, T* r, T* q, T* projected, T* x,
              T* full) {
  for (long i = 0; i < count; i += width<L>) {
    const long lanes = count - i;
    std::vector<L> f = load<L>(m * n, lanes, a + i * m * n), tau(m < n ? m : n);
    qr(m, n, f.data(), tau.data());
    store(m * n, lanes, f.data(), r + i * m * n);

    std::vector<L> columns(m * m), rows(m * m);
    for (int j = 0; j < m; ++j) {
      for (int k = 0; k < m; ++k) columns[j * m + k] = L(T(j == k));
      qr_times(m, n, f.data(), tau.data(), &columns[j * m]);
      for (int k = 0; k < m; ++k) rows[k * m + j] = columns[j * m + k];
    }
    store(m * m, lanes, rows.data(), q + i * m * m);

    std::vector<L> y = load<L>(m, lanes, b + i * m);
    qr_transpose_times(m, n, f.data(), tau.data(), y.data());
    store(m, lanes, y.data(), projected + i * m);
    if (m < n) continue;
    y = load<L>(m, lanes, b + i * m);
    const L whole = number<L>(qr_solve(m, n, f.data(), tau.data(), y.data()));
    store(n, lanes, y.data(), x + i * n);
    store(1, lanes, &whole, full + i);
  }
}

// a (m, n) -> u (m, k), sigma (k), v (n, k), k = min(m, n).
template <class L, class M, class T = scalar_t<L>>
void svd_batch(long count, M m, int n, const T* a, T* u, T* sigma, T* v) {
  const int k = m < n ? int(m) : n;
  std::vector<L> left(m * k), middle(k), right(n * k), work(m * n);
  for (long i = 0; i < count; i += width<L>) {
    const std::vector<L> x = load<L>(m * n, count - i, a + i * m * n);
    svd(m, n, x.data(), left.data(), middle.data(), right.data(), work.data());
    store(m * k, count - i, left.data(), u + i * m * k);
    store(k, count - i, middle.data(), sigma + i * k);
    store(n * k, count - i, right.data(), v + i * n * k);
  }
}

// The SVD by the Gram matrix, for one matrix at a time, with ascending sigma: u (k, m), v (k, n).
// Directions below `small` are refined; accurate is 1 or 0.
template <class T>
void gram_svd_each(long count, int m, int n, T small, const T* a, T* u, T* sigma, T* v,
                   T* accurate) {
  if constexpr (has_packs<T>) {
    const int k = m < n ? m : n, s = padded<T>(n), t = padded<T>(m);
    std::vector<T> memory(3 * (m + n + 32) * (m + n + 32) + gram_svd_scratch(m, n));
    T *rows = aligned_rows(memory.data()), *turned = rows + m * s, *left = turned + s * t,
      *right = left + k * t, *values = right + k * s, *work = values + k;
    for (long i = 0; i < count; ++i, a += m * n, u += k * m, sigma += k, v += k * n) {
      for (int r = 0; r < m; ++r) {
        for (int j = 0; j < s; ++j) rows[r * s + j] = j < n ? a[r * n + j] : T(0);
      }
      padded_transpose(m, n, rows, turned);
      accurate[i] = T(gram_svd(m, n, rows, turned, small, left, values, right, work));
      for (int d = 0; d < k; ++d) {
        sigma[d] = values[d];
        for (int r = 0; r < m; ++r) u[d * m + r] = left[d * t + r];
        for (int j = 0; j < n; ++j) v[d * n + j] = right[d * s + j];
      }
    }
  }
}

// a (m, n) -> sigma (min(m, n)).
template <class L, class T = scalar_t<L>>
void singular_values_batch(long count, int m, int n, const T* a, T* sigma) {
  const int k = m < n ? m : n;
  std::vector<L> middle(k), work(m * n);
  for (long i = 0; i < count; i += width<L>) {
    std::vector<L> x = load<L>(m * n, count - i, a + i * m * n);
    singular_values(m, n, x.data(), middle.data(), work.data());
    store(k, count - i, middle.data(), sigma + i * k);
  }
}

// ---- steps with memory -------------------------------------------------------------------------

// J (m, n) -> the smallest singular value sigma of J, and its left singular vector u (m).
template <class L, class T = scalar_t<L>>
void least_direction_batch(long count, int m, int n, const T* J, T* u, T* sigma) {
  std::vector<L> scratch(step_scratch(m, n)), x(m);
  for (long i = 0; i < count; i += width<L>) {
    const std::vector<L> a = load<L>(m * n, count - i, J + i * m * n);
    L least(0);
    singular_directions(m, n, a.data(), 1, x.data(), least, scratch.data());
    store(m, count - i, x.data(), u + i * m);
    store(1, count - i, &least, sigma + i);
  }
}

// J (m, n), e (m), u (d, m) -> u (d, m), sigma, estimate (3), dq (n) and lambda2; how (3): the
// bound, whether α is as printed, and the number d of directions.
template <class L, class T = scalar_t<L>>
void filtered_step_batch(long count, int m, int n, const T* how, const T* J, const T* e, T* u,
                         T* sigma, T* estimate, T* dq, T* lambda2) {
  const int directions = int(how[2]), size = directions * m;
  const Filter<T> filter{how[0], how[1] != 0, directions};
  std::vector<L> scratch(filter_scratch(m, n)), speeds(n);
  for (long i = 0; i < count; i += width<L>) {
    const std::vector<L> a = load<L>(m * n, count - i, J + i * m * n);
    const std::vector<L> task = load<L>(m, count - i, e + i * m);
    std::vector<L> x = load<L>(size, count - i, u + i * size);
    L least(0);
    Estimate<L> found;
    const L damping = filtered_step(filter, m, n, a.data(), task.data(), x.data(), least, found,
                                    speeds.data(), scratch.data());
    const L rest[] = {found.effective, found.across, found.alpha2};
    store(size, count - i, x.data(), u + i * size);
    store(1, count - i, &least, sigma + i);
    store(3, count - i, rest, estimate + i * 3);
    store(n, count - i, speeds.data(), dq + i * n);
    store(1, count - i, &damping, lambda2 + i);
  }
}

// J (m, n), e (m), u (2, m), sigma (2) -> u, sigma, dq (n) and lambda2; how (5): the rule and its
// parameters; direction (m + 1): a direction and the smallest weight, which is 0 for none.
template <class L, class T = scalar_t<L>>
void estimated_step_batch(long count, int m, int n, const T* how, const T* direction, const T* J,
                          const T* e, T* u, T* sigma, T* dq, T* lambda2) {
  Step<T> step{};
  step.damping = {Rule(int(how[0])), {how[1], how[2], how[3], how[4]}};
  if (direction[m] > 0) step.direction = direction, step.min_weight = direction[m];
  std::vector<L> scratch(filter_scratch(m, n)), speeds(n);
  for (long i = 0; i < count; i += width<L>) {
    const std::vector<L> a = load<L>(m * n, count - i, J + i * m * n);
    const std::vector<L> task = load<L>(m, count - i, e + i * m);
    std::vector<L> x = load<L>(2 * m, count - i, u + i * 2 * m);
    std::vector<L> values = load<L>(2, count - i, sigma + i * 2);
    Estimate<L> found;
    found.largest = values[1];
    const L damping = estimated_step(step, m, n, a.data(), task.data(), x.data(), values[0], found,
                                     speeds.data(), scratch.data());
    values[1] = found.largest;
    store(2 * m, count - i, x.data(), u + i * 2 * m);
    store(2, count - i, values.data(), sigma + i * 2);
    store(n, count - i, speeds.data(), dq + i * n);
    store(1, count - i, &damping, lambda2 + i);
  }
}

// J (m, n), e (m), bound, start -> dq (n), lambda2, holds: 1 where both are valid, and steps: the
// number of Newton iterations. If `residual`, the bound is that of the relative error.
template <class L, class M, class N, class T = scalar_t<L>>
void optimal_batch(long count, M m, N n, const T* J, const T* e, const T* bound, const T* start,
                   T* dq, T* lambda2, T* holds, T* steps, bool residual = false) {
  std::vector<L> speed(n), scratch(optimal_scratch(m, n));
  for (long i = 0; i < count; i += width<L>) {
    const long lanes = count - i;
    const std::vector<L> a = load<L>(m * n, lanes, J + i * m * n), b = load<L>(m, lanes, e + i * m);
    const L most = load<L>(1, lanes, bound + i)[0], first = load<L>(1, lanes, start + i)[0];
    L damping(0), taken(0);
    const L held =
        number<L>(residual ? residual_step(m, n, a.data(), b.data(), most, first, speed.data(),
                                           &damping, scratch.data(), &taken)
                           : optimal_step(m, n, a.data(), b.data(), most, first, speed.data(),
                                          &damping, scratch.data(), &taken));
    store(n, lanes, speed.data(), dq + i * n);
    store(1, lanes, &damping, lambda2 + i);
    store(1, lanes, &held, holds + i);
    store(1, lanes, &taken, steps + i);
  }
}

}  // namespace
}  // namespace supple

// ---- exports -----------------------------------------------------------------------------------

using namespace supple;

#define LAB_EXPORT_FUNCTION(name, lane, T, ...)                    \
  extern "C" void name##_##lane(long count, const T* in, T* out) { \
    map<__VA_ARGS__>(count, in, out, function::name{});            \
  }

#define LAB_EXPORT_MATRICES(lane, T, ...)                                                          \
  extern "C" void cholesky_##lane(long count, int n, const T* a, const T* b, T* c, T* x,           \
                                  T* full) {                                                       \
    cholesky_batch<__VA_ARGS__>(count, n, a, b, c, x, full);                                       \
  }                                                                                                \
  extern "C" void qr_##lane(long count, int m, int n, const T* a, const T* b, T* r, T* q,          \
                            T* projected, T* x, T* full) {                                         \
    qr_batch<__VA_ARGS__>(count, m, n, a, b, r, q, projected, x, full);                            \
  }                                                                                                \
  extern "C" void svd_##lane(long count, int m, int n, const T* a, T* u, T* sigma, T* v) {         \
    svd_batch<__VA_ARGS__>(count, m, n, a, u, sigma, v);                                           \
  }                                                                                                \
  extern "C" void gram_svd_##lane(long count, int m, int n, const T* small, const T* a, T* u,      \
                                  T* sigma, T* v, T* accurate) {                                   \
    gram_svd_each<T>(count, m, n, *small, a, u, sigma, v, accurate);                               \
  }                                                                                                \
  extern "C" void svd_of_six_rows_##lane(long count, int n, const T* a, T* u, T* sigma, T* v) {    \
    svd_batch<__VA_ARGS__>(count, Fixed<6>{}, n, a, u, sigma, v);                                  \
  }                                                                                                \
  extern "C" void singular_values_##lane(long count, int m, int n, const T* a, T* sigma) {         \
    singular_values_batch<__VA_ARGS__>(count, m, n, a, sigma);                                     \
  }                                                                                                \
  extern "C" void optimal_##lane(long count, int m, int n, const T* J, const T* e, const T* bound, \
                                 const T* start, T* dq, T* lambda2, T* holds, T* steps) {          \
    optimal_batch<__VA_ARGS__>(count, m, n, J, e, bound, start, dq, lambda2, holds, steps);        \
  }                                                                                                \
  extern "C" void residual_##lane(long count, int m, int n, const T* J, const T* e,                \
                                  const T* share, const T* start, T* dq, T* lambda2, T* holds,     \
                                  T* steps) {                                                      \
    optimal_batch<__VA_ARGS__>(count, m, n, J, e, share, start, dq, lambda2, holds, steps, true);  \
  }                                                                                                \
  extern "C" void optimal_of_6x7_##lane(long count, const T* J, const T* e, const T* bound,        \
                                        const T* start, T* dq, T* lambda2, T* holds, T* steps) {   \
    optimal_batch<__VA_ARGS__>(count, Fixed<6>{}, Fixed<7>{}, J, e, bound, start, dq, lambda2,     \
                               holds, steps);                                                      \
  }

#define LAB_EXPORT_STEPS(lane, T, ...)                                                           \
  extern "C" void least_direction_##lane(long count, int m, int n, const T* J, T* u, T* sigma) { \
    least_direction_batch<__VA_ARGS__>(count, m, n, J, u, sigma);                                \
  }                                                                                              \
  extern "C" void filtered_step_##lane(long count, int m, int n, const T* how, const T* J,       \
                                       const T* e, T* u, T* sigma, T* estimate, T* dq,           \
                                       T* lambda2) {                                             \
    filtered_step_batch<__VA_ARGS__>(count, m, n, how, J, e, u, sigma, estimate, dq, lambda2);   \
  }                                                                                              \
  extern "C" void estimated_step_##lane(long count, int m, int n, const T* how,                  \
                                        const T* direction, const T* J, const T* e, T* u,        \
                                        T* sigma, T* dq, T* lambda2) {                           \
    estimated_step_batch<__VA_ARGS__>(count, m, n, how, direction, J, e, u, sigma, dq, lambda2); \
  }

#define LAB_EXPORT(lane, T, ...)                                  \
  LAB_EXPORT_FUNCTION(arithmetic, lane, T, __VA_ARGS__)           \
  LAB_EXPORT_FUNCTION(fused, lane, T, __VA_ARGS__)                \
  LAB_EXPORT_FUNCTION(root, lane, T, __VA_ARGS__)                 \
  LAB_EXPORT_FUNCTION(signs, lane, T, __VA_ARGS__)                \
  LAB_EXPORT_FUNCTION(extremes, lane, T, __VA_ARGS__)             \
  LAB_EXPORT_FUNCTION(exponent, lane, T, __VA_ARGS__)             \
  LAB_EXPORT_FUNCTION(comparisons, lane, T, __VA_ARGS__)          \
  LAB_EXPORT_FUNCTION(selection, lane, T, __VA_ARGS__)            \
  LAB_EXPORT_FUNCTION(masks, lane, T, __VA_ARGS__)                \
  LAB_EXPORT_FUNCTION(finiteness, lane, T, __VA_ARGS__)           \
  LAB_EXPORT_FUNCTION(circle, lane, T, __VA_ARGS__)               \
  LAB_EXPORT_FUNCTION(angle, lane, T, __VA_ARGS__)                \
  LAB_EXPORT_FUNCTION(angle_of_unit_vector, lane, T, __VA_ARGS__) \
  LAB_EXPORT_FUNCTION(rotation_vector, lane, T, __VA_ARGS__)      \
  LAB_EXPORT_FUNCTION(rotation, lane, T, __VA_ARGS__)             \
  LAB_EXPORT_MATRICES(lane, T, __VA_ARGS__)                       \
  LAB_EXPORT_STEPS(lane, T, __VA_ARGS__)

// harness.py defines this macro, which calls LAB_EXPORT for every lane type.
LAB_LANES(LAB_EXPORT)
