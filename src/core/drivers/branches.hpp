// All solutions of a pose of a 6-joint arm: candidates in closed form, or as eigenvalues, are
// polished and verified by damped least squares in double precision, inside the joint limits.
// Included only by files that are compiled once for each instruction set. Tuned constants are
// explained in docs/constants.md.
#pragma once

#include <cstddef>

#include "kernels/kernels.hpp"
#include "supple/ik/branch.hpp"
#include "supple/math/arena.hpp"

namespace supple::inline SUPPLE_ISA {

// Largest number of iterations that polish all lanes together.
inline constexpr int wide_rounds = 3;

namespace {

// Polishes and verifies the candidates of a target, in memory that is reused. Candidates are
// verified several at a time, each on a lane. If the arm's candidates are inexact, all lanes take
// some iterations; candidates that need more are polished one by one.
class BranchPolisher {
 public:
  // `coordinate` holds the index in q of each joint of the arm. `slack` is that of `ClosedForm`; if
  // it is zero, candidates have errors of at most `error` [rad], or of rounding if that is zero.
  BranchPolisher(const IkProblem<double>& ik, const int* coordinate, double slack, double error)
      : ik_(ik),
        tolerances_{ik.position_tolerance, ik.rotation_tolerance},
        slack_(slack),
        error_(error),
        n_(ik.chain.nq) {
    for (int i = 0; i < 6; ++i) coordinate_[i] = coordinate[i];
  }

  // Places the arrays in a block of memory, which may be null. Returns their size in bytes.
  std::size_t allocate(void* memory) {
    Arena<Line64> arena(static_cast<Line64*>(memory));
    at_ = state<double>(arena);
    wide_ = state<Lanes>(arena);
    reference_ = arena.take_as<double>(n_);
    others_ = arena.take_as<int>(n_);
    return std::size_t(arena.size()) * sizeof(Line64);
  }

  // Initializes the arrays.
  void clear() {
    Lanes* const wide = wide_.q;
    for (int i = 0; i < state_size(); ++i) wide[i] = Lanes(0);
    other_count_ = 0;
    for (int j = 0; j < n_; ++j) {
      bool is_own = false;
      for (int i = 0; i < 6; ++i) is_own = is_own || coordinate_[i] == j;
      if (!is_own) others_[other_count_++] = j;
    }
  }

  // Prepares for the candidates of a target, a pose given by the columns of its rotation and its
  // position (12,). The solutions of the target are passed to `sink`. Joints that are not part of
  // the arm stay at q0 or, if q0 is null, as near to zero as their limits allow.
  void begin(const double* target, const double* q0, const SolutionSink& sink) {
    sink_ = &sink;
    waiting_ = 0;
    certain_ = true;
    for (int i = 0; i < 12; ++i) wide_.target[i] = Lanes(at_.target[i] = target[i]);
    for (int j = 0; j < n_; ++j) {
      at_.q[j] = kept_coordinate(ik_, j, q0);
      reference_[j] = turn_reference(ik_, j, q0);
      wide_.q[j] = Lanes(at_.q[j]);
    }
  }

  // Adds a candidate; it is verified when all lanes have one.
  void offer(const Turn<double>* turn, const Mark& mark) {
    for (int i = 0; i < 6; ++i) {
      set(cosine_[i], waiting_, turn[i].c);
      set(sine_[i], waiting_, turn[i].s);
    }
    mark_[waiting_] = mark;
    if (!exact() && (mark.critical || mark.sampled)) certain_ = false;
    if (++waiting_ == width<Lanes>) verify();
  }

  // Completes the solutions of a target. Returns whether these are certain to be all solutions,
  // provided that the candidates contain all solutions.
  bool end() {
    if (waiting_) verify();
    return certain_;
  }

 private:
  using Lanes = Unrolled<double>;
  struct alignas(64) Line64 {
    unsigned char bytes[64];
  };

  bool exact() const { return slack_ == 0; }

  // Number of values of the type of a lane in the arrays of an `IterateState`.
  int state_size() const {
    const int nv = ik_.chain.nv, m = ik_.rows;
    return n_ + ik_.targets + 2 * m * nv + m + iterate_scratch(ik_);
  }
  template <class L>
  IterateState<L> state(Arena<Line64>& arena) const {
    const int nv = ik_.chain.nv, m = ik_.rows;
    IterateState<L> made{};
    made.q = arena.take_as<L>(state_size());
    made.target = &made.q[n_];
    made.J = made.target + ik_.targets;
    made.J_before = made.J + m * nv;
    made.e = made.J_before + m * nv;
    made.work = made.e + m;
    made.before = L(-1);
    return made;
  }

