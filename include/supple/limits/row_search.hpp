// Rows of constraints, G x >= h, in the minimization of ‖J (x - x0)‖² + λ² ‖x - x0‖² inside a box.
//
// The rows are treated in their order by a parametric active-set method. x is the minimizer that
// keeps the box and all rows before row k. While gₖ x is raised to hₖ, the minimizer moves along
// line segments. On each segment a fixed set of bounds and rows is active; the segment ends where
// another bound or row becomes active, or where a multiplier becomes zero. If gₖ is a combination
// of the active normals with negative factors, gₖ x cannot increase further. The active bounds and
// rows with a nonzero factor prevent it: they are kept as equations, and gₖ x stays at its largest
// value.
#pragma once

#include "supple/math/linalg.hpp"

namespace supple {

// Rows of constraints for one step, G x >= h.
template <class T>
struct Constraints {
  int count = 0;
  const T *G = nullptr, *h = nullptr;  // (count, n), (count,)
  // (count,): result, see `RowState`; `met` before a step is computed.
  T* state = nullptr;
  T* scratch = nullptr;  // constraint_scratch(m, n, count) entries, for m = max(rows of J, n)
  int equal = 0;         // the first rows are equations, G x = h
};

// The state of a row of constraints after a step.
enum class RowState : int {
  waiting,  // not treated yet
  met,      // met without effect on the step
  held,     // at its bound, and has changed the step
  given_up  // not met: the box, the norm or rows before it do not allow more
};

}  // namespace supple

