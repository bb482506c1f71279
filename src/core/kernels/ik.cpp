// Position inverse kinematics, compiled once for each instruction set: SUPPLE_ISA names it.
//
// For one answer to each of many problems every lane is another problem (batch.hpp). For one
// problem, or for several answers to each, every lane is another start (single.hpp). What a lane
// does is in include/supple/ik/iterate.hpp, where it starts in search.hpp, what becomes of it in
// solutions.hpp and closest.hpp.
#include <new>

#include "drivers/batch.hpp"

namespace supple::inline SUPPLE_ISA {
namespace {

std::size_t room_memory(const SolveRequest& request) {
  Room room;
  return (sizeof(Room) + 63) / 64 * 64 + room.lay_out(request, nullptr);
}

Room* make_room(const SolveRequest& request, void* memory) {
  Room* const room = new (memory) Room;
  room->lay_out(request, static_cast<unsigned char*>(memory) + (sizeof(Room) + 63) / 64 * 64);
  room->clear(request);
  room->hard = nullptr;
  return room;
}

// A batch has a second room, for problems that are solved as if alone.
std::size_t solve_memory(const SolveRequest& request) {
  return room_memory(request) * (request.single ? 1 : 2) + 64;
}

void prepare(const SolveRequest& request, void* memory) {
  Room* const room = make_room(request, memory);
  if (request.single) return;
  room->hard = make_room(request, static_cast<unsigned char*>(memory) + room_memory(request));
}

void solve(const SolveRequest& request, void* memory) {
  Room& room = *static_cast<Room*>(memory);
  if (!request.single) return Batcher(request, room).run();
  if (request.count == 1) {
    if (!sound(request, 0)) return leave(request, 0, room, Outcome::nonfinite);
    return solve_alone(request, room, 0);
  }
  for (std::ptrdiff_t p; (p = take(request, room)) >= 0;) {
    solve_alone(request, room, p);
    if (stopped(request)) return leave_all(request, room);
  }
}

}  // namespace
}  // namespace supple::inline SUPPLE_ISA

namespace supple {

extern const SolveKernel SUPPLE_SOLVE_KERNEL(SUPPLE_ISA);
const SolveKernel SUPPLE_SOLVE_KERNEL(SUPPLE_ISA) = {lanes, &solve_memory, &prepare, &solve};

}  // namespace supple
