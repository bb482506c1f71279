// Position inverse kinematics, compiled once for each instruction set: SUPPLE_ISA names it.
//
// For one answer to each of many problems every lane is another problem, which is exchanged for the
// next one as soon as it is done. For one problem, or for several answers to each, every lane is
// another start. What a lane does is in include/supple/solve.hpp, where it starts in search.hpp,
// what becomes of it in answers.hpp and closest.hpp.
#include <new>

#include "closest.hpp"

namespace supple::inline SUPPLE_ISA {
namespace {

// The next problem that no thread has taken and that can be solved; -1 if there is none.
std::ptrdiff_t take(const SolveRequest& request, Room& room) {
  for (;;) {
    const std::ptrdiff_t problem = request.next->fetch_add(1, std::memory_order_relaxed);
    if (problem >= request.count) return -1;
    if (sound(request, problem)) return problem;
    leave(request, problem, room, Outcome::nonfinite);
  }
}

// Every problem that is left: time is up. (A block at a time: there may be millions.)
void leave_all(const SolveRequest& request, Room& room) {
  constexpr std::ptrdiff_t block = 512;
  for (std::ptrdiff_t p; (p = request.next->fetch_add(block)) < request.count;) {
    for (const std::ptrdiff_t end = std::min(p + block, request.count); p < end; ++p) {
      leave(request, p, room, sound(request, p) ? Outcome::timeout : Outcome::nonfinite);
    }
  }
}

// ---- every lane is another start ---------------------------------------------------------------

class Single {
 public:
  Single(const SolveRequest& request, Room& room, std::ptrdiff_t problem)
      : request_(request), quest_(*request.fine), room_(room), problem_(problem) {}

  void run() {
    search();
    if (!request_.failed) return;
    double* const failed = request_.failed + 4 * problem_;
    failed[0] = next_;
    failed[1] = failed_;
    for (int k = 0; k < 2; ++k) failed[2 + k] = failed_error_[k];
  }

 private:
  void search() {
    if (request_.q0 && from_caller()) return;
    look_up(request_, problem_, room_, room_.listed[0]);
    if (hurry() && !request_.q0 && from_table()) return;
    failures().clear();
    int running = 0;
    for (int i = 0; i < lanes; ++i) {
      const bool runs = next_ < request_.max_starts;
      room_.slot[i] = {runs ? problem_ : -1, runs ? next_++ : 0, 0, 0, 0, false};
      aim(request_, room_, i, problem_);
      begin(request_, room_, i, room_.listed[0]);
      running += runs;
    }
    bool over = false;
    while (running && !over && !enough()) {
      over = iterate(running);
      if (!found_ && conclude(false)) return;
    }
    if (found_) return draw_near();
    if (over || !failures().count) {  // the best so far is what the lanes have now
      measure(*request_.wide, room_.wide);
      for (int i = 0; i < lanes; ++i) keep(request_, room_, i, failures());
    }
    conclude(true);
  }

  Failures& failures() { return room_.failures[0]; }
  bool conclude(bool last) {
    return supple::conclude(request_, room_, problem_, failures(), iterations_, next_, last);
  }
  bool enough() const { return found_ == (request_.nearest ? compared : request_.most); }

  // From the caller's start, in double and alone: near a solution this is all. Returns whether it
  // is enough.
  bool from_caller() {
    if (go_alone(request_.q0 + problem_ * request_.q0_stride, request_.nearest ? 2 : 1)) {
      const bool near = moved() <= near_start;
      if (request_.rest) suit(request_, room_, problem_);
      add();
      return enough() || (request_.nearest && near);
    }
    return request_.nearest && room_.lone.cost < near_miss && settled_near();
  }

  // From the table's most promising likewise: the iterations of a single number are shorter than
  // those of all lanes, and most often this is enough.
  bool from_table() {
    const Listed& listed = room_.listed[0];
    const int n = quest_.chain.coordinates;
    for (int i = 0; i < alone && i < listed.count && next_ < request_.max_starts; ++i) {
      if (!go_alone(listed.q + i * n, 1)) continue;
      suit(request_, room_, problem_);
      add();
      return true;
    }
    return false;
  }