  // Verifies the waiting candidates.
  void verify() {
    mask_t<Lanes> inside = Lanes(0) == Lanes(0), clamped = Lanes(0) != Lanes(0);
    Lanes start[6];
    for (int i = 0; i < 6; ++i) {
      start[i] = unit_angle(cosine_[i], sine_[i]);
      const int j = coordinate_[i];
      wide_.q[j] = placed(ik_, j, reference_[j], slack_ + error_, start[i], inside, clamped);
    }
    if (!any(inside)) {
      waiting_ = 0;
      return;
    }
    if (any(clamped & inside)) {
      evaluate_error(ik_, wide_);
    } else {
      evaluate_turns(ik_, coordinate_, cosine_, sine_, wide_);
    }
    for (int round = 0; round < wide_rounds && is_rough(inside); ++round) {
      evaluate_jacobian(ik_, wide_);
      wide_step();
      evaluate_error(ik_, wide_);
    }
    for (int k = 0; k < waiting_; ++k) {
      if (!get(inside, k)) continue;
      for (int i = 0; i < 6; ++i) at_.q[coordinate_[i]] = get(wide_.q[coordinate_[i]], k);
      at_.position = get(wide_.position, k);
      at_.rotation = get(wide_.rotation, k);
      if (!tolerances_.hold(at_, branch_fine)) {
        if (!polish()) {
          certain_ = certain_ && exact();
          continue;
        }
        for (int i = 0; i < 6 && !exact(); ++i) {
          const int j = coordinate_[i];
          const double moved = without_turns(coordinate_difference(at_.q[j], get(start[i], k)));
          if (abs(moved) > branch_far) certain_ = false;
        }
      }
      const bool is_new =
          sink_->take(sink_->to, at_.q, at_.position, at_.rotation, mark_[k].sampled);
      certain_ = certain_ && (is_new || exact());
    }
    waiting_ = 0;
  }

  // Whether a candidate on one of the lanes `inside` is known to be inexact and is not polished
  // yet, and can be polished on all lanes.
  bool is_rough(const mask_t<Lanes>& inside) const {
    if ((exact() && error_ == 0) || !uses_error_norm(ik_)) return false;
    for (int k = 0; k < waiting_; ++k) {
      if (get(inside, k) && !(get(wide_.position, k) <= branch_fine * tolerances_.position &&
                              get(wide_.rotation, k) <= branch_fine * tolerances_.rotation)) {
        return true;
      }
    }
    return false;
  }

  bool polish() {
    return polish_branch(ik_, tolerances_, at_, [&] { step(); });
  }

  // Takes a damped step of the arm's joints. Other joints may move the frame, too, as the fixed
  // joint of a redundant arm does; these stay where `begin` has placed them.
  void step() {
    hold_others(at_);
    descend(ik_, at_);
  }

  // Takes such a step on all lanes by the default damping rule. Code for other rules would triple
  // the size and compile time of this function; with other rules, candidates are polished one at a
  // time.
  void wide_step() {
    hold_others(wide_);
    const int m = ik_.rows, n = ik_.chain.nv;
    if (ik_.joint_scale) return descend<false, true>(ik_, m, n, wide_);
    if (m == 6 && n == 7) return descend<false, false>(ik_, Fixed<6>{}, Fixed<7>{}, wide_);
    if (m == 6 && n == 6) return descend<false, false>(ik_, Fixed<6>{}, Fixed<6>{}, wide_);
    descend<false, false>(ik_, m, n, wide_);
  }

  template <class L>
  void hold_others(IterateState<L>& at) const {
    for (int k = 0; k < other_count_; ++k) {
      for (int i = 0; i < ik_.rows; ++i) at.J[i * n_ + others_[k]] = L(0);
    }
  }

  const IkProblem<double> ik_;
  const BranchTolerances tolerances_;
  const double slack_, error_;
  const int n_;
  int coordinate_[6];
  int* others_ = nullptr;  // (n,): indices in q of the joints that are not part of the arm
  int other_count_ = 0;
  double* reference_ = nullptr;  // (n,): angles to which the chosen 2π wraps are nearest
  IterateState<double> at_{};    // one candidate
  IterateState<Lanes> wide_{};
  // the target and the waiting candidates
  const SolutionSink* sink_ = nullptr;
  bool certain_ = true;
  int waiting_ = 0;
  Lanes cosine_[6], sine_[6];
  Mark mark_[width<Lanes>];
};

}  // namespace
}  // namespace supple::inline SUPPLE_ISA
