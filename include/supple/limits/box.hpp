// The best step inside a box (bounds on each joint velocity) and within a bound on its norm.
//
// A step x0 that would leave the box low <= x <= high is replaced by the minimizer of
//   ‖J (x - x0)‖² + λ² ‖x - x0‖²   inside the box.
// If x0 is the damped step, the minimizer of ‖J x - e‖² + λ²‖x‖², this objective and the first one
// differ by a constant. The result is then the exact minimizer of the damped problem inside the
// box, which clipping x0 would not give. Tuned constants are explained in docs/constants.md.
#pragma once

#include "supple/math/lane.hpp"
#include "supple/math/linalg.hpp"
#include "supple/step/optimal.hpp"

namespace supple::inline SUPPLE_ISA {

// The smallest relative pivot of J_F J_Fᵀ + λ² for which its Cholesky factor is used instead of QR.
// J_F holds the columns of J for the entries of x that are not at a bound.
template <class T>
inline constexpr T well_conditioned = sizeof(T) == 8 ? T(1e-4) : T(1e-2);
// The smallest λ² that is used, relative to ‖J‖²: without damping, the minimizer may not be unique.
template <class T>
inline constexpr T ridge = sizeof(T) == 8 ? T(1e-12) : T(1e-5);

// Computes d = x - x0 (n), the minimizer of ‖J d‖² + λ²‖d‖² over the free entries F. The entries A
// marked in `active_set` (n) are at the lower (-1) or upper (1) end of the box. `multiplier` (n) is
// half the gradient at d, possibly divided by λ²; it is zero for free entries and where it does not
// exceed its rounding error.
template <class L>
SUPPLE_NOINLINE_DEVICE void solve_free_set(int m, int n, const L* J, const L& lambda2, const L* low,
                                           const L* high, const L* x0, const L* active_set, L* d,
                                           L* multiplier, L* scratch) {
  using T = scalar_t<L>;
  L *A = scratch, *z = A + m * m, *right = z + m, *stacked = right + m, *b = stacked + (m + n) * n,
    *tau = b + m + n;
  L* const freed = stacked;  // J_F: the columns of the active entries are zero
  for (int j = 0; j < n; ++j) {
    const mask_t<L> is_free = active_set[j] == L(0);
    d[j] = select(is_free, L(0), select(active_set[j] < L(0), low[j], high[j]) - x0[j]);
    for (int i = 0; i < m; ++i) freed[i * n + j] = select(is_free, J[i * n + j], L(0));
  }
  // (J_F J_Fᵀ + λ²) z = -J_A d_A,  d_F = J_Fᵀ z
  gram(m, n, freed, A);
  for (int i = 0; i < m; ++i) {
    right[i] = z[i] = -dot(n, J + i * n, d);
    A[i * m + i] = b[i] = A[i * m + i] + lambda2;
  }
  cholesky(m, A);
  cholesky_solve(m, A, z);
  mask_t<L> valid = L(0) == L(0);
  for (int i = 0; i < m; ++i) {
    valid = valid & (A[i * m + i] * A[i * m + i] > b[i] * L(well_conditioned<T>));
  }
  L scale(1), reach = sqrt(dot(m, z, z));
  if (!all(valid)) {
    // If too few entries are free, or at a singularity, solve [J_F; λ] d_F = [-J_A d_A; 0] by QR.
    const L lambda = sqrt(lambda2);
    L square(0);
    for (int i = 0; i < m; ++i) {
      square = fma(right[i], right[i], square);
      b[i] = right[i];
    }
    for (int i = 0; i < n; ++i) {
      for (int j = 0; j < n; ++j) stacked[(m + i) * n + j] = i == j ? lambda : L(0);
      b[m + i] = L(0);
    }
    qr(m + n, n, stacked, tau);
    qr_solve(m + n, n, stacked, tau, b);
    // With QR, z is the residual of the task, which is λ² times the z of Cholesky. z is not divided
    // by λ², which may be zero; instead the multipliers contain the factor λ², as `scale`.
    for (int i = 0; i < m; ++i) {
      L rest = right[i];
      for (int j = 0; j < n; ++j) {
        rest = fma(select(active_set[j] == L(0), -J[i * n + j], L(0)), b[j], rest);
      }
      z[i] = select(valid, z[i], rest);
    }
    scale = select(valid, scale, lambda2);
    reach = select(valid, reach, sqrt(square));
  }
  for (int j = 0; j < n; ++j) {
    L along(0), column(0);
    for (int i = 0; i < m; ++i) {
      along = fma(J[i * n + j], z[i], along);
      column = fma(J[i * n + j], J[i * n + j], column);
    }
    const mask_t<L> is_free = active_set[j] == L(0);
    d[j] = select(is_free, select(valid, along, b[j]), d[j]);
    const L gradient = fma(scale, d[j], -along);
    const L noise = L(T(64) * Number<T>::epsilon) * (scale * abs(d[j]) + sqrt(column) * reach);
    multiplier[j] = select(is_free | (abs(gradient) <= noise), L(0), gradient);
  }
}

// Number of rounds of block pivoting in `boxed_step`. Each round moves all entries that violate
// their optimality conditions between the free and the active set.
inline constexpr int block_rounds = 6;

// Number of lanes of scratch memory that `boxed_step` needs.
SUPPLE_FN constexpr int boxed_scratch(int m, int n) {
  return m * m + 2 * m + (m + n) * (n + 1) + n + 3 * n;
}

// Searches for the step inside a box. x (n) is x0 on entry and the step on return. `active_set` (n)
// is -1 for entries at their lower bound, 0 for free entries and 1 for entries at their upper
// bound; if `guessed`, its values on entry are the initial guess. Returns the damping applied: the
// larger one of λ² and least(), because the minimizer may not be unique with less damping.
// `scratch` has 3 n entries.
//
// solve(damping, x0, active_set, d, multiplier) does what `solve_free_set` does. Before each round
// of block pivoting, guess(round, damping, x0, open, active_set) may replace the active set of the
// lanes that are open, and returns those that go on.
//
// Block pivoting comes first: solve for the free entries, then move all entries that violate their
// optimality conditions between the free and the active set. A few rounds nearly always suffice
// (Júdice & Pires 1994). Otherwise an active-set method follows, whose objective decreases in every
// round: move toward the minimizer over the free entries as far as the box allows, and release one
// entry at a time (Stark & Parker 1995).
template <class L, class Least, class Guess, class Solve>
SUPPLE_INLINE L search_box(int n, const L& lambda2, const L* low, const L* high, L* x,
                           L* active_set, L* scratch, bool guessed, Least&& least, Guess&& guess,
                           Solve&& solve) {
  using T = scalar_t<L>;
  mask_t<L> open = L(0) != L(0);
  for (int j = 0; j < n; ++j) {
    const L out = select(x[j] < low[j], L(-1), select(x[j] > high[j], L(1), L(0)));
    active_set[j] = guessed ? select(out == L(0), L(0), active_set[j]) : out;
    open = open | (out != L(0));
  }
  if (!any(open)) return lambda2;
  L *d = scratch, *multiplier = d + n, *x0 = multiplier + n;
  const L applied_lambda2 = select(open, max(lambda2, least()), lambda2);
  for (int j = 0; j < n; ++j) x0[j] = x[j];
  // Returns -1 or 1 for a free entry below or above the box, else 0.
  const auto violated_end = [&](int j) {
    const L at = x0[j] + d[j], slack = L(T(8) * Number<T>::epsilon) * (abs(x0[j]) + abs(d[j]));
    const L end = select(at < low[j] - slack, L(-1), select(at > high[j] + slack, L(1), L(0)));
    return select(active_set[j] == L(0), end, L(0));
  };
  const auto is_released = [&](int j) {
    return (low[j] < high[j]) & (active_set[j] * multiplier[j] > L(0));
  };

  for (int round = 0; round < block_rounds; ++round) {
    open = guess(round, applied_lambda2, x0, open, active_set);
    solve(applied_lambda2, x0, active_set, d, multiplier);
    mask_t<L> wrong = L(0) != L(0);
    for (int j = 0; j < n; ++j) {
      const L end = violated_end(j);
      const mask_t<L> exchanged = open & (is_released(j) | (end != L(0)));
      const L at =
          select(active_set[j] < L(0), low[j], select(active_set[j] > L(0), high[j], x0[j] + d[j]));
      x[j] = select(open, min(max(at, low[j]), high[j]), x[j]);
      active_set[j] = select(exchanged, end, active_set[j]);
      wrong = wrong | exchanged;
    }
    open = open & wrong;
    if (!any(open)) return applied_lambda2;
  }

  for (int j = 0; j < n; ++j) {  // the active-set method starts from x, a point of the box
    const L end = select(x[j] <= low[j], L(-1), select(x[j] >= high[j], L(1), L(0)));
    active_set[j] = select(open, end, active_set[j]);
  }
  for (int round = 0; round < 10 * n + 40 && any(open); ++round) {
    solve(applied_lambda2, x0, active_set, d, multiplier);
    L part(1), first(-1), strongest(0), leaving(-1);
    for (int j = 0; j < n; ++j) {
      const L end = violated_end(j), number(static_cast<T>(j));
      const L to = select(end < L(0), low[j], high[j]), way = x0[j] + d[j] - x[j];
      const mask_t<L> stops = end != L(0);
      const L share = max((to - x[j]) / select(stops, way, L(1)), L(0));
      first = select(stops & (share < part), number, first);
      part = select(stops, min(part, share), part);
      const mask_t<L> stronger = is_released(j) & (abs(multiplier[j]) > strongest);
      leaving = select(stronger, number, leaving);
      strongest = select(stronger, abs(multiplier[j]), strongest);
    }
    const mask_t<L> whole_way = first < L(0);
    for (int j = 0; j < n; ++j) {
      const mask_t<L> is_free = active_set[j] == L(0), met = first == L(static_cast<T>(j));
      const L end = violated_end(j), to = select(end < L(0), low[j], high[j]);
      const L at = select(whole_way, x0[j] + d[j], fma(part, x0[j] + d[j] - x[j], x[j]));
      const L inside = select(met, to, min(max(at, low[j]), high[j]));
      x[j] = select(open & is_free, inside, x[j]);
      const mask_t<L> freed = whole_way & (leaving == L(static_cast<T>(j)));
      active_set[j] =
          select(open, select(met, end, select(freed, L(0), active_set[j])), active_set[j]);
    }
    open = open & !(whole_way & (leaving < L(0)));
  }
  return applied_lambda2;
}

// Computes the step inside a box by `search_box`.
template <class L>
SUPPLE_NOINLINE_DEVICE L boxed_step(int m, int n, const L* J, const L& lambda2, const L* low,
                                    const L* high, L* x, L* active_set, L* scratch,
                                    bool guessed = false) {
  using T = scalar_t<L>;
  L* const rest = scratch + 3 * n;
  return search_box(
      n, lambda2, low, high, x, active_set, scratch, guessed,
      [&] {
        L square(0);
        for (int i = 0; i < m * n; ++i) square = fma(J[i], J[i], square);
        return max(square * L(ridge<T>), L(Number<T>::tiny));
      },
      [](int, const L&, const L*, const mask_t<L>& open, L*) { return open; },
      [&](const L& damping, const L* x0, const L* active, L* d, L* multiplier) {
        solve_free_set(m, n, J, damping, low, high, x0, active, d, multiplier, rest);
      });
}

// Computes x, the minimizer of ‖J (x - x0)‖² + λ² ‖x - x0‖² + δ² ‖x‖², which is the step x0 with
// the additional damping δ². `A` (m x m) and `z` (m) are scratch memory.
template <class L>
SUPPLE_FN void increase_damping(int m, int n, const L* J, const L& lambda2, const L& delta2,
                                const L* x0, L* x, L* A, L* z) {
  const L both = lambda2 + delta2;
  for (int i = 0; i < m; ++i) {
    for (int k = 0; k <= i; ++k) A[i * m + k] = dot(n, J + i * n, J + k * n);
    A[i * m + i] = A[i * m + i] + both;
    z[i] = dot(n, J + i * n, x0);
  }
  cholesky(m, A);
  cholesky_solve(m, A, z);
  const L share = select(both > L(0), delta2 / select(both > L(0), both, L(1)), L(0));
  for (int j = 0; j < n; ++j) {
    L kept = x0[j];
    for (int i = 0; i < m; ++i) kept = fma(-J[i * n + j], z[i], kept);
    x[j] = fma(-share, kept, x0[j]);
  }
}

// Number of lanes of scratch memory that `shortened_step` needs.
SUPPLE_FN constexpr int shortening_scratch(int m, int n) { return m * m + m + n; }

// Shortens a step to ‖x‖ <= `bound`, by as much additional damping δ² as the bound requires: ‖x‖
// decreases as δ² grows. The root of ‖x‖ = bound is bracketed, and the result is at the end of the
// bracket where ‖x‖ <= bound, and ‖x‖ >= (1 - room) bound unless that is impossible.
//
// solve(λ², x, active_set, guessed) replaces x, a step before limits, by the best step for it, and
// returns the damping applied. On entry, x (n) is the best step for x0 (n), `active_set` its active
// set and `applied_lambda2` its damping; `best` (n) is the step in the limit of infinite damping,
// which is the result if even this step exceeds the bound. Returns the damping applied.
template <class L, class T, class Solve>
SUPPLE_FN L shortened_step(int m, int n, const L* J, const L& lambda2, const L& bound, T room,
                           const L* x0, L* x, L* best, L* active_set, L applied_lambda2, L* scratch,
                           const Solve& solve) {
  L *A = scratch, *z = A + m * m, *trial_set = z + m;
  L size = sqrt(dot(n, x, x));
  mask_t<L> open = size > bound;
  for (int j = 0; j < n; ++j) trial_set[j] = active_set[j];
  L unit = max(lambda2, L(Number<T>::tiny));
  for (int i = 0; i < m * n; ++i) unit = fma(J[i], J[i], unit);
  // Values of δ²: `below` is too small, `above` is large enough (`huge` until such a value is
  // found), and `last` is the previous trial.
  L below(0), above = L(Number<T>::huge), last(0), at_last = bound / size;
  L delta2 = min(L(T(0.1)), (size / select(open, bound, L(1)) - L(1))) * unit * L(T(0.1));
  mask_t<L> found = !open;
  for (int j = 0; j < n; ++j) best[j] = select(open, best[j], x[j]);
  open = open & (dot(n, best, best) < bound * bound);
  for (int round = 0; round < 80 && any(open); ++round) {
    increase_damping(m, n, J, lambda2, delta2, x0, x, A, z);
    const L tried = solve(L(lambda2 + delta2), x, trial_set, true);
    size = sqrt(dot(n, x, x));
    const mask_t<L> enough = open & (size <= bound);
    applied_lambda2 = select(enough, tried, applied_lambda2);
    for (int j = 0; j < n; ++j) {
      best[j] = select(enough, x[j], best[j]);
      active_set[j] = select(enough, trial_set[j], active_set[j]);
    }
    found = found | enough;
    above = select(enough, delta2, above);
    below = select(open & !enough, delta2, below);
    open = open & !(enough & (size >= bound * L(T(1) - room)));
    open = open & !(found & (above - below <= L(T(4) * Number<T>::epsilon) * above));
    // bound/‖x‖ is nearly linear in δ²: extrapolate to slightly more damping than the bound needs.
    // If the result is outside the bracket, and in every eighth round, bisect instead.
    const L ratio = bound / select(size > L(0), size, L(1)), rise = ratio - at_last;
    const L to = fma((L(T(1) + T(0.5) * room) - ratio) / select(rise != L(0), rise, L(1)),
                     delta2 - last, delta2);
    const mask_t<L> ahead = (rise != L(0)) & (to > below) & (to < above);
    const L half = select(found, L(T(0.5)) * (below + above), delta2 * L(T(8)));
    last = delta2;
    at_last = ratio;
    delta2 = select(ahead & (L(T(round % 8)) < L(T(7))), to, half);
  }
  for (int j = 0; j < n; ++j) x[j] = best[j];
  return applied_lambda2;
}

// Number of lanes of scratch memory that `limited_step` needs.
SUPPLE_FN constexpr int limited_scratch(int m, int n) {
  return boxed_scratch(m, n) + shortening_scratch(m, n) + 2 * n;
}

// Computes the step inside a box with ‖x‖ <= `bound`: `boxed_step`, shortened if necessary. If no
// point of the box is within the bound, the box has precedence. Returns the damping applied.
template <class L>
SUPPLE_NOINLINE_DEVICE L limited_step(int m, int n, const L* J, const L& lambda2, const L* low,
                                      const L* high, const L& bound, L* x, L* active_set,
                                      L* scratch) {
  using T = scalar_t<L>;
  L *x0 = scratch, *best = x0 + n, *more = best + n, *rest = more + shortening_scratch(m, n);
  for (int j = 0; j < n; ++j) x0[j] = x[j];
  const L applied = boxed_step(m, n, J, lambda2, low, high, x, active_set, rest);
  if (!any(sqrt(dot(n, x, x)) > bound)) return applied;
  for (int j = 0; j < n; ++j) best[j] = min(max(L(0), low[j]), high[j]);
  const T room = T(1e6) * Number<T>::epsilon * (sizeof(T) == 8 ? T(1) : T(1e-4));
  return shortened_step(m, n, J, lambda2, bound, room, x0, x, best, active_set, applied, more,
                        [&](const L& damping, L* step, L* set, bool guessed) {
                          return boxed_step(m, n, J, damping, low, high, step, set, rest, guessed);
                        });
}

// Number of lanes of scratch memory that `bounded_step` needs.
SUPPLE_FN constexpr int bounded_scratch(int m, int n) {
  return m * n + m * m + 3 * m + n + optimal_scratch(m, n);
}

// Computes the minimizer x of ‖J x - e‖² + λ²‖x‖² inside a box with ‖x‖ <= `bound`. This is faster
// than `limited_step`, but valid only where a few rounds of block pivoting suffice. In each round
// the free entries get the smallest damping, at least λ², for which ‖x‖ <= `bound`. `active_set` is
// the initial guess on entry and the result on return; `applied_lambda2` receives the damping.
// Returns the lanes where x is valid.
template <class L, class M, class N>
SUPPLE_NOINLINE_DEVICE mask_t<L> bounded_step(M m, N n, const L* J, const L* e, const L& lambda2,
                                              const L* low, const L* high, const L& bound, L* x,
                                              L* active_set, L* applied_lambda2, L* scratch) {
  using T = scalar_t<L>;
  L *freed = scratch, *A = freed + m * n, *left = A + m * m, *z = left + m, *diagonal = z + m,
    *y = diagonal + m, *rest = y + n;
  const mask_t<L> no = L(0) != L(0);
  mask_t<L> right = no, open = L(0) == L(0);
  *applied_lambda2 = lambda2;
  if (int(m) > int(n)) return no;
  for (int round = 0; round < block_rounds && any(open); ++round) {
    L room = bound * bound;
    for (int j = 0; j < n; ++j) {
      const mask_t<L> is_free = active_set[j] == L(0);
      const L end = select(active_set[j] < L(0), low[j], high[j]);
      x[j] = select(open, select(is_free, L(0), end), x[j]);
      room = select(is_free, room, fma(-end, end, room));
      for (int i = 0; i < m; ++i) freed[i * n + j] = select(is_free, J[i * n + j], L(0));
    }
    open = open & (room > L(0));
    for (int i = 0; i < m; ++i) {
      L sum = e[i];
      for (int j = 0; j < n; ++j) {
        sum = fma(select(active_set[j] == L(0), L(0), -J[i * n + j]), x[j], sum);
      }
      left[i] = sum;
    }
    // `optimal_step` divides by the bound, so an infinite bound is replaced by a finite one that no
    // step reaches.
    const L most = select(room > L(0), min(sqrt(select(room > L(0), room, L(1))), L(T(1e9))), L(1));
    L damping(0);
    const mask_t<L> holds =
        optimal_step_any_size(m, n, freed, left, most, *applied_lambda2, y, &damping, rest);
    const mask_t<L> less = damping < lambda2;
    if (any(less & open)) {  // the bound is not active: λ² applies
      gram(m, n, freed, A);
      for (int i = 0; i < m; ++i) A[i * m + i] = A[i * m + i] + lambda2, z[i] = left[i];
      for (int i = 0; i < m; ++i) diagonal[i] = A[i * m + i];
      cholesky(m, A);
      for (int i = 0; i < m; ++i) {
        const mask_t<L> valid = A[i * m + i] * A[i * m + i] > diagonal[i] * L(well_conditioned<T>);
        open = open & (valid | !less);
      }
      cholesky_solve(m, A, z);
      for (int j = 0; j < n; ++j) {
        L sum(0);
        for (int i = 0; i < m; ++i) sum = fma(freed[i * n + j], z[i], sum);
        y[j] = select(less, sum, y[j]);
      }
      damping = select(less, lambda2, damping);
    }
    open = open & holds;
    *applied_lambda2 = select(open, damping, *applied_lambda2);
    for (int i = 0; i < m; ++i) {
      for (int j = 0; j < n; ++j) left[i] = fma(-freed[i * n + j], y[j], left[i]);
    }
    mask_t<L> wrong = no;
    for (int j = 0; j < n; ++j) {
      const mask_t<L> is_free = active_set[j] == L(0);
      x[j] = select(open & is_free, y[j], x[j]);
      L gradient = damping * x[j];
      for (int i = 0; i < m; ++i) gradient = fma(-J[i * n + j], left[i], gradient);
      const L slack = L(T(8) * Number<T>::epsilon) * abs(x[j]);
      const L out =
          select(x[j] < low[j] - slack, L(-1), select(x[j] > high[j] + slack, L(1), L(0)));
      const mask_t<L> go =
          (active_set[j] != L(0)) & (low[j] < high[j]) & (active_set[j] * gradient > L(0));
      const mask_t<L> exchanged = open & (go | (is_free & (out != L(0))));
      active_set[j] = select(exchanged, select(is_free, out, L(0)), active_set[j]);
      wrong = wrong | exchanged;
    }
    right = right | (open & !wrong);
    open = open & wrong;
  }
  for (int j = 0; j < n; ++j) x[j] = select(right, min(max(x[j], low[j]), high[j]), x[j]);
  return right;
}

}  // namespace supple::inline SUPPLE_ISA