  // Descends alone and in double, as long as the cost falls. Returns whether it arrived.
  template <class T>
  bool go_alone(const T* q, int patience) {
    Descent<double>& at = room_.lone;
    const int pace = patience * quest_.pace;
    put_in(request_, at, 0, problem_, q);
    ++next_;
    double cost = 3e300;
    for (int i = 0; i < patience * pace * max_iterations; ++i, ++iterations_) {
      look(quest_, at);
      if (arrived(quest_, at)) return true;
      if (i % (pace * window) == 0) {
        if (!(at.cost <= double(progress) * cost)) break;
        cost = at.cost;
      }
      if (i % looks == looks - 1 && stopped(request_)) break;
      differentiate(quest_, at);
      descend(quest_, at);
    }
    note_failure(at, 0);
    return false;
  }

  // A start that failed, for whoever asks how near the best of them came.
  template <class L>
  void note_failure(const Descent<L>& at, int lane) {
    ++failed_;
    const double cost = get(at.cost, lane);
    if (!(cost < failed_cost_)) return;
    failed_cost_ = cost;
    failed_error_[0] = get(at.position, lane);
    failed_error_[1] = get(at.rotation, lane);
  }

  // Where that has failed: Newton's method, which gets to a singular pose. Returns whether it did.
  bool settled_near() {
    const int best = come_closest(request_, room_, problem_, nullptr);
    if (!get(arrived(quest_, room_.fine), best)) return false;
    for (int j = 0; j < quest_.chain.coordinates; ++j) {
      room_.lone.q[j] = get(room_.fine.q[j], best);
    }
    measure(quest_, room_.lone);
    add();
    return moved() <= near_start;
  }

  // The nearest of the solutions is drawn nearer, as far as the task leaves freedom.
  void draw_near() {
    if (!request_.nearest) return;
    put_in(request_, room_.lone, 0, problem_, request_.q + problem_ * quest_.chain.coordinates);
    measure(quest_, room_.lone);
    suit(request_, room_, problem_);
    if (!request_.rest && !(moved() < least_move_)) return;
    record(request_, problem_, 0, room_.lone, 0, Outcome::solved, iterations_, next_);
  }

  // The largest move of a joint from the caller's start.
  double moved() const {
    double most = 0;
    for (int j = 0; j < quest_.chain.coordinates; ++j) {
      most = std::max(most, size(room_.lone.q[j] - request_.q0[problem_ * request_.q0_stride + j]));
    }
    return most;
  }

  // What room.lone holds is a solution, perhaps a known one.
  void add() {
    const int n = quest_.chain.coordinates;
    unwind_solution(request_, room_, problem_);
    if (request_.nearest) {
      const double move = moved();
      if (++found_ > 1 && !(move < least_move_)) return;
      least_move_ = move;
      return record(request_, problem_, 0, room_.lone, 0, Outcome::solved, iterations_, next_);
    }
    const double* known = request_.q + problem_ * request_.most * n;
    for (int i = 0; i < found_; ++i, known += n) {
      bool same = true;
      for (int j = 0; j < n; ++j) {
        const double turn = request_.turn ? request_.turn[j] : 0;
        same &= size(difference(turn, known[j], room_.lone.q[j])) <= apart;
      }
      if (same) return;
    }
    record(request_, problem_, found_++, room_.lone, 0, Outcome::solved, iterations_, next_);
  }

  // Whether the first solution is all that is wanted.
  bool hurry() const { return request_.most == 1 && !request_.nearest; }

  // The best lane goes on alone and in double if it is so close that it should arrive in a few
  // iterations: those of a single number are shorter. Returns whether it did.
  bool close_in() {
    int best = -1;
    float least = close_;
    for (int i = 0; i < lanes; ++i) {
      const float cost = get(room_.wide.cost, i);
      if (cost < least && room_.slot[i].problem >= 0) best = i, least = cost;
    }
    if (best < 0) return false;
    close_ = 0.1f * least;  // (next time it must be much closer)
    Descent<double>& at = room_.lone;
    put_in(request_, at, 0, problem_, room_.lane_q(best, quest_.chain.coordinates));
    for (double cost = 3e300;; cost = at.cost) {
      look(quest_, at);
      if (arrived(quest_, at)) break;
      if (!(at.cost < 0.3 * cost)) return false;
      differentiate(quest_, at);
      descend(quest_, at);
    }
    suit(request_, room_, problem_);
    add();
    return true;
  }