namespace supple::inline SUPPLE_ISA {

// Relative sizes below which a direction, and a factor of an active normal, count as rounding
// errors of the active-set method.
template <class T>
inline constexpr T row_noise = T(4096) * Number<T>::epsilon;
template <class T>
inline constexpr T factor_noise = T(128) * Number<T>::epsilon;

template <class T>
SUPPLE_INLINE T sum_of_products(int n, const T* a, const T* b) {
  T sum(0);
  for (int i = 0; i < n; ++i) sum = fma(a[i], b[i], sum);
  return sum;
}

// The state of the active-set method. Constraint i < n is a bound of entry i of x, constraint n + i
// is row i. Normals point into the feasible side.
template <class T>
struct RowSearch {
  int m, n, count;
  int equal;            // the first rows are equations
  const T *low, *high;  // (n,)
  T* G;                 // (count, n): rows of length 1, or 0
  T* h;                 // (count,)
  T* J;                 // (m, n), divided by its largest entry
  T *x0, *x, *side;     // (n,): step before limits, current step, active bounds (-1, 0 or 1)
  T* state;             // (count,): values of `RowState`
  T *multiplier, *rate, *locked;  // (n + count,): locked constraints stay active
  T* z;                           // (n,): direction of x
  T *index, *held;                // (n,): free entries of x, and active rows
  T *N, *tau_N;                   // (free, active): QR factors of the normals of active rows
  T* Z;                           // (left, free): orthonormal basis of directions that remain
  T *M, *tau_M;                   // (m + left, left): QR factors of [J Zᵀ; λ]
  T *b, *w;                       // (m + n,), scratch memory
  T lambda;                       // λ, in the units of J
  int free, active, left;         // numbers of free entries, active rows, remaining directions
};

// Factors the normals of the active rows, and the cost in the directions that these rows leave
// free.
template <class T>
SUPPLE_FN void factor_active(RowSearch<T>& s) {
  s.free = s.active = 0;
  for (int j = 0; j < s.n; ++j) {
    if (s.side[j] == 0) s.index[s.free++] = T(j);
  }
  for (int i = 0; i < s.count; ++i) {
    if (s.state[i] == T(int(RowState::held))) s.held[s.active++] = T(i);
  }
  const int f = s.free, a = s.active, k = s.left = f > a ? f - a : 0;
  for (int r = 0; r < f; ++r) {
    for (int c = 0; c < a; ++c) s.N[r * a + c] = s.G[int(s.held[c]) * s.n + int(s.index[r])];
  }
  if (f * a > 0) qr(f, a, s.N, s.tau_N);
  for (int c = 0; c < k; ++c) {
    T* const column = s.Z + c * f;
    for (int r = 0; r < f; ++r) column[r] = T(r == a + c ? 1 : 0);
    if (a > 0) qr_times(f, a, s.N, s.tau_N, column);
  }
  for (int c = 0; c < k; ++c) {
    for (int i = 0; i < s.m; ++i) {
      T sum(0);
      for (int r = 0; r < f; ++r) {
        sum = fma(s.J[i * s.n + int(s.index[r])], s.Z[c * f + r], sum);
      }
      s.M[i * k + c] = sum;
    }
    for (int i = 0; i < k; ++i) s.M[(s.m + i) * k + c] = i == c ? s.lambda : T(0);
  }
  if (k > 0) qr(s.m + k, k, s.M, s.tau_M);
}

// Writes the coefficients of v (n), a combination of the active normals, to s.rate. s.b is scratch
// memory.
template <class T>
SUPPLE_FN void coefficients(RowSearch<T>& s, const T* v) {
  const int f = s.free, a = s.active;
  for (int i = 0; i < s.n + s.count; ++i) s.rate[i] = T(0);
  for (int r = 0; r < f; ++r) s.b[r] = v[int(s.index[r])];
  if (f * a > 0) qr_transpose_times(f, a, s.N, s.tau_N, s.b);
  for (int c = (a < f ? a : f) - 1; c >= 0; --c) {
    T sum = s.b[c];
    for (int i = c + 1; i < a; ++i) {
      sum = fma(-s.N[c * a + i], s.rate[s.n + int(s.held[i])], sum);
    }
    const T d = s.N[c * a + c];
    s.rate[s.n + int(s.held[c])] = d != 0 ? sum / d : T(0);
  }
  for (int j = 0; j < s.n; ++j) {
    if (s.side[j] == 0) continue;
    T sum = v[j];
    for (int c = 0; c < a; ++c) {
      const int i = int(s.held[c]);
      sum = fma(-s.G[i * s.n + j], s.rate[s.n + i], sum);
    }
    s.rate[j] = -s.side[j] * sum;
  }
}

// Computes half the gradient of the cost for x - x0 = d (n).
template <class T>
SUPPLE_FN void half_gradient(const RowSearch<T>& s, const T* d, T* to) {
  for (int j = 0; j < s.n; ++j) to[j] = s.lambda * s.lambda * d[j];
  for (int i = 0; i < s.m; ++i) {
    const T along = sum_of_products(s.n, s.J + i * s.n, d);
    for (int j = 0; j < s.n; ++j) to[j] = fma(s.J[i * s.n + j], along, to[j]);
  }
}

// Computes the direction s.z in which the minimizer moves as row p is raised (g z = 1), and the
// rates of the multipliers. Returns the rate of the multiplier of row p. If x cannot move, it
// returns zero, s.z is zero, and the rates are those for a multiplier of row p that increases at
// the rate 1.
template <class T>
SUPPLE_FN T direction_of(RowSearch<T>& s, int p) {
  const int f = s.free, k = s.left;
  const T* const g = s.G + p * s.n;
  T *const c = s.w, *const gradient = s.w + s.n, size(0);
  for (int i = 0; i < k; ++i) {
    c[i] = T(0);
    for (int r = 0; r < f; ++r) c[i] = fma(s.Z[i * f + r], g[int(s.index[r])], c[i]);
    size = fma(c[i], c[i], size);
  }
  for (int j = 0; j < s.n; ++j) s.z[j] = T(0);
  if (!(sqrt(size) > row_noise<T>)) {
    for (int j = 0; j < s.n; ++j) gradient[j] = -g[j];
    coefficients(s, gradient);
    return T(0);
  }
  for (int i = 0; i < k; ++i) {  // RᵀR b = c
    T sum = c[i];
    for (int r = 0; r < i; ++r) sum = fma(-s.M[r * k + i], s.b[r], sum);
    s.b[i] = sum / s.M[i * k + i];
  }
  const T growth = T(1) / sum_of_products(k, s.b, s.b);
  for (int i = k - 1; i >= 0; --i) {
    T sum = s.b[i];
    for (int r = i + 1; r < k; ++r) sum = fma(-s.M[i * k + r], s.b[r], sum);
    s.b[i] = sum / s.M[i * k + i];
  }
  for (int r = 0; r < f; ++r) {
    T sum(0);
    for (int i = 0; i < k; ++i) sum = fma(s.Z[i * f + r], s.b[i], sum);
    s.z[int(s.index[r])] = sum * growth;
  }
  half_gradient(s, s.z, gradient);
  for (int j = 0; j < s.n; ++j) gradient[j] = fma(-growth, g[j], gradient[j]);
  coefficients(s, gradient);
  return growth;
}

// Returns by how much a row misses its bound at x (n), or zero if this is no more than the rounding
// errors of a step x that was computed from x0 (n). `noise` is the relative size of these errors.
template <class T>
SUPPLE_FN T violation(int n, const T* row, const T& bound, const T* x, const T* x0,
                      T noise = T(64) * Number<T>::epsilon) {
  T value(0), size(0), largest(0);
  for (int j = 0; j < n; ++j) {
    value = fma(row[j], x[j], value);
    size += abs(row[j]);
    largest = max(largest, max(abs(x[j]), abs(x0[j])));
  }
  const T gap = bound - value;
  return gap > noise * fma(size, largest, abs(bound)) ? gap : T(0);
}

// Returns how far x may move along s.z until constraint i becomes active, or until its multiplier
// is zero; huge if neither happens.
template <class T>
SUPPLE_FN T room_of(const RowSearch<T>& s, int i, const T& noise, const T& rate_noise) {
  constexpr T none = Number<T>::huge;
  const bool row = i >= s.n;
  const bool active =
      row ? s.state[i - s.n] == T(int(RowState::held)) : s.side[row ? 0 : i] != T(0);
  if (active) {
    const bool falls = s.locked[i] == 0 && s.rate[i] < -rate_noise;
    return falls ? max(s.multiplier[i], T(0)) / -s.rate[i] : none;
  }
  if (!row) {
    const T speed = s.z[i];
    if (abs(speed) <= noise) return none;
    return max(((speed > 0 ? s.high[i] : s.low[i]) - s.x[i]) / speed, T(0));
  }
  if (s.state[i - s.n] != T(int(RowState::met))) return none;
  const T* const g = s.G + (i - s.n) * s.n;
  const T speed = sum_of_products(s.n, g, s.z);
  if (speed >= -noise) return none;
  return max((s.h[i - s.n] - sum_of_products(s.n, g, s.x)) / speed, T(0));
}

// Adds constraint i to the active set, or removes it.
template <class T>
SUPPLE_FN void exchange(RowSearch<T>& s, int i) {
  s.multiplier[i] = T(0);
  if (i >= s.n) {
    T& state = s.state[i - s.n];
    state = T(int(state == T(int(RowState::held)) ? RowState::met : RowState::held));
  } else if (s.side[i] != 0) {
    s.side[i] = T(0);
  } else {
    s.side[i] = s.z[i] > 0 ? T(1) : T(-1);
    s.x[i] = s.z[i] > 0 ? s.high[i] : s.low[i];
  }
}

// Moves x so that row p is met as well as possible, and x remains the minimizer for the box and the
// rows before p. In the search for the shortest step, returns false where ‖x‖ would exceed `bound`.
template <class T>
SUPPLE_FN bool raise_row(RowSearch<T>& s, int p, const T& bound) {
  const int all = s.n + s.count;
  const T* const g = s.G + p * s.n;
  T& state = s.state[p];
  T multiplier(0);
  state = T(int(RowState::given_up));
  for (int round = 0; round < 20 * all + 100; ++round) {
    const T gap = violation(s.n, g, s.h[p], s.x, s.x0);
    if (round == 0 && gap == 0) {
      state = T(int(RowState::met));
      return true;
    }
    factor_active(s);
    const T growth = direction_of(s, p);
    const bool moves = growth > 0;
    // If another constraint becomes active at the same time, row p comes first: the two may be
    // linearly dependent.
    T step = moves ? gap * (1 - row_noise<T>) : Number<T>::huge, most(0);
    for (int i = 0; i < all; ++i) most = max(most, abs(s.rate[i]));
    const T noise = row_noise<T> * sqrt(sum_of_products(s.n, s.z, s.z));
    int first = -1;
    for (int i = 0; i < all; ++i) {
      const T room = room_of(s, i, noise, T(factor_noise<T> * most));
      if (room < step) step = room, first = i;
    }
    if (!moves && first < 0) {
      for (int i = 0; i < all; ++i) {
        if (abs(s.rate[i]) <= factor_noise<T> * most) continue;
        s.multiplier[i] = fma(-multiplier, s.rate[i], s.multiplier[i]);
        s.locked[i] = T(1);
      }
      if (gap == 0) state = T(int(RowState::met));
      return true;
    }
    if (first < 0) step = gap;
    if (moves) {
      const T zz = sum_of_products(s.n, s.z, s.z), xz = sum_of_products(s.n, s.x, s.z),
              room = max(bound * bound - sum_of_products(s.n, s.x, s.x), T(0));
      const bool too_long = fma(step, zz * step, T(2) * xz * step) > room;
      // Solve ‖x + t z‖ = bound for t. ‖x‖ increases along z, so that xz >= 0.
      if (too_long) step = room > 0 ? room / (max(xz, T(0)) + sqrt(fma(xz, xz, zz * room))) : T(0);
      for (int j = 0; j < s.n; ++j) {
        s.x[j] = min(max(fma(step, s.z[j], s.x[j]), s.low[j]), s.high[j]);
      }
      if (too_long) return false;
    }
    for (int i = 0; i < all; ++i) s.multiplier[i] = fma(step, s.rate[i], s.multiplier[i]);
    multiplier = fma(step, moves ? growth : T(1), multiplier);
    if (first >= 0) exchange(s, first);
    if (first < 0) {
      state = T(int(RowState::held));
      s.multiplier[s.n + p] = multiplier;
      return true;
    }
  }
  return true;
}

// Computes x again directly from the final active set, without the rounding errors of the search;
// twice, because the second time removes most errors of the first. With little damping, directions
// that the cost hardly determines have large errors themselves: if other bounds or rows would be
// missed, x remains as it is.
template <class T>
SUPPLE_FN void polish(RowSearch<T>& s) {
  factor_active(s);
  const int f = s.free, a = s.active < f ? s.active : f, k = s.left;
  T *const d = s.w, *const y = s.w + s.n, *const before = s.z;
  for (int j = 0; j < s.n; ++j) before[j] = s.x[j];
  for (int round = 0; round < 2; ++round) {
    // The shortest correction y with which the active rows hold: Nᵀ y = h - G x.
    for (int r = 0; r < f; ++r) y[r] = T(0);
    for (int c = 0; c < a; ++c) {
      const int i = int(s.held[c]);
      T sum = s.h[i] - sum_of_products(s.n, s.G + i * s.n, s.x);
      for (int r = 0; r < c; ++r) sum = fma(-s.N[r * s.active + c], y[r], sum);
      const T diagonal = s.N[c * s.active + c];
      y[c] = diagonal != 0 ? sum / diagonal : T(0);
    }
    if (a > 0) qr_times(f, s.active, s.N, s.tau_N, y);
    for (int r = 0; r < f; ++r) s.x[int(s.index[r])] += y[r];
    for (int j = 0; j < s.n; ++j) d[j] = s.x[j] - s.x0[j];
    for (int i = 0; i < s.m; ++i) s.b[i] = -sum_of_products(s.n, s.J + i * s.n, d);
    for (int c = 0; c < k; ++c) {
      T sum(0);
      for (int r = 0; r < f; ++r) sum = fma(s.Z[c * f + r], d[int(s.index[r])], sum);
      s.b[s.m + c] = -s.lambda * sum;
    }
    if (k > 0) qr_solve(s.m + k, k, s.M, s.tau_M, s.b);
    for (int r = 0; r < f; ++r) {
      T& x = s.x[int(s.index[r])];
      for (int c = 0; c < k; ++c) x = fma(s.Z[c * f + r], s.b[c], x);
    }
  }
  bool keeps = true;
  for (int j = 0; j < s.n; ++j) {
    const T noise = T(64) * Number<T>::epsilon * max(abs(s.x[j]), abs(s.x0[j]));
    keeps = keeps && s.x[j] >= s.low[j] - noise && s.x[j] <= s.high[j] + noise;
    s.x[j] = min(max(s.x[j], s.low[j]), s.high[j]);
  }
  for (int i = 0; i < s.count; ++i) {
    const bool met = s.state[i] == T(int(RowState::met));
    keeps = keeps && !(met && violation(s.n, s.G + i * s.n, s.h[i], s.x, s.x0) > 0);
  }
  for (int j = 0; j < s.n && !keeps; ++j) s.x[j] = before[j];
}

// Returns a search with memory from `rest`, and the rows divided by their lengths.
template <class T>
SUPPLE_FN RowSearch<T> row_search(int m, int n, const Constraints<T>& rows, const T* low,
                                  const T* high, T*& rest) {
  RowSearch<T> s{};
  const int count = rows.count, most = m > n ? m : n;
  const auto take = [&](int size) {
    T* const taken = rest;
    rest += size;
    return taken;
  };
  s.n = n, s.count = count, s.equal = rows.equal, s.low = low, s.high = high;
  s.G = take(count * n), s.h = take(count), s.state = take(count), s.J = take(m * n);
  s.x0 = take(n), s.x = take(n), s.side = take(n), s.z = take(n);
  s.multiplier = take(n + count), s.rate = take(n + count), s.locked = take(n + count);
  s.index = take(n), s.held = take(n), s.N = take(n * n), s.tau_N = take(n), s.Z = take(n * n);
  s.M = take((m + n) * n), s.tau_M = take(n), s.b = take(most + n), s.w = take(2 * n);
  for (int i = 0; i < count; ++i) {
    T largest(0);
    for (int j = 0; j < n; ++j) largest = max(largest, abs(rows.G[i * n + j]));
    const T first = largest > 0 ? T(1) / max(largest, T(Number<T>::tiny)) : T(0);
    T size(0);
    for (int j = 0; j < n; ++j)
      size = fma(rows.G[i * n + j] * first, rows.G[i * n + j] * first, size);
    const T second = size > 0 ? T(1) / sqrt(size) : T(1);
    for (int j = 0; j < n; ++j) s.G[i * n + j] = rows.G[i * n + j] * first * second;
    constexpr T most_h = Number<T>::huge / 4;
    const T bound = largest > 0 ? rows.h[i] * first * second : rows.h[i];
    s.h[i] = min(max(bound, -most_h), most_h);
  }
  return s;
}

// Reverses the signs of equation i if its value g x is too large, because rows can only be raised.
template <class T>
SUPPLE_FN void turn_equation(RowSearch<T>& s, int i) {
  T* const g = s.G + i * s.n;
  if (!(sum_of_products(s.n, g, s.x) > s.h[i])) return;
  for (int j = 0; j < s.n; ++j) g[j] = -g[j];
  s.h[i] = -s.h[i];
}

// Keeps an equation that holds in the active set. An equation that is a combination of those before
// it is left out.
template <class T>
SUPPLE_FN void keep_equation(RowSearch<T>& s, int i) {
  T& state = s.state[i];
  if (state == T(int(RowState::met))) {
    factor_active(s);
    if (!(direction_of(s, i) > 0)) return;
    state = T(int(RowState::held));
    s.multiplier[s.n + i] = T(0);
  }
  if (state == T(int(RowState::held))) s.locked[s.n + i] = T(1);
}

// Treats all rows, starting at s.x, the minimizer inside the box with the active bounds s.side.
// In the search for the shortest step, returns false where ‖x‖ would exceed `bound`.
template <class T>
SUPPLE_FN bool raise_rows(RowSearch<T>& s, const T& bound) {
  for (int i = 0; i < s.n + s.count; ++i) s.multiplier[i] = s.locked[i] = T(0);
  for (int j = 0; j < s.n; ++j) s.w[j] = s.x[j] - s.x0[j];
  half_gradient(s, s.w, s.w + s.n);
  for (int j = 0; j < s.n; ++j) {
    if (!(s.low[j] < s.high[j])) s.side[j] = s.locked[j] = T(1), s.x[j] = s.high[j];
    if (s.side[j] != 0) s.multiplier[j] = max(-s.side[j] * s.w[s.n + j], T(0));
  }
  bool changed = false;
  for (int i = 0; i < s.count; ++i) s.state[i] = T(int(RowState::waiting));
  for (int i = 0; i < s.count; ++i) {
    if (i < s.equal) turn_equation(s, i);
    if (!raise_row(s, i, bound)) return false;
    if (i < s.equal) keep_equation(s, i);
    changed = changed || s.state[i] != T(int(RowState::met));
  }
  if (changed) polish(s);
  return true;
}

}  // namespace supple::inline SUPPLE_ISA
