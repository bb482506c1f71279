// The active set of the best step inside a box, found by a dual method: minimize
//   (x - x0)ᵀ H (x - x0)   inside low <= x <= high, given the inverse of H.
//
// The search starts at x0, the minimum without the box. The entry that is farthest outside gets a
// force that pushes it to its end of the box; a bound whose force would change its sign is released
// on the way (Goldfarb & Idnani 1983). The cost grows in every round, so that no active set occurs
// twice. Each round changes one entry, by a sweep of a tableau, which takes n² operations instead
// of a factorization (Beaton 1964). Rounding errors may grow with each sweep: the result is only an
// initial guess for another method.
//
// Lanes change different entries. The index of an entry is therefore a lane, too; -1 stands for no
// entry. Tuned constants are explained in docs/constants.md.
#pragma once

#include "supple/math/lane.hpp"

namespace supple::inline SUPPLE_ISA {

// Largest number of rounds per entry. The search ends long before.
inline constexpr int dual_rounds = 4;
// The distance by which an entry may be outside the box, relative to its own size and its change:
// an upper bound on the rounding errors of the tableau.
inline constexpr double dual_slack = 1e-10;
// The lower triangle of the tableau consists of square tiles of this size. A tile is read before
// it is written: on a GPU, many reads are then in flight at the same time.
inline constexpr int tile_size = 4;

SUPPLE_FN constexpr int tiles(int n) { return (n + tile_size - 1) / tile_size; }
// The place of the tile in row i and column j <= i of tiles.
SUPPLE_FN constexpr int tile_place(int i, int j) {
  return tile_size * tile_size * (i * (i + 1) / 2 + j);
}
// The place of row i and column j <= i of the tableau.
SUPPLE_FN constexpr int in_tableau(int i, int j) {
  return tile_place(i / tile_size, j / tile_size) + i % tile_size * tile_size + j % tile_size;
}
// Number of entries of `table`, which has the tableau in its first `tableau_size` entries.
SUPPLE_FN constexpr int tableau_size(int n) { return tile_place(tiles(n), 0); }
SUPPLE_FN constexpr int dual_table(int n) { return tableau_size(n) + 4 * tile_size * tiles(n); }

#define SUPPLE_TILE(i) SUPPLE_UNROLL SUPPLE_UNROLL_HOST for (int i = 0; i < tile_size; ++i)

// Returns, in each lane, the entry of x (n) whose index is `number` in that lane, or zero where the
// index is -1.
template <class L>
SUPPLE_INLINE L entry_of(int n, const L* x, const L& number) {
  using T = scalar_t<L>;
  L found(0);
  if constexpr (width<L> == 1) {
    if (number >= L(0)) found = x[static_cast<int>(number)];
  } else {
    for (int j = 0; j < n; ++j) found = select(number == L(static_cast<T>(j)), x[j], found);
  }
  return found;
}
template <class L>
SUPPLE_INLINE void set_entry(int n, L* x, const L& number, const L& to) {
  using T = scalar_t<L>;
  if constexpr (width<L> == 1) {
    if (number >= L(0)) x[static_cast<int>(number)] = to;
  } else {
    for (int j = 0; j < n; ++j) x[j] = select(number == L(static_cast<T>(j)), to, x[j]);
  }
}
// Reads a column of the tableau.
template <class L>
SUPPLE_INLINE void read_column(int n, const L* table, const L& number, L* column) {
  using T = scalar_t<L>;
  if constexpr (width<L> == 1) {
    const int k = static_cast<int>(number);
    for (int j = 0; k >= 0 && j < tile_size * tiles(n); j += tile_size) {
      L part[tile_size];
      SUPPLE_TILE(c) { part[c] = table[j + c < k ? in_tableau(k, j + c) : in_tableau(j + c, k)]; }
      SUPPLE_TILE(c) column[j + c] = part[c];
    }
  } else {
    for (int i = 0; i < n; ++i) {
      const mask_t<L> row = number == L(static_cast<T>(i));
      for (int j = 0; j <= i; ++j) {
        const L entry = table[in_tableau(i, j)];
        column[i] = select(number == L(static_cast<T>(j)), entry, column[i]);
        column[j] = select(row, entry, column[j]);
      }
    }
  }
}
template <class L>
SUPPLE_INLINE void write_column(int n, const L* column, const L& number, L* table) {
  using T = scalar_t<L>;
  if constexpr (width<L> == 1) {
    const int k = static_cast<int>(number);
    for (int j = 0; k >= 0 && j < n; ++j) {
      table[j < k ? in_tableau(k, j) : in_tableau(j, k)] = column[j];
    }
  } else {
    for (int i = 0; i < n; ++i) {
      const mask_t<L> row = number == L(static_cast<T>(i));
      for (int j = 0; j <= i; ++j) {
        L& entry = table[in_tableau(i, j)];
        const mask_t<L> across = number == L(static_cast<T>(j));
        entry = select(row, column[j], select(across, column[i], entry));
      }
    }
  }
}
// Adds factor times the square of a column to the tableau.
template <class L>
SUPPLE_INLINE void add_square(int n, const L& factor, const L* column, L* table) {
  for (int a = 0; a < tiles(n); ++a) {
    L down[tile_size];
    SUPPLE_TILE(r) down[r] = factor * column[tile_size * a + r];
    for (int b = 0; b <= a; ++b) {
      L *const at = table + tile_place(a, b), across[tile_size], next[tile_size * tile_size];
      SUPPLE_TILE(c) across[c] = column[tile_size * b + c];
      SUPPLE_TILE(r) SUPPLE_TILE(c) {
        next[tile_size * r + c] = fma(down[r], across[c], at[tile_size * r + c]);
      }
      SUPPLE_TILE(r) SUPPLE_TILE(c) at[tile_size * r + c] = next[tile_size * r + c];
    }
  }
}

// Replaces `active_set` (n), -1 and 1 for entries at the lower and at the upper end, in the lanes
// that are `open`. The tableau is the inverse of H on entry. Returns the lanes that need more than
// `most_rounds` rounds.
template <class L>
SUPPLE_NOINLINE_DEVICE mask_t<L> dual_active_set(int n, const L* low, const L* high, const L* x0,
                                                 const mask_t<L>& open, L* active_set, L* table,
                                                 int most_rounds) {
  using T = scalar_t<L>;
  const int padded = tile_size * tiles(n);
  // `value` is x - x0 of free entries, and the force on the others.
  L *value = table + tableau_size(n), *column = value + padded, *scaled = column + padded,
    *side = scaled + padded;
  const L none(-1);
  L entering = none, end(0), force(0);
  mask_t<L> busy = open;
  for (int j = 0; j < padded; ++j) value[j] = column[j] = scaled[j] = side[j] = L(0);
  for (int round = 0; round < most_rounds; ++round) {
    L most(0), farthest = none, to_end(0);
    for (int j = 0; j < n; ++j) {
      const L at = x0[j] + value[j], below = low[j] - at, above = at - high[j];
      const L slack = L(T(dual_slack)) * (abs(x0[j]) + abs(value[j]));
      const L out = select(side[j] == L(0), max(below, above) - slack, L(0));
      const mask_t<L> more = out > most;
      most = select(more, out, most);
      farthest = select(more, L(static_cast<T>(j)), farthest);
      to_end = select(more, select(below > above, L(-1), L(1)), to_end);
    }
    const mask_t<L> next = entering == none;
    end = select(next, to_end, end), force = select(next, L(0), force);
    busy = busy & ((farthest != none) | !next);
    entering = select(busy, select(next, farthest, entering), none);
    if (!any(busy)) break;

    // Push until the entry is at its end, or until the first force vanishes.
    read_column(n, table, entering, column);
    L pivot = entry_of(n, column, entering);
    const L to = select(end < L(0), entry_of(n, low, entering), entry_of(n, high, entering));
    busy = busy & (pivot > L(0));
    const L push =
        (to - entry_of(n, x0, entering) - entry_of(n, value, entering)) / select(busy, pivot, L(1));
    L part(1), leaving = none;
    for (int j = 0; j < n; ++j) {
      const L less = column[j] * push;
      const mask_t<L> turns =
          (side[j] != L(0)) & (low[j] < high[j]) & (side[j] * (value[j] - less) > L(0));
      const L share = max(value[j] / select(turns, less, L(1)), L(0));
      const mask_t<L> earlier = turns & (share < part);
      leaving = select(earlier, L(static_cast<T>(j)), leaving);
      part = select(earlier, share, part);
    }
    const L moved = select(busy, part * push, L(0));
    force = force + moved;
    for (int j = 0; j < padded; j += tile_size) {
      L moved_to[tile_size];
      SUPPLE_TILE(c) {
        const L sign = select(side[j + c] == L(0), moved, -moved);
        moved_to[c] = fma(sign, column[j + c], value[j + c]);
      }
      SUPPLE_TILE(c) value[j + c] = moved_to[c];
    }

    const mask_t<L> enters = leaving == none;
    L changed = select(busy, select(enters, entering, leaving), none);
    if (any(busy & !enters)) read_column(n, table, changed, column);
    pivot = entry_of(n, column, changed);
    busy = busy & (select(enters, pivot, -pivot) > L(0));
    changed = select(busy, changed, none);
    const L inverse = select(busy, L(1) / select(busy, pivot, L(1)), L(0)),
            turned = select(enters, inverse, -inverse);
    for (int j = 0; j < padded; j += tile_size) {
      L part_of[tile_size];
      SUPPLE_TILE(c) part_of[c] = turned * column[j + c];
      SUPPLE_TILE(c) scaled[j + c] = part_of[c];
    }
    set_entry(n, scaled, changed, L(-inverse));
    const L back = select(entry_of(n, side, changed) < L(0), entry_of(n, low, changed),
                          entry_of(n, high, changed)) -
                   entry_of(n, x0, changed);
    set_entry(n, value, changed, select(enters, force, back));
    set_entry(n, side, changed, select(enters, end, L(0)));
    add_square(n, L(-inverse), column, table);
    write_column(n, scaled, changed, table);
    entering = select(enters, none, entering);
  }
  for (int j = 0; j < n; ++j) active_set[j] = select(open, side[j], active_set[j]);
  return busy;
}

}  // namespace supple::inline SUPPLE_ISA