  // Every lane by one iteration. Returns whether time is up.
  bool iterate(int& running) {
    measure(*request_.wide, room_.wide);
    const mask_t<Wide> there = arrived(*request_.wide, room_.wide);
    ++iterations_;
    if (hurry() && close_in()) return false;
    for (int i = 0; i < lanes && !enough(); ++i) {
      Slot& slot = room_.slot[i];
      if (slot.problem < 0) continue;
      ++slot.iteration;
      if (get(there, i)) {
        put_in(request_, room_.lone, 0, problem_, room_.lane_q(i, quest_.chain.coordinates));
        if (finish(request_, room_.lone) || finish_singular(request_, room_)) {
          if (!request_.nearest) suit(request_, room_, problem_);
          add();
        } else {
          note_failure(room_.lone, 0);
          keep(request_, room_, i, failures());
        }
      } else if (stuck(request_, room_, i, slot)) {
        note_failure(room_.wide, i);
        keep(request_, room_, i, failures());
      } else {
        continue;
      }
      slot.fresh = next_ < request_.max_starts;
      if (slot.fresh) {
        slot.start = next_++;
      } else {
        slot.problem = -1;
        --running;
      }
    }
    if (enough()) return false;
    descend(*request_.wide, room_.wide);
    for (int i = 0; i < lanes; ++i) {
      if (room_.slot[i].fresh) begin(request_, room_, i, room_.listed[0]);
    }
    return stopped(request_);
  }

  const SolveRequest& request_;
  const Quest<double>& quest_;
  Room& room_;
  std::ptrdiff_t problem_;
  int found_ = 0, next_ = 0, iterations_ = 0;
  double least_move_ = 0;
  float close_ = 0.02f;  // ‖e‖² of a lane that is worth going on with alone
  int failed_ = 0;
  double failed_cost_ = 3e300, failed_error_[2] = {};  // of the best of the failed starts
};

// ---- every lane is another problem -------------------------------------------------------------

class Batcher {
 public:
  Batcher(const SolveRequest& request, Room& room) : request_(request), room_(room) {}

  void run() {
    for (int i = 0; i < lanes; ++i) {
      room_.slot[i].problem = -1;
      load(i);
      if (room_.slot[i].fresh) begin(request_, room_, i, room_.listed[i]);
    }
    for (int tick = 0; running_; ++tick) {
      iterate();
      if (tick % 4 == 0 && stopped(request_)) return stop();
    }
  }

 private:
  // Another problem for a lane.
  void load(int lane) {
    Slot& slot = room_.slot[lane];
    const std::ptrdiff_t problem = take(request_, room_);
    running_ += (problem >= 0) - (slot.problem >= 0);
    slot = {problem, 0, 0, 0, 0, problem >= 0};
    if (problem < 0) return;
    room_.failures[lane].clear();
    look_up(request_, problem, room_, room_.listed[lane]);
    aim(request_, room_, lane, problem);
  }

  // Another start of the lane's problem, or, when there have been enough, the closest pose.
  void again(int lane) {
    Slot& slot = room_.slot[lane];
    slot.fresh = true;
    ++slot.start;
    if (conclude(lane, slot.start, slot.start >= request_.max_starts)) load(lane);
  }

  bool conclude(int lane, int starts, bool last) {
    const Slot& slot = room_.slot[lane];
    return supple::conclude(request_, room_, slot.problem, room_.failures[lane], slot.iterations,
                            starts, last);
  }

  void iterate() {
    measure(*request_.wide, room_.wide);
    const mask_t<Wide> there = arrived(*request_.wide, room_.wide);
    int arriving[lanes], many = 0;
    for (int i = 0; i < lanes; ++i) {
      Slot& slot = room_.slot[i];
      if (slot.problem < 0) continue;
      ++slot.iteration;
      ++slot.iterations;
      if (get(there, i)) {
        arriving[many++] = i;
      } else if (stuck(request_, room_, i, slot)) {
        keep(request_, room_, i, room_.failures[i]);
        again(i);
      }
    }
    for (int first = 0; first < many; first += fine_lanes) {
      finish_some(arriving + first, std::min(many - first, fine_lanes));
    }
    descend(*request_.wide, room_.wide);
    for (int i = 0; i < lanes; ++i) {
      if (room_.slot[i].fresh) begin(request_, room_, i, room_.listed[i]);
    }
  }

