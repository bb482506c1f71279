// A copy of a `CollisionModel` for the memory of a GPU.
#define NO_IMPORT_ARRAY
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "bindings/collision_model.hpp"
#include "supple/collision/shared.hpp"

namespace supple {
namespace {

// Rounding errors of a distance in single precision, in units in the last place of the largest
// coordinate: those of two sums of ten rounded products, and of their square roots.
constexpr double rough_rounding = 32;
constexpr double finite = 1e30;  // a bound that single precision can represent

// Arrays one after the other, in memory that begins at an address.
class Packer {
 public:
  // Distances may be wrong by `rounding`, so pairs must keep that much more clearance.
  Packer(std::uintptr_t address, double rounding) : address_(address), rounding_(rounding) {}

  // Copies an array. Returns its address.
  template <class X>
  const X* add(const X* from, std::size_t count) {
    constexpr std::size_t aligned = 32;
    bytes_.resize((bytes_.size() + aligned - 1) / aligned * aligned);
    const std::size_t begin = bytes_.size();
    bytes_.resize(begin + count * sizeof(X));
    if (count) std::memcpy(bytes_.data() + begin, from, count * sizeof(X));
    return reinterpret_cast<const X*>(address_ + begin);
  }
  template <class X>
  const X* add(const std::vector<X>& from) {
    return add(from.data(), from.size());
  }
  // Copies the shapes and pairs of a model, with numbers of type T; its hulls have `vertices`
  // coordinates in all.
  template <class T>
  SharedPairs<T> add_pairs(const CollisionModel<double>& from, int vertices) {
    const double* first = nullptr;  // the vertices of all hulls are in one array
    for (int i = 0; i < from.shapes; ++i) {
      const double* const own = from.shape[i].vertex;
      if (own && (!first || own < first)) first = own;
    }
    const std::vector<T> corners(first, first ? first + vertices : first);
    const T* const vertex = add(corners);
    std::vector<FixedShape<T>> shapes;
    for (int i = 0; i < from.shapes; ++i) {
      const FixedShape<double>& s = from.shape[i];
      FixedShape<T> made{.kind = s.kind,
                         .radius = T(s.radius),
                         .half = {},
                         .vertices = s.vertices,
                         .vertex = s.vertex ? vertex + (s.vertex - first) : nullptr,
                         .bound = T(std::min(s.bound, finite)),
                         .rotation = {},
                         .position = {},
                         .speed = T(s.speed),
                         .body = s.body,
                         .sphere = s.sphere};
      std::copy_n(s.half, 3, made.half);
      std::copy_n(s.rotation, 9, made.rotation);
      std::copy_n(s.position, 3, made.position);
      shapes.push_back(made);
    }
    const auto& last = from.group[from.groups - 1];
    std::vector<SharedGroup<T>> groups;
    for (int g = 0; g < from.groups; ++g) groups.push_back(group_of<T>(from, g));
    std::vector<SharedRun<T>> runs;
    for (int r = 0; r < last.runs[1]; ++r) runs.push_back(run_of<T>(from, from.run[r]));
    std::vector<SharedSphere<T>> spheres;
    for (int i = 0; i < from.spheres; ++i) {
      const double* const s = from.sphere + i;
      const int stride = from.sphere_stride;
      spheres.push_back({T(s[0]), T(s[stride]), T(s[2 * stride]), T(s[3 * stride])});
    }
    return {.groups = from.groups,
            .moving = from.moving,
            .group = add(groups),
            .run = add(runs),
            .sphere = add(spheres),
            .single = add(from.single, last.singles[1]),
            .shape = add(shapes)};
  }
  std::vector<unsigned char>& bytes() { return bytes_; }

 private:
  template <class T>
  SharedGroup<T> group_of(const CollisionModel<double>& from, int g) const {
    const PairGroup& group = from.group[g];
    const Body<double>&a = from.body[group.first], &b = from.body[group.second];
    const bool of_world = group.second >= from.moving;
    SharedGroup<T> made{.first = group.first,
                        .second = of_world ? -1 : group.second,
                        .runs = {group.runs[0], group.runs[1]},
                        .singles = {group.singles[0], group.singles[1]},
                        .reach = T(a.bound + (of_world ? 0 : b.bound)),
                        .allowed = T(std::min(from.allowed[g] + rounding_, finite)),
                        .kind = ShapeKind::sphere,
                        .half = {},
                        .rotation = {},
                        .position = {}};
    if (!of_world) return made;
    const FixedShape<double>& s = from.shape[from.order[b.shapes[0]]];
    const bool hull = s.kind == ShapeKind::hull;
    made.kind = hull ? ShapeKind::sphere : s.kind;
    made.reach = T(a.bound + (hull ? s.bound : s.radius));
    std::copy_n(s.half, 3, made.half);
    std::copy_n(s.rotation, 9, made.rotation);
    std::copy_n(s.position, 3, made.position);
    return made;
  }

  template <class T>
  static SharedRun<T> run_of(const CollisionModel<double>& from, const SphereRun& run) {
    const FixedShape<double>& other = from.shape[run.other];
    const int body = from.shape[from.shape_of[run.begin]].body;
    SharedRun<T> made{.begin = run.begin,
                      .end = run.end,
                      .body = body,
                      .other = run.other,
                      .other_body = other.sphere >= 0 ? other.body : -1,
                      .center = {},
                      .radius = T(other.radius),
                      .bound = T(from.body[body].bound)};
    std::copy_n(other.position, 3, made.center);
    return made;
  }

  std::uintptr_t address_;
  double rounding_;
  std::vector<unsigned char> bytes_;
};

}  // namespace

std::vector<unsigned char> OwnedCollisionModel::packed(std::uintptr_t address, double size,
                                                       double rounding) const {
  Packer packer(address, rounding);
  SharedModel shared{};
  packer.add(&shared, 1);
  shared.chain = view_.chain;
  shared.chain.joint = packer.add(view_.chain.joint, view_.chain.joints);
  shared.chain.frame = packer.add(view_.chain.frame, view_.chain.frames);
  shared.chain.support = packer.add(chain_.support);
  shared.moving = view_.moving;
  shared.body = packer.add(bodies_.data(), view_.moving);
  shared.exact = packer.add_pairs<double>(view_, int(vertices_.size()));
  shared.rough = packer.add_pairs<float>(view_, int(vertices_.size()));
  double largest = 0;
  for (const FixedShape<double>& s : shapes_) {
    const double far = std::hypot(s.position[0], s.position[1], s.position[2]);
    largest = std::max(largest, far + (s.bound < unbounded ? s.bound : 0));
  }
  shared.rounding =
      float(rough_rounding * std::numeric_limits<float>::epsilon() * (size + largest));
  std::memcpy(packer.bytes().data(), &shared, sizeof(shared));
  return packer.bytes();
}

}  // namespace supple
