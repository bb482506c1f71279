// The best step that satisfies equations inside a box, for one robot: on packs.
//
//   minimize  ‖J (x - x0)‖² + λ² ‖x - x0‖²   subject to   A x = b,  low <= x <= high
//
// Reflections Q turn the rows of A for the free entries of x into a triangle, A = L Qᵀ. In the
// turned coordinates w = Qᵀ(x - x0), the equations determine the first entries, and the cost
// determines the others: the columns of J Q for the others are the Jacobian of the robot that
// satisfies the equations. A row of A that depends on others to working precision is left out.
//
// Block pivoting finds the entries at their bounds. Where it does not end, or leaves too few free
// entries for the equations, a search that adds one bound after the other starts from the beginning
// (bound_search.hpp). Where that fails too, `constrained_step` takes over (constrained.hpp).
// Constants are explained in docs/constants.md.
#pragma once

#include "supple/limits/bound_search.hpp"
#include "supple/limits/packed_box.hpp"
#include "supple/limits/row_factor.hpp"
#include "supple/step/fast_step.hpp"

namespace supple::inline SUPPLE_ISA {

// A row of A depends on others if its part perpendicular to them is shorter than this fraction of
// the longest row. This includes rows that consist of rounding errors, such as those of a planar
// loop for motion out of its plane.
inline constexpr double dependent_row_double = 1e-9;
inline constexpr float dependent_row_float = 1e-4;
template <class T>
inline constexpr T dependent_row =
    sizeof(T) == 8 ? T(dependent_row_double) : T(dependent_row_float);
inline constexpr int equation_rounds = 12;

// Number of entries of scratch memory that `equation_step` needs.
SUPPLE_FN constexpr int equation_scratch(int m, int n, int count) {
  return (3 * m + 2 * count + 2 * n + 12) * (n + 16) + count * count + 5 * count + m + 8 * n + 48;
}

// The rows of A, for the free entries of x: A = L Qᵀ.
template <class T>
struct Triangle {
  int size, rank;   // number of free entries, number of independent rows
  T* rows;          // (count, size), padded: L, and remainders of rows that are left out
  T *mirror, *tau;  // (rank, size), padded, and (rank,): the reflections
  int* order;       // (count,): the independent rows, then the others
};

template <class T>
SUPPLE_INLINE void reflect(const Triangle<T>& t, int k, T* row) {
  const int s = padded<T>(t.size), from = k / pack_width<T> * pack_width<T>;
  const T* const v = t.mirror + k * s;
  add_scaled(from, s, T(-t.tau[k] * padded_dot(from, s, v, row)), v, row);
}

// Computes the triangle of t.rows (count, size), the longest remaining row first.
template <class T>
SUPPLE_NOINLINE void make_triangle(int count, Triangle<T>& t, T* left, T* whole) {
  const int s = padded<T>(t.size);
  for (int i = 0; i < count; ++i) {
    t.order[i] = i;
    whole[i] = left[i] = padded_dot(0, s, t.rows + i * s, t.rows + i * s);
  }
  const int most = count < t.size ? count : t.size;
  T longest(0);
  for (int i = 0; i < count; ++i) longest = max(longest, whole[i]);
  const T least = dependent_row<T> * dependent_row<T> * longest;
  for (t.rank = 0; t.rank < most; ++t.rank) {
    const int k = t.rank;
    int first = k;
    for (int i = k + 1; i < count; ++i) {
      if (left[t.order[i]] > left[t.order[first]]) first = i;
    }
    const int i = t.order[first];
    t.order[first] = t.order[k], t.order[k] = i;
    T *const row = t.rows + i * s, *const v = t.mirror + k * s;
    const int from = k / pack_width<T> * pack_width<T>;  // v is read from there on
    for (int j = from; j < s; j += pack_width<T>) store_pack<T>(load_pack(row + j), v + j);
    for (int j = from; j < k; ++j) v[j] = T(0);
    const T square = padded_dot(from, s, v, v);
    if (!(square > least)) break;
    const T size = copysign(sqrt(square), v[k]);
    t.tau[k] = T(1) / (square + abs(v[k] * size));
    v[k] += size;
    row[k] = -size;
    for (int j = k + 1; j < s; ++j) row[j] = T(0);
    reflect_rows(count - k - 1, from, s, v, t.tau[k],
                 [&](int r) { return t.rows + t.order[k + 1 + r] * s; });
    for (int r = k + 1; r < count; ++r) {
      T* const other = t.rows + t.order[r] * s;
      left[t.order[r]] -= other[k] * other[k];
      if (!(left[t.order[r]] > T(1e-8) * whole[t.order[r]])) {  // cancellation: sum up again
        T sum(0);
        for (int j = k + 1; j < t.size; ++j) sum = fma(other[j], other[j], sum);
        left[t.order[r]] = sum;
      }
    }
  }
}

// Solves L z = r for the independent rows; returns whether the other equations hold, too. z (rank)
// may be the beginning of a longer row.
template <class T>
SUPPLE_FN bool solve_triangle(int count, const Triangle<T>& t, const T* r, T tolerance, T* z) {
  const int s = padded<T>(t.size);
  bool consistent = true;
  for (int k = 0; k < count; ++k) {
    const int i = t.order[k];
    T sum = r[i];
    for (int j = 0; j < k && j < t.rank; ++j) sum = fma(-t.rows[i * s + j], z[j], sum);
    if (k < t.rank) {
      z[k] = sum / t.rows[i * s + k];
    } else {
      consistent = consistent && abs(sum) <= tolerance;
    }
  }
  return consistent;
}

// Computes w (free entries, zero in the first `rank`), the minimizer of ‖J w + c‖² + λ² ‖w‖² for
// the turned J (m, size), whose rows are `turned`. c (m) becomes J w + c. Returns false where the
// equations of the minimizer are singular to working precision.
template <class T>
SUPPLE_NOINLINE bool free_part(int m, const Triangle<T>& t, const T* turned, T lambda2, T* c, T* w,
                               T* scratch) {
  const int s = padded<T>(t.size), k = t.size - t.rank, sk = padded<T>(k);
  T *rows = scratch, *G = rows + m * sk, *lower = G + k * sk, *g = lower + k * sk, *y = g + sk;
  if (k == 0) return true;
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < k; ++j) rows[i * sk + j] = turned[i * s + t.rank + j];
    for (int j = k; j < sk; ++j) rows[i * sk + j] = T(0);
  }
  for (int j = 0; j < sk; ++j) y[j] = T(0);
  bool any = false;
  for (int i = 0; i < m; ++i) any = any || c[i] != T(0);
  if (!any) return true;
  upper_gram(m, k, rows, G);
  for (int j = 0; j < k; ++j) G[j * sk + j] += lambda2;
  const T pivot = upper_factor(k, G, lower);
  if (!(pivot > T(0))) return false;
  T before = Number<T>::huge;
  for (int round = 0; round < 4; ++round) {
    rows_times(m, k, rows, c, g);
    for (int j = 0; j < k; ++j) g[j] = -fma(lambda2, y[j], g[j]);
    for (int j = k; j < sk; ++j) g[j] = T(0);
    factor_solve(k, G, lower, 1, g);
    T moved(0), most(0);
    for (int j = 0; j < k; ++j) {
      y[j] += g[j];
      moved = max(moved, abs(g[j])), most = max(most, abs(y[j]));
    }
    for (int i = 0; i < m; ++i) c[i] += padded_dot(0, sk, rows + i * sk, g);
    if (pivot > refined_pivot<T> || moved <= T(1e-12) * most || !(moved < T(0.5) * before)) break;
    before = moved;
  }
  for (int j = 0; j < k; ++j) w[t.rank + j] = y[j];
  return true;
}