  // Lanes that have arrived, as far as floats tell.
  void finish_some(const int* arriving, int few) {
    const int n = request_.fine->chain.coordinates;
    for (int f = 0; f < fine_lanes; ++f) {
      const int lane = arriving[std::min(f, few - 1)];
      put_in(request_, room_.fine, f, room_.slot[lane].problem, room_.lane_q(lane, n));
    }
    const mask_t<Fine> solved = finish(request_, room_.fine);
    bool answered[fine_lanes];
    for (int f = 0; f < few; ++f) {
      answered[f] = get(solved, f) || singular(room_.slot[arriving[f]], f);
      if (get(solved, f)) answer(room_.slot[arriving[f]], f);
    }
    for (int f = 0; f < few; ++f) {  // (afterwards: `again` may need room.fine)
      const int lane = arriving[f];
      if (!answered[f]) keep(request_, room_, lane, room_.failures[lane]);
      answered[f] ? load(lane) : again(lane);
    }
  }

  void answer(const Slot& slot, int f) {
    if (!request_.rest) {
      return record(request_, slot.problem, 0, room_.fine, f, Outcome::solved, slot.iterations,
                    slot.start + 1);
    }
    take_out(slot, f);
    measure(*request_.fine, room_.lone);
    answer_alone(slot);
  }

  void take_out(const Slot& slot, int f) {
    for (int j = 0; j < request_.fine->chain.coordinates; ++j) {
      room_.lone.q[j] = get(room_.fine.q[j], f);
    }
    aim_finely(request_, room_.lone, 0, slot.problem);
  }

  void answer_alone(const Slot& slot) {
    suit(request_, room_, slot.problem);
    record(request_, slot.problem, 0, room_.lone, 0, Outcome::solved, slot.iterations,
           slot.start + 1);
  }

  // One that did not arrive after all. Returns whether Newton's method got it there.
  bool singular(const Slot& slot, int f) {
    take_out(slot, f);
    if (!finish_singular(request_, room_)) return false;
    answer_alone(slot);
    return true;
  }

  // Time is up: the best so far of the problems that are being solved.
  void stop() {
    measure(*request_.wide, room_.wide);
    for (int i = 0; i < lanes; ++i) {
      const Slot& slot = room_.slot[i];
      if (slot.problem < 0) continue;
      keep(request_, room_, i, room_.failures[i]);
      conclude(i, slot.start + 1, true);
    }
    leave_all(request_, room_);
  }

  const SolveRequest& request_;
  Room& room_;
  int running_ = 0;
};

std::size_t solve_memory(const SolveRequest& request) {
  Room room;
  return sizeof(Room) + 64 + room.lay_out(request, nullptr);
}

void prepare(const SolveRequest& request, void* memory) {
  Room* const room = new (memory) Room;
  room->lay_out(request, static_cast<unsigned char*>(memory) + (sizeof(Room) + 63) / 64 * 64);
}

void solve(const SolveRequest& request, void* memory) {
  Room& room = *static_cast<Room*>(memory);
  if (!request.single) return Batcher(request, room).run();
  if (request.count == 1) {
    if (!sound(request, 0)) return leave(request, 0, room, Outcome::nonfinite);
    return Single(request, room, 0).run();
  }
  for (std::ptrdiff_t p; (p = take(request, room)) >= 0;) {
    Single(request, room, p).run();
    if (stopped(request)) return leave_all(request, room);
  }
}

}  // namespace
}  // namespace supple::inline SUPPLE_ISA

namespace supple {

extern const SolveKernel SUPPLE_SOLVE_KERNEL(SUPPLE_ISA);
const SolveKernel SUPPLE_SOLVE_KERNEL(SUPPLE_ISA) = {lanes, &solve_memory, &prepare, &solve};

}  // namespace supple
