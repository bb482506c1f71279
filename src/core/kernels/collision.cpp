// Distances of the shapes of a robot and its world, compiled once for each instruction set, which
// SUPPLE_ISA names.
#include "kernels/collision.hpp"
#include "kernels/kernels.hpp"
#include "kernels/lanes.hpp"
#include "kernels/task_family.hpp"
#include "supple/servo/guard.hpp"

namespace supple::inline SUPPLE_ISA {
namespace {

using Wide = Pack<double, batch_width<double>>;
static_assert(width<Wide> <= sphere_padding);

Placed<double> placed_of(const CollisionModel<double>& model, double* memory) {
  int size;
  return placed_in(model, memory, size);
}

int scratch_of_model(const CollisionModel<double>& model) {
  int size;
  placed_in(model, static_cast<double*>(nullptr), size);
  return size;
}

void prepare_shapes(const CollisionModel<double>& model, double* memory) {
  Placed<double> placed = placed_of(model, memory);
  place_fixed(model, placed);
}

bool collides_at(const CollisionModel<double>& model, const double* q, double clearance,
                 double* memory) {
  Placed<double> placed = placed_of(model, memory);
  place<Wide>(model, q, placed);
  return collides<Wide>(model, placed, clearance);
}

void closer_at(const CollisionModel<double>& model, const double* q, double distance, bool* closer,
               double* memory) {
  Placed<double> placed = placed_of(model, memory);
  place<Wide>(model, q, placed);
  mark_closer<Wide>(model, placed, distance, closer);
}

void write(const Contact<double>& contact, double* points, double* normal) {
  const Vec3<double> vectors[] = {contact.first, contact.second, contact.normal};
  for (int i = 0; i < 3; ++i) {
    double* const to = i < 2 ? points + 3 * i : normal;
    to[0] = vectors[i].x, to[1] = vectors[i].y, to[2] = vectors[i].z;
  }
}

void all_distances(const CollisionModel<double>& model, const double* q, double* distance,
                   double* points, double* normal, double* memory) {
  Placed<double> placed = placed_of(model, memory);
  place<Wide>(model, q, placed);
  for (int g = 0; g < model.groups; ++g) {
    visit_group<Wide>(model, placed, model.group[g], Number<double>::huge,
                      [&](int pair, const Contact<double>& contact) {
                        distance[pair] = contact.distance;
                        write(contact, points + 6 * pair, normal + 3 * pair);
                      });
  }
}

int closest_at(const CollisionModel<double>& model, const double* q, double clearance,
               double* distance, double* points, double* normal, double* memory) {
  Placed<double> placed = placed_of(model, memory);
  place<Wide>(model, q, placed);
  Contact<double> found;
  const int pair = closest_pair<Wide>(model, placed, clearance, found);
  if (pair < 0) return pair;
  *distance = found.distance;
  write(found, points, normal);
  return pair;
}

int guard_scratch_of(const CollisionModel<double>& model) {
  int size;
  guard_in(model, static_cast<double*>(nullptr), size);
  return size;
}

void prepare_guard(const CollisionModel<double>& model, double* memory) {
  int size;
  GuardMemory<double> m = guard_in(model, memory, size);
  place_fixed(model, m.placed);
  place_fixed(model, m.later);
  for (int k = 0; k < model.pairs; ++k) m.floor[k] = Number<double>::huge;
}

int rows_of_guard(const CollisionModel<double>& model, Guard<double>& guard, const double* q,
                  const double* v, double* G, double* h, int* pairs, bool& inside) {
  return guard_rows<Wide>(model, guard, q, v, G, h, pairs, inside);
}

GuardedStep step_of_guard(const CollisionModel<double>& model, Guard<double>& guard,
                          const double* q, const double* v, const double* change, double* x) {
  return guard_step<Wide>(model, guard, q, v, change, x);
}

int curve_scratch_of(const CollisionModel<double>& model) {
  int size;
  curve_in(model, static_cast<double*>(nullptr), size);
  return size;
}

CurveBound<double> bound_of_curve(const CollisionModel<double>& model,
                                  const JointCurve<double>& curve,
                                  const CurveDemand<double>& demand, double* memory) {
  int size;
  CurveMemory<double> m = curve_in(model, memory, size);
  place_fixed(model, m.placed);
  return curve_bound<Wide>(model, curve, demand, m);
}

double cost_at(const CollisionModel<double>& model, const double* q, double distance,
               double* gradient, double* memory) {
  int size;
  CurveMemory<double> m = curve_in(model, memory, size);
  place_fixed(model, m.placed);
  place<Wide>(model, q, m.placed);
  return clearance_cost<Wide>(model, m.placed, distance, m.near, m.reach, m.bound, m.delta,
                              gradient);
}

}  // namespace
}  // namespace supple::inline SUPPLE_ISA

namespace supple {

extern const CollisionKernel SUPPLE_COLLISION_KERNEL(SUPPLE_ISA);
const CollisionKernel SUPPLE_COLLISION_KERNEL(SUPPLE_ISA) = {
    &scratch_of_model, &prepare_shapes,   &collides_at,   &closer_at,     &all_distances,
    &closest_at,       &guard_scratch_of, &prepare_guard, &rows_of_guard, &step_of_guard,
    &curve_scratch_of, &bound_of_curve,   &cost_at,
};

}  // namespace supple
