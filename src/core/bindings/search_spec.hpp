// Settings of a search, shared by the bindings for single targets and for batches.
#pragma once

namespace supple {

struct SearchSpec {
  double position_tolerance = 0, rotation_tolerance = 0;  // [m], [rad]
  int max_seeds = 0;                                      // for each target; 0 for the default
  double timeout = 0;                                     // [s]
  int max_solutions = 1;                                  // for each target
  bool single = false;       // whether targets are solved one at a time, with all lanes
  bool nearest = false;      // whether the solution nearest to q0 is returned
  bool comfortable = false;  // whether seeds near the middle of the joint ranges are preferred
  double max_move = 0;       // largest joint displacement from q0 [rad or m]; 0 for no bound
  bool explain = false;      // whether statistics of failed starts are returned
  int threads = 1;           // maximum number of threads
  int merged_at_once = 1;    // number of targets whose subproblems are solved and merged together
  double clearance = 0;      // least distance of all pairs of a collision model, if any [m]
  int max_rejected = 0;      // number of colliding solutions after which to stop; 0 for no bound

  bool operator==(const SearchSpec&) const = default;
};

}  // namespace supple
