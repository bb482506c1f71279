// The step of yielding.hpp near singularities, for a robot with a floating base: the rules of
// singular_rules.hpp for its few nearly singular directions, and one linear system for all others.
//
// Let v be a right singular vector of the rows that bend, J_c, with a small singular value. For J,
// which has all rows, J v = σ u, where postures contribute to the length σ. For this direction, the
// rules determine a secant that replaces σ, as well as λ², μ² and y₁. The step x minimizes
//
//   ‖J x - e‖² + Σ (secant² - σ² + λ² + μ²) (v·x)² - 2 Σ ((secant - σ) c + μ² y₁) v·x,
//
// where c = u·e. Without rows of postures its solution is the step of singular_step.hpp.
//
// The positive part B of -r·∂²f/∂q², where r is the part of the offset beyond the reach, is added
// to JᵀJ. With J projected onto the space of held tasks, or without rows that determine all joints,
// each direction is damped on its own instead. Where postures conflict strongly with other tasks in
// a step, singular_step.hpp takes over. Constants are explained in docs/constants.md.
#pragma once

#include "supple/math/linalg/gram_svd.hpp"
#include "supple/servo/posture_step.hpp"
#include "supple/servo/row_bends.hpp"

namespace supple::inline SUPPLE_ISA {

// Largest ratio of curvature to the smallest stiffness of the system up to which this step is used.
// The curvature is that of the rows along the part of the offset that postures keep from being
// corrected.
template <class T>
inline constexpr T largest_conflict = T(10);

// Number of entries of scratch memory that `floating_step` needs.
SUPPLE_FN constexpr int floating_scratch(int m, int n) {
  return (n + 16) * (4 * m + 7 * n + 160) + 12 * (m + n + 16) + gram_svd_scratch(m, n);
}

// Computes the positive part B (n, n) of the second derivatives of -r·f by the joints that take
// part, for fixed r (m). `scratch` has room for 2 n + 4 rows. Returns false if it is not found.
template <class T>
SUPPLE_NOINLINE bool bends_of(const StepProblem<T>& of, int m, int n, const T* r, T* B,
                              T* scratch) {
  const int s = padded<T>(n);
  for (int i = 0; i < n * s; ++i) B[i] = T(0);
  const StepRows<T> rows = rows_of(of.servo, of.state);
  T* const u = of.whole;
  for (int i = 0; i < m && i < rows.count; ++i) u[i] = -r[i];
  add_bends(rows, of.joint_poses, static_cast<const T*>(u), s, B, of.sweep);
  // Only joints that turn a point take part.
  int* const joint = reinterpret_cast<int*>(of.sweep);
  int count = 0;
  for (int i = 0; i < n; ++i) {
    bool any = false;
    for (int j = 0; j < n; ++j) any = any || B[i * s + j] != 0;
    if (any && of.stopped[i] == 0) joint[count++] = i;
  }
  const int t = padded<T>(count);
  T *A = scratch, *Z = A + count * t, *d = Z + count * t, *rest = d + t;
  for (int i = 0; i < count; ++i) {
    for (int j = 0; j < t; ++j) A[i * t + j] = j < count ? B[joint[i] * s + joint[j]] : T(0);
  }
  if (!eigenvectors(count, A, Z, d, rest)) return false;
  for (int i = 0; i < n * s; ++i) B[i] = T(0);
  T* const z = rest;
  for (int k = 0; k < count; ++k) {
    if (!(d[k] > 0)) continue;
    for (int j = 0; j < s; ++j) z[j] = T(0);
    for (int j = 0; j < count; ++j) z[joint[j]] = Z[k * t + j];
    for (int i = 0; i < count; ++i) {
      add_scaled(0, s, T(d[k] * Z[k * t + i]), z, B + joint[i] * s);
    }
  }
  return true;
}

// Computes the step of.dq. Returns false if the normal equations are not regular enough. `scratch`
// has floating_scratch(m, n) entries.
template <class T>
SUPPLE_NOINLINE bool floating_step(int m, int n, const StepProblem<T>& of, T* scratch) {
  const Servo<T>& servo = of.servo;
  int curved = 0;
  for (int r = 0; r < m; ++r) curved += of.bends[r] != 0;
  if (sizeof(T) < 8 || of.avoids || of.row || curved == 0) return false;
  const int s = padded<T>(n), t = padded<T>(curved), k = curved < n ? curved : n;
  T* next = aligned_rows(scratch);
  const auto room = [&](int rows, int width) {
    T* const from = next;
    next += rows * padded<T>(width);
    return from;
  };
  T *J = room(curved, n), *turned = room(s, curved), *left = room(k, curved), *v = room(k, n),
    *sigma = room(1, k), *e = room(1, curved), *U = room(k, m), *slopes = room(k, n);
  // For each row of a posture, whose J is constant: the column of its only nonzero entry, or -1 if
  // it has none or several.
  int* const only = reinterpret_cast<int*>(room(1, m));
  int row = 0;
  for (int r = 0; r < m; ++r) {
    if (of.bends[r] == 0) {
      int entries = 0;
      for (int j = 0; j < n; ++j) {
        if (of.J[r * n + j] != 0) only[r] = j, ++entries;
      }
      if (entries != 1) only[r] = -1;
      continue;
    }
    copy_numbers(n, of.J + r * n, J + row * s);
    for (int j = n; j < s; ++j) J[row * s + j] = T(0);
    ++row;
  }
  padded_transpose(curved, n, J, turned);
  const T kappa = servo.curvature / servo.dt, near = near_sigma<T> * kappa, dt = servo.dt;
  if (!gram_svd(curved, n, J, turned, near, left, sigma, v, next)) return false;
  for (int i = 0; i < k; ++i) {  // without postures, singular_step.hpp finds v where σ = 0
    if (!(sigma[i] > T(0)) && !of.linear) return false;
  }

  const auto along_row = [&](int r, const T* d) {
    return only[r] < 0 ? dot(n, of.J + r * n, d) : of.J[r * n + only[r]] * d[only[r]];
  };
  // The directions that the rules apply to come first: J v = S u of all rows.
  int* const chosen = reinterpret_cast<int*>(room(1, k));
  bool* const is_near = reinterpret_cast<bool*>(room(1, k));
  T *S = room(1, k), *share = room(1, k), *extra = room(1, k);
  int count = 0;
  for (int i = 0; i < k; ++i) {
    is_near[i] = false;
    if (!(sigma[i] > T(0)) || !(sigma[i] < near)) continue;
    T* const u = U + count * m;
    T size(0);
    for (int r = 0, c = 0; r < m; ++r) {
      u[r] = of.bends[r] != 0 ? sigma[i] * left[i * t + c++] : along_row(r, v + i * s);
      size = fma(u[r], u[r], size);
    }
    S[count] = sqrt(size), share[count] = square(sigma[i]) / size;
    is_near[i] = S[count] < near && share[count] > T(1e-9);
    if (!is_near[i]) continue;
    for (int r = 0; r < m; ++r) u[r] /= S[count];
    chosen[count++] = i;
  }
  const auto direction = [&](int i) { return v + chosen[i] * s; };

  // The system of all rows, in which the nearly singular directions are stiff.
  const bool coupled = of.linear;
  T *gram = coupled ? room(n, n) : nullptr, *A = coupled ? room(n, n) : nullptr,
    *lower = coupled ? room(n, n) : nullptr, *inverse = room(1, n), *sides = room(1, 2 * m),
    *x = room(2, n), *change = room(2, n), *lost = room(1, m), *z = room(1, n);
  const auto pull = [&](const T* of_rows, T* to) {  // Jᵀ of_rows
    for (int j = 0; j < s; ++j) to[j] = T(0);
    for (int r = 0, c = 0; r < m; ++r) {
      if (of.bends[r] != 0) {
        e[c++] = of_rows[r];
      } else if (only[r] >= 0) {
        to[only[r]] = fma(of.J[r * n + only[r]], of_rows[r], to[only[r]]);
      } else {
        add_row(n, of_rows[r], of.J + r * n, to);
      }
    }
    rows_times(curved, n, J, e, z);
    for (int j = 0; j < n; ++j) to[j] += z[j];
  };
  const auto push = [&](const T* at, T* to) {  // J at
    rows_times(n, curved, turned, at, e);
    for (int r = 0, c = 0; r < m; ++r) {
      to[r] = of.bends[r] != 0 ? e[c++] : along_row(r, at);
    }
  };
  const auto stiffen = [&](const T* d, T by) {  // A += by d dᵀ, its upper triangle
    for (int i = 0; i < n; ++i) {
      const int from = i / pack_width<T> * pack_width<T>;
      if (d[i] != 0) add_scaled(from, s, T(by * d[i]), d, A + i * s);
    }
  };
  if (coupled) {
    upper_gram(curved, n, J, gram);
    for (int r = 0; r < m; ++r) {
      if (of.bends[r] != 0) continue;
      for (int i = only[r] < 0 ? 0 : only[r]; i < (only[r] < 0 ? n : only[r] + 1); ++i) {
        const T entry = of.J[r * n + i];
        if (entry == 0) continue;
        for (int j = i; j < n; ++j) gram[i * s + j] = fma(entry, of.J[r * n + j], gram[i * s + j]);
      }
    }
    for (int j = 0; j < n; ++j) {
      if (of.stopped[j] != 0) gram[j * s + j] = gram[0] + T(1);  // its row and column are zero
    }
  }
  T *along_o = room(1, k), *along_t = room(1, k), *c = room(1, k), *y = room(1, k), *h = room(1, k),
    *bend = room(1, k), *eased = room(1, k);
  for (int i = 0; i < count; ++i) {
    along_o[i] = dot(m, U + i * m, of.offset), along_t[i] = dot(m, U + i * m, of.rate);
  }
  for (int side = 0; side < 2; ++side) {
    const T *const from = side == 0 ? of.offset : of.rate, *along = side == 0 ? along_o : along_t;
    T* const rest = sides + side * m;
    for (int r = 0; r < m; ++r) {
      rest[r] = from[r];
      for (int i = 0; i < count; ++i) rest[r] = fma(-along[i], U[i * m + r], rest[r]);
    }
  }
  const T size[2] = {length(m, of.offset), length(m, of.rate)};
  // For both sides, x becomes the motion along the other directions: the only one if `coupled`,
  // else the shortest.
  const auto move_others = [&](const T* rest, T* to) {
    for (int j = 0; j < s; ++j) to[j] = T(0);
    for (int r = 0, i = 0; r < m; ++r) {
      if (of.bends[r] != 0) e[i++] = rest[r];
    }
    for (int i = 0; i < k; ++i) {
      if (is_near[i] || !(sigma[i] > T(0))) continue;
      add_scaled(0, s, T(dot(curved, left + i * t, e) / sigma[i]), v + i * s, to);
    }
  };
  if (coupled) {
    copy_numbers(n * s, gram, A);
    for (int i = 0; i < count; ++i) stiffen(direction(i), near * near);
    if (!(upper_factor(n, A, lower, inverse) > least_posture_pivot<T>)) return false;
    const auto pull_at = [&](int side, const T* at, T* to) {
      push(at, lost);
      for (int r = 0; r < m; ++r) lost[r] = sides[side * m + r] - lost[r];
      pull(lost, to);
      for (int i = 0; i < count; ++i) {
        const T* const d = direction(i);
        add_scaled(0, s, T(-near * near * padded_dot(0, s, d, at)), d, to);
      }
    };
    if (!refine_sides(n, A, lower, inverse, 2, size, x, change, pull_at)) return false;
  } else {
    move_others(sides, x);
    move_others(sides + m, x + s);
  }

  // The part of the offset that no motion removes, regardless of the postures.
  T *const residual = room(1, m), *const along_u = room(1, k);
  for (int r = 0, a = 0; r < m; ++r) {
    if (of.bends[r] != 0) e[a++] = of.offset[r];
  }
  for (int r = curved; r < t; ++r) e[r] = T(0);
  for (int i = 0, a = 0; i < k; ++i) {
    if (!(sigma[i] > T(0))) continue;
    const T* const u = left + i * t;
    const T along = padded_dot(0, t, u, e);
    if (is_near[i]) along_u[a++] = along;
    add_scaled(0, t, T(-along), u, e);
  }
  if (coupled) {  // what other directions miss only because of postures
    rows_times(n, curved, turned, x, change);
    T softest(0), missed(0);
    for (int j = 0; j < n; ++j) softest = max(softest, inverse[j]);
    for (int r = 0, a = 0; r < m; ++r) {
      if (of.bends[r] != 0) missed += square(sides[r] - e[a] - change[a]), ++a;
    }
    const T pulls = T(2) * kappa * sqrt(missed) * square(softest * servo.gain * dt);
    if (pulls > largest_conflict<T>) return false;
  }
  for (int i = 0; i < count; ++i) {
    T* const slope = slopes + i * s;
    gradient_of(of, m, n, U + i * m, direction(i), slope);
    for (int j = 0; j < n; ++j) slope[j] = of.stopped[j] == 0 ? slope[j] : T(0);
    h[i] = dot(n, slope, direction(i));
    // The fold according to the rows that bend alone.
    const T own = S[i] / sigma[chosen[i]] * h[i], side = along_u[i] >= 0 ? T(1) : T(-1),
            part = abs(along_u[i]) - square(sigma[chosen[i]]) / (2 * abs(own));
    if (side * own < 0 && part > 0) add_scaled(0, t, T(side * part), left + chosen[i] * t, e);
  }
  for (int r = 0, a = 0; r < m; ++r) residual[r] = of.bends[r] != 0 ? e[a++] : T(0);
  const T left_over = length(m, residual);
  T beyond(0);
  if (of.linear) {
    pull(residual, change);
    if (dot(n, change, change) < square(near * left_over)) beyond = square(servo.gain * left_over);
  }
  const T mu2 = least_mu2(servo), most_bend = T(2) * kappa * left_over;
  const bool bends = most_bend > T(1e-3) * mu2, whole_bends = bends && coupled && !of.holding;
  T* const B = room(n, n);
  if (whole_bends && !bends_of(of, m, n, static_cast<const T*>(residual), B, next)) return false;
  const auto bend_along = [&](const T* d) {
    T sum(0);
    if (whole_bends) {
      for (int j = 0; j < n; ++j) {
        if (d[j] != 0) sum = fma(d[j], padded_dot(0, s, B + j * s, d), sum);
      }
    } else if (bends) {
      bias_of(of, m, n, d, lost);
      sum = max(-dot(m, residual, lost), T(0));
    }
    return sum;
  };
  for (int i = 0; i < count; ++i) {
    const T stiff = square(S[i]);
    bend[i] = bend_along(direction(i));
    const T damping = bend[i] + share[i] * least_lambda2<T> * square(kappa);
    y[i] = S[i] * along_o[i] / (stiff + damping);
  }
  T most_share(0);  // largest share of a bend in the stiffness
  for (int i = 0; i < count; ++i)
    most_share = max(most_share, T(bend[i] / (square(S[i]) + bend[i])));
  bool eases = false;  // whether a residual damps other directions, each on its own
  for (int i = 0; i < k; ++i) {
    eased[i] = T(0);
    if (!bends || whole_bends || is_near[i] || !(sigma[i] > T(0))) continue;
    if (most_bend > T(1e-3) * square(sigma[i])) eased[i] = bend_along(v + i * s);
    eases = eases || eased[i] > 0;
    most_share = max(most_share, T(eased[i] / (square(sigma[i]) + eased[i])));
  }
  const auto eased_part = [&](int i) { return eased[i] / (square(sigma[i]) + eased[i]); };

  // One gain for the other directions, and one for each nearly singular direction.
  copy_numbers(s, x, z);
  for (int i = 0; eases && i < k; ++i) {
    const T* const d = v + i * s;
    if (eased[i] > 0) add_scaled(0, s, T(-eased_part(i) * padded_dot(0, s, d, z)), d, z);
  }
  if (whole_bends) {
    push(z, lost);
    const T bent = bend_along(z), stiff = dot(m, lost, lost);
    if (bent > 0) most_share = max(most_share, T(bent / (stiff + bent)));
  }
  const T bounded = min(servo.gain, T((1 - T(0.5) * most_share) / dt)),
          gain = braking_gain(n, of.limit, bounded, dt, z);
  T* const whole = change;
  for (int j = 0; j < n; ++j) whole[j] = fma(gain, z[j], x[s + j]);
  for (int j = n; j < s; ++j) whole[j] = T(0);
  for (int i = 0; i < count; ++i) {
    const T* const d = direction(i);
    for (int j = 0; j < n; ++j) z[j] = y[i] * d[j];
    const T own = braking_gain(n, of.limit, gain, dt, z);
    c[i] = fma(own, along_o[i], along_t[i]);
    const T damping = bend[i] + share[i] * (least_lambda2<T> * square(kappa) + mu2);
    y[i] = S[i] * c[i] / (square(S[i]) + damping);
    add_scaled(0, s, y[i], d, whole);
  }
  const T commanded = length(m, of.rate), corrected = servo.gain * length(m, of.offset),
          lasting = commanded > 0 ? persistence<T> * commanded / (commanded + corrected) : T(0);
  T *wanted = room(1, k), *secant = room(1, k);
  ServoState<T>& state = of.state;
  for (int i = 0; i < count; ++i) {
    const T *const d = direction(i), *const slope = slopes + i * s;
    const T rate = dot(n, slope, whole) - y[i] * h[i], decline = dot(m, U + i * m, of.slope);
    Direction<T> at{d,          slope,   S[i], share[i], c[i],   along_o[i],
                    along_t[i], bend[i], h[i], rate,     decline};
    decide(of, n, lasting, at);
    secant[i] = at.secant;
    bend[i] = at.lambda2, h[i] = at.crossing, share[i] = at.mu2;
    wanted[i] = at.mu2 * at.expected;
    extra[i] = max(T(square(secant[i]) - square(S[i])), T(-square(sigma[chosen[i]]))) + at.lambda2 +
               at.mu2 - (whole_bends ? bend_along(d) : T(0));
    state.chosen_lambda2 = max(state.chosen_lambda2, at.lambda2);
  }

  // The step.
  T *best = room(1, n), *asked = room(1, m);
  for (int r = 0; r < m; ++r) asked[r] = fma(gain, sides[r], sides[m + r]);
  if (coupled) {
    for (int r = 0; r < m; ++r) {
      for (int i = 0; i < count; ++i) asked[r] = fma(c[i], U[i * m + r], asked[r]);
    }
    copy_numbers(n * s, gram, A);
    for (int i = 0; i < count; ++i) stiffen(direction(i), extra[i]);
    for (int i = 0; eases && i < k; ++i) {
      if (eased[i] > 0) stiffen(v + i * s, eased[i]);
    }
    for (int i = 0; whole_bends && i < n; ++i) {
      add_scaled(i / pack_width<T> * pack_width<T>, s, T(1), B + i * s, A + i * s);
    }
    if (!(upper_factor(n, A, lower, inverse) > least_posture_pivot<T>)) return false;
    const T asks[2] = {length(m, asked), T(0)};
    T* const solved = room(2, n);
    const auto pull_at = [&](int, const T* at, T* to) {
      push(at, lost);
      for (int r = 0; r < m; ++r) lost[r] = asked[r] - lost[r];
      pull(lost, to);
      for (int i = 0; i < count; ++i) {
        const T* const d = direction(i);
        const T own = fma(secant[i] - S[i], c[i], wanted[i]);
        add_scaled(0, s, T(own - extra[i] * padded_dot(0, s, d, at)), d, to);
      }
      for (int i = 0; eases && i < k; ++i) {
        const T* const d = v + i * s;
        if (eased[i] > 0) add_scaled(0, s, T(-eased[i] * padded_dot(0, s, d, at)), d, to);
      }
      if (whole_bends) {
        rows_times(n, n, B, at, z);
        add_scaled(0, s, T(-1), z, to);
      }
    };
    if (!refine_sides(n, A, lower, inverse, 1, asks, solved, change, pull_at)) return false;
    copy_numbers(s, solved, best);
    for (int i = 0; i < count; ++i) y[i] = padded_dot(0, s, direction(i), best);
  } else {
    for (int j = 0; j < s; ++j) best[j] = j < n ? fma(gain, x[j], x[s + j]) : T(0);
    for (int i = 0; eases && i < k; ++i) {
      const T* const d = v + i * s;
      if (eased[i] > 0) add_scaled(0, s, T(-eased_part(i) * padded_dot(0, s, d, best)), d, best);
    }
    for (int i = 0; i < count; ++i) {
      y[i] = fma(secant[i], c[i], wanted[i]) / (square(secant[i]) + bend[i] + share[i]);
      add_scaled(0, s, y[i], direction(i), best);
    }
  }

  // The lost part of the command, and the problem to solve within limits.
  for (int j = 0; j < s; ++j) z[j] = j < n ? fma(gain, x[j], x[s + j]) - best[j] : T(0);
  for (int i = 0; i < count; ++i) add_scaled(0, s, y[i], direction(i), z);
  push(z, lost);
  if (bends) beyond += dot(m, lost, lost);
  for (int i = 0; i < count; ++i) {
    const T missed = fma(-secant[i], y[i], c[i]);
    for (int r = 0; r < m; ++r) lost[r] = fma(missed, U[i * m + r], lost[r]);
    if (bend[i] > h[i]) beyond += square(missed);
  }
  for (int i = 0; i < k; ++i) {
    state.chosen_lambda2 = max(state.chosen_lambda2, eased[i]);
    if (sigma[i] > T(0)) continue;  // no motion along u
    T missed(0);
    for (int r = 0, a = 0; r < m; ++r) {
      if (of.bends[r] != 0) missed = fma(left[i * t + a++], asked[r], missed);
    }
    beyond += square(missed);
  }
  for (int r = 0; r < m; ++r) of.lost[r] = lost[r];
  for (int j = 0; j < n; ++j) of.dq[j] = best[j];
  copy_numbers(m * n, of.J, of.used_J);
  const auto add_stiffness = [&](int i, T by) {
    const T more = sqrt(square(sigma[i]) + by) - sigma[i];
    for (int r = 0, a = 0; r < m; ++r) {
      if (of.bends[r] != 0) add_row(n, T(more * left[i * t + a++]), v + i * s, of.used_J + r * n);
    }
  };
  for (int i = 0; i < count; ++i) add_stiffness(chosen[i], extra[i]);
  for (int i = 0; eases && i < k; ++i) {
    if (eased[i] > 0) add_stiffness(i, eased[i]);
  }
  // Rows of a posture are stiffer by the diagonal of B.
  for (int r = 0; whole_bends && r < m; ++r) {
    if (of.bends[r] != 0 || only[r] < 0) continue;
    T &entry = of.used_J[r * n + only[r]], &more = B[only[r] * (s + 1)];
    entry = copysign(sqrt(fma(entry, entry, more)), entry);
    more = T(0);
  }
  for (int r = 0; r < m; ++r) of.used_e[r] = dot(n, of.used_J + r * n, best);
  state.beyond = sqrt(fma(state.beyond, state.beyond, beyond));
  return true;
}

}  // namespace supple::inline SUPPLE_ISA