// Computes the step of `equation_step` if J has no rows, no bound is active, and the rows of A are
// far from dependent. Returns false, with x unchanged, if one of these conditions does not hold.
template <class T>
SUPPLE_NOINLINE bool shortest_step(const Equations<T>& of, T* x, T* active_set, T* scratch) {
  const int n = of.n, count = of.count, s = padded<T>(n), c = padded<T>(count);
  if (of.m > 0 || count > n) return false;
  T *rows = aligned_rows(scratch), *at = rows + count * s, *change = at + s, *r = change + s,
    *U = r + c, *turned = U + count * c;
  pad_rows(count, n, of.A, rows);
  if (!(factor_rows(count, n, static_cast<const T*>(rows), turned, U) > T(0))) return false;
  pad_rows(1, n, x, at);
  T most = Number<T>::huge;
  for (int round = 0; round < 3 && most > T(0.01) * of.tolerance; ++round) {
    row_dots(count, n, rows, at, r);
    most = T(0);
    for (int i = 0; i < count; ++i) r[i] = of.b[i] - r[i], most = max(most, abs(r[i]));
    solve_row_factor(count, static_cast<const T*>(U), r);
    rows_times(count, n, rows, r, change);
    add_scaled(0, s, T(1), change, at);
  }
  for (int j = 0; j < n; ++j) {
    const T slack = T(16) * Number<T>::epsilon * (abs(x[j]) + abs(at[j] - x[j]));
    if (!(of.low[j] < of.high[j]) || at[j] < of.low[j] - slack || at[j] > of.high[j] + slack) {
      return false;
    }
  }
  for (int j = 0; j < n; ++j) {
    x[j] = min(max(at[j], of.low[j]), of.high[j]);
    active_set[j] = T(0);
  }
  return true;
}

