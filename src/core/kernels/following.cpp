// Motions that follow the poses of many frames, compiled once for each instruction set, which
// SUPPLE_ISA names.
#include "kernels/following.hpp"
#include "kernels/lanes.hpp"

namespace supple::inline SUPPLE_ISA {
namespace {

using Wide = Pack<double, batch_width<double>>;

int own_scratch(const Following<double>& of) {
  int size;
  follow_in(of, static_cast<double*>(nullptr), size);
  return padded<double>(size);
}

int scratch_of(const Following<double>& of) {
  int size = 0;
  if (of.contacts.model) contacts_in(*of.contacts.model, static_cast<double*>(nullptr), size);
  return own_scratch(of) + size;
}

void prepare(const Following<double>& of, double* memory) {
  if (of.contacts.model) prepare_contacts(of.contacts, memory + own_scratch(of));
}

void run(const Following<double>& of, FollowState<double>& state, int count, const double* target,
         const double* hold, double* q, double* memory) {
  const int n = of.chain.nv, size = 12 * of.follows;
  double* const contacts = memory + own_scratch(of);
  for (int k = 0; k < count; ++k) {
    follow_step<Wide>(of, state, target + k * size, target + (k + 1) * size, hold + k * of.feet,
                      memory, contacts);
    for (int j = 0; j < n; ++j) q[k * n + j] = state.q[j];
  }
}

int rows(const Following<double>& of, const double* q, double* to, double* memory) {
  int size;
  const int n = of.chain.nv, s = padded<double>(n);
  const FollowMemory<double> m = follow_in(of, memory, size);
  for (int j = 0; j < s; ++j) m.y[j] = 0, m.start[j] = 1;  // at rest, with feet that swing
  const int count = contact_rows<Wide>(
      of.contacts, q, static_cast<Pose<double>*>(nullptr), static_cast<const double*>(m.y),
      static_cast<const double*>(m.start), s, m.row, m.row_b, m.row_w, memory + own_scratch(of));
  for (int r = 0; r < count; ++r) {
    for (int j = 0; j < n; ++j) to[r * (n + 1) + j] = m.row[r * s + j];
    to[r * (n + 1) + n] = m.row_b[r];
  }
  return count;
}

}  // namespace
}  // namespace supple::inline SUPPLE_ISA

namespace supple {

extern const FollowingKernel SUPPLE_FOLLOWING_KERNEL(SUPPLE_ISA);
const FollowingKernel SUPPLE_FOLLOWING_KERNEL(SUPPLE_ISA) = {&scratch_of, &prepare, &run, &rows};

}  // namespace supple