// Computes the step x (n), which is x0 on entry. active_set (n) is -1 or 1 for an entry at its
// lower or upper bound, else 0. Returns false, with x as it was, if block pivoting does not end, or
// if the bounds do not allow the equations.
template <class T>
SUPPLE_NOINLINE bool equation_step(const Equations<T>& of, T* x, T* active_set, T* scratch) {
  if (shortest_step(of, x, active_set, scratch)) return true;
  const int m = of.m, n = of.n, count = of.count, most = padded<T>(n);
  T *rows = aligned_rows(scratch), *mirror = rows + count * most, *turned = mirror + count * most,
    *whole = turned + m * most, *w = whole + m * most, *pull = w + most, *delta = pull + most,
    *work = delta + most, *rest = work + (m + 2 * n + 4) * most, *tau = rest, *left = tau + count,
    *length2 = left + count, *r = length2 + count, *c = r + padded<T>(count), *end = c + m;
  int* const order = reinterpret_cast<int*>(end);
  int* const index = order + count;
  T squares(0);
  for (int i = 0; i < m; ++i) {
    T* const row = whole + i * most;
    for (int j = 0; j < n; ++j) row[j] = of.J[i * n + j];
    for (int j = n; j < most; ++j) row[j] = T(0);
    squares += padded_dot(0, most, row, row);
  }
  const T lambda2 = max(of.lambda2, max(squares * T(ridge<T>), Number<T>::tiny));
  for (int j = 0; j < n; ++j) active_set[j] = of.low[j] < of.high[j] ? T(0) : T(1);
  for (int j = 0; j < most; ++j) delta[j] = T(0);
  bool searched = false;
  const auto search = [&] {  // replaces the active set by that of `find_bounds`
    const bool found = !searched && find_bounds(of, static_cast<const T*>(whole), lambda2,
                                                static_cast<const T*>(x), active_set, index, w);
    for (int j = 0; j < most; ++j) delta[j] = T(0);
    searched = true;
    return found;
  };
  for (int round = 0; round < equation_rounds; ++round) {
    int f = 0;
    bool bounded = false;
    for (int j = 0; j < n; ++j) {
      delta[j] = T(0);
      if (active_set[j] == 0) {
        index[f++] = j;
      } else {
        delta[j] = (active_set[j] < 0 ? of.low[j] : of.high[j]) - x[j];
        bounded = true;
      }
    }
    const int s = padded<T>(f);
    Triangle<T> t{f, 0, rows, mirror, tau, order};
    const auto pack = [&](const T* SUPPLE_RESTRICT from, T* SUPPLE_RESTRICT to) {
      for (int a = 0; a < f && f == n; ++a) to[a] = from[a];
      for (int a = 0; a < f && f < n; ++a) to[a] = from[index[a]];
      for (int a = f; a < s; ++a) to[a] = T(0);
    };
    pack(x, w);
    if (f == n) {
      pad_rows(count, n, of.A, rows);
    } else {
      for (int i = 0; i < count; ++i) pack(of.A + i * n, rows + i * s);
    }
    row_dots(count, f, rows, w, r);
    for (int i = 0; i < count; ++i) {
      T sum = of.b[i] - r[i];
      for (int j = 0; j < n && bounded; ++j) {
        if (active_set[j] != 0) sum = fma(-of.A[i * n + j], x[j] + delta[j], sum);
      }
      r[i] = sum;
    }
    make_triangle(count, t, left, length2);
    for (int a = 0; a < s; ++a) w[a] = T(0);
    const bool consistent = solve_triangle(count, t, r, of.tolerance, w);
    if (!consistent && bounded) {
      if (!search()) return false;
      continue;
    }
    for (int i = 0; i < m; ++i) pack(whole + i * most, turned + i * s);
    for (int k = 0; k < t.rank; ++k) {
      reflect_rows(m, k / pack_width<T> * pack_width<T>, s, mirror + k * s, tau[k],
                   [&](int i) { return turned + i * s; });
    }
    for (int i = 0; i < m; ++i) {
      c[i] = bounded ? padded_dot(0, most, whole + i * most, delta) : T(0);
      for (int k = 0; k < t.rank; ++k) c[i] = fma(turned[i * s + k], w[k], c[i]);
    }
    if (m > 0 && !free_part(m, t, turned, lambda2, c, w, work)) return false;
    for (int k = t.rank - 1; k >= 0; --k) reflect(t, k, w);
    for (int a = 0; a < f; ++a) delta[index[a]] = w[a];
    bool wrong = false;
    if (bounded) {  // the gradient of the cost, less the part that the equations balance
      rows_times(m, n, whole, c, pull);
      for (int j = 0; j < n; ++j) pull[j] = fma(lambda2, delta[j], pull[j]);
      for (int a = 0; a < s; ++a) w[a] = a < f ? pull[index[a]] : T(0);
      for (int k = 0; k < t.rank; ++k) reflect(t, k, w);
      T largest(0);
      for (int j = 0; j < n; ++j) largest = max(largest, abs(pull[j]));
      for (int k = t.rank - 1; k >= 0; --k) {  // Lᵀ ν = w
        T sum = w[k];
        for (int i = k + 1; i < t.rank; ++i) {
          sum = fma(-rows[order[i] * s + k], left[i], sum);
        }
        left[k] = sum / rows[order[k] * s + k];
      }
      for (int j = 0; j < n; ++j) {
        if (active_set[j] == 0 || !(of.low[j] < of.high[j])) continue;
        T slope = pull[j], size = abs(slope);
        for (int k = 0; k < t.rank; ++k) {
          const T part = left[k] * of.A[order[k] * n + j];
          slope -= part, size += abs(part);
        }
        if (active_set[j] * slope > T(4096) * Number<T>::epsilon * max(size, largest)) {
          active_set[j] = T(0);
          wrong = true;
        }
      }
    }
    for (int a = 0; a < f; ++a) {
      const int j = index[a];
      const T at = x[j] + delta[j],
              slack = T(16) * Number<T>::epsilon * (abs(x[j]) + abs(delta[j]));
      const T out = at < of.low[j] - slack ? T(-1) : at > of.high[j] + slack ? T(1) : T(0);
      if (out != 0) active_set[j] = out, wrong = true;
    }
    if (wrong) {
      if (round + 1 == equation_rounds && search()) round = 0;
      continue;
    }
    for (int j = 0; j < n; ++j) {
      const T at = active_set[j] < 0   ? of.low[j]
                   : active_set[j] > 0 ? of.high[j]
                                       : T(x[j] + delta[j]);
      x[j] = min(max(at, of.low[j]), of.high[j]);
    }
    return true;
  }
  return false;
}

}  // namespace supple::inline SUPPLE_ISA
