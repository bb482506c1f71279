// The route with the fewest reconfigurations through configurations along a path.
//
// A graph has layers: the known configurations at successive places of a path. A route takes
// continuous steps from one layer to the next, and may also change to another configuration of the
// same layer. Round k of dynamic programming computes the least cost of every configuration that k
// changes suffice to reach.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include "supple/robot/configuration.hpp"

namespace supple {

// Configurations of n joints, some of which turn fully.
struct JointSpace {
  int n;
  const double* turn;            // (n,): 2π for joints whose full turns are chosen later, else 0
  const double* unit = nullptr;  // (n,): units of the joints in `motion`; null if all are 1

  // Displacement of joint j from a to b, without full turns that are chosen later.
  double displacement(const double* a, const double* b, int j) const {
    const double change = coordinate_difference(b[j], a[j]);
    return turn[j] > 0 ? change - turn[j] * std::nearbyint(change / turn[j]) : change;
  }
  // The sum of absolute displacements.
  double motion(const double* a, const double* b) const {
    double sum = 0;
    if (unit) {
      for (int j = 0; j < n; ++j) sum += std::abs(displacement(a, b, j)) / unit[j];
    } else {
      for (int j = 0; j < n; ++j) sum += std::abs(displacement(a, b, j));
    }
    return sum;
  }
  // The largest absolute displacement; infinite if a configuration is NaN.
  double distance(const double* a, const double* b) const {
    double most = 0;
    for (int j = 0; j < n; ++j) {
      const double moved = std::abs(displacement(a, b, j));
      if (std::isnan(moved)) return std::numeric_limits<double>::infinity();
      most = std::max(most, moved);
    }
    return most;
  }
  // Whether no joint moves as far as its `reach` (n,); joint `first` is compared first.
  bool are_near(const double* a, const double* b, const double* reach, int first) const {
    const auto far = [&](int j) { return !(std::abs(displacement(a, b, j)) < reach[j]); };
    if (far(first)) return false;
    for (int j = 0; j < n; ++j) {
      if (far(j)) return false;
    }
    return true;
  }
};

// Configurations q (layers, columns, n), NaN where a layer has fewer than `columns`, and the steps
// between them. Either each column is a branch, with a step wherever two successive layers have a
// configuration in it, or the steps are given.
struct RouteGraph {
  int layers, columns;
  JointSpace joints;
  const double* x;       // (layers,): places on the path
  const double* q;       // (layers, columns, n)
  const double* weight;  // (layers, columns): costs of configurations; null for the joint motion
  bool branches;         // whether each column is a branch
  // Otherwise, steps from layer i begin at columns from[k] and end at columns to[k], where
  // end[i - 1] <= k < end[i].
  const int *end, *from, *to;

  const double* at(int layer, int column) const {
    return q + (layer * columns + column) * joints.n;
  }
  bool has(int layer, int column) const { return !std::isnan(at(layer, column)[0]); }

  // The cost of a step from column a of a layer to column b of the next.
  double length(int layer, int a, int b) const {
    if (!weight) return joints.motion(at(layer, a), at(layer + 1, b));
    const double mean = (weight[layer * columns + a] + weight[(layer + 1) * columns + b]) / 2;
    return mean * (x[layer + 1] - x[layer]);
  }

  // Calls step(a, b) for each step from a layer to the next.
  template <class Step>
  void for_each_step(int layer, Step&& step) const {
    if (!branches) {
      for (int k = layer ? end[layer - 1] : 0; k < end[layer]; ++k) step(from[k], to[k]);
      return;
    }
    for (int a = 0; a < columns; ++a) {
      if (has(layer, a) && has(layer + 1, a)) step(a, a);
    }
  }
};

// Steps from layer i to the next: from columns from[k] to columns to[k], end[i - 1] <= k < end[i].
struct NearSteps {
  std::vector<int> end, from, to;
};

// Returns the steps between those configurations of successive layers that differ in every joint by
// less than its `reach` (n,). The joint with the least reach, on whose grid configurations lie, is
// sorted in each layer, so that only those near in this joint are compared.
inline NearSteps near_steps(const RouteGraph& graph, const double* reach) {
  const int first = int(std::min_element(reach, reach + graph.joints.n) - reach);
  const double turn = graph.joints.turn[first];
  NearSteps made;
  std::vector<std::pair<double, int>> sorted;
  for (int i = 0; i + 1 < graph.layers; ++i) {
    sorted.clear();
    for (int b = 0; b < graph.columns; ++b) {
      if (graph.has(i + 1, b)) sorted.push_back({graph.at(i + 1, b)[first], b});
    }
    std::sort(sorted.begin(), sorted.end());
    for (int a = 0; a < graph.columns; ++a) {
      if (!graph.has(i, a)) continue;
      const double *const q = graph.at(i, a), margin = 1e-9 * reach[first];
      const std::size_t begin = made.to.size();
      // Full turns of the joint that are chosen later lead to other values of the same joint.
      const double span = sorted.empty() ? 0 : sorted.back().first - sorted.front().first;
      const int turns = turn > 0 ? int(std::ceil((span + 2 * reach[first]) / turn)) + 1 : 0;
      for (int k = -turns; k <= turns; ++k) {
        const double turned = integrate_coordinate(q[first], k * turn);
        const double low = turned - reach[first] - margin, high = turned + reach[first] + margin;
        auto each = std::lower_bound(sorted.begin(), sorted.end(), std::pair{low, -1});
        for (; each != sorted.end() && each->first <= high; ++each) {
          if (graph.joints.are_near(q, graph.at(i + 1, each->second), reach, first)) {
            made.to.push_back(each->second);
          }
        }
      }
      const auto own = made.to.begin() + std::ptrdiff_t(begin);
      std::sort(own, made.to.end());
      made.to.erase(std::unique(own, made.to.end()), made.to.end());
      made.from.resize(made.to.size(), a);
    }
    made.end.push_back(int(made.from.size()));
  }
  return made;
}

// A continuous part of a route: its first layer, and a column in each of its layers.
struct RoutePart {
  int layer;
  std::vector<int> columns;
};

class RouteSearch {
 public:
  explicit RouteSearch(const RouteGraph& graph)
      : graph_(graph), size_(std::size_t(graph.layers) * std::size_t(graph.columns)) {}

  // Returns the parts of the route with the fewest changes from the first layer to the last and,
  // among these, of least cost. The route ends early, before a layer that has no configuration.
  // `begin` are the columns of the first layer in which the route may begin.
  std::vector<RoutePart> fewest_changes(const std::vector<int>& begin) {
    std::vector<double> cost(size_, huge);
    for (int column : begin) cost[std::size_t(column)] = 0;
    std::vector<bool> known(size_, false);
    std::vector<std::vector<int>> rounds, origins;
    int last;
    while (true) {
      rounds.push_back(continued(cost));
      for (std::size_t i = 0; i < size_; ++i) {
        if (cost[i] < huge) known[i] = true;
      }
      last = last_layer(cost);
      if (last == graph_.layers - 1) break;
      std::vector<double> entry(size_, huge);
      std::vector<int> origin = changed(cost, known, entry);
      if (std::ranges::all_of(entry, [](double each) { return each == huge; })) break;
      origins.push_back(std::move(origin));
      cost = std::move(entry);
    }
    return traced(rounds, origins, cheapest(cost, last));
  }

  // Returns the node (layer * columns + column) of the cheapest configuration in the last layer
  // that is reachable from a configuration without a change.
  int farthest(int layer, int column) {
    std::vector<double> cost(size_, huge);
    cost[std::size_t(node(layer, column))] = 0;
    continued(cost);
    return cheapest(cost, last_layer(cost));
  }

 private:
  static constexpr double huge = std::numeric_limits<double>::infinity();

  int node(int layer, int column) const { return layer * graph_.columns + column; }

  int last_layer(const std::vector<double>& cost) const {
    std::size_t i = size_ - 1;
    while (i > 0 && cost[i] == huge) --i;
    return int(i) / graph_.columns;
  }
  int cheapest(const std::vector<double>& cost, int layer) const {
    const auto begin = cost.begin() + node(layer, 0);
    return node(layer, int(std::min_element(begin, begin + graph_.columns) - begin));
  }

  // Lowers the costs of configurations that are reached without a change. Returns, for each, the
  // column of the previous layer on the cheapest way to it, or -1 where this way begins.
  std::vector<int> continued(std::vector<double>& cost) const {
    std::vector<int> came(size_, -1);
    for (int i = 0; i + 1 < graph_.layers; ++i) {
      const double* const here = cost.data() + node(i, 0);
      double* const next = cost.data() + node(i + 1, 0);
      int* const from = came.data() + node(i + 1, 0);
      graph_.for_each_step(i, [&](int a, int b) {
        if (!(here[a] < next[b])) return;
        const double through = here[a] + graph_.length(i, a, b);
        if (!(through < next[b])) return;
        next[b] = through;
        from[b] = a;
      });
    }
    return came;
  }

  // Writes the costs after one more change to `entry`, and returns for each node the node before
  // this change. A change crosses an interval only if no continuous step does. Configurations that
  // are `known` are skipped, because they are reached with fewer changes.
  std::vector<int> changed(const std::vector<double>& cost, const std::vector<bool>& known,
                           std::vector<double>& entry) const {
    std::vector<int> origin(size_, -1);
    std::vector<std::pair<double, int>> reached;
    for (int i = 0; i < graph_.layers; ++i) {
      reached.clear();
      for (int u = 0; u < graph_.columns; ++u) {
        const double own = cost[std::size_t(node(i, u))];
        if (own < huge) reached.push_back({own, u});
      }
      if (reached.empty()) continue;
      std::sort(reached.begin(), reached.end());
      bool closed = i + 1 < graph_.layers;
      if (closed) graph_.for_each_step(i, [&](int, int) { closed = false; });
      for (int to = i; to <= i + (closed ? 1 : 0); ++to) {
        for (int v = 0; v < graph_.columns; ++v) {
          const std::size_t there = std::size_t(node(to, v));
          if (known[there] || !graph_.has(to, v)) continue;
          for (const auto& [own, u] : reached) {
            if (own >= entry[there]) break;
            const double all =
                graph_.weight ? own : own + graph_.joints.motion(graph_.at(i, u), graph_.at(to, v));
            if (all >= entry[there]) continue;
            entry[there] = all;
            origin[there] = node(i, u);
          }
        }
      }
    }
    return origin;
  }

  // Returns the parts of the route that ends at a node, from the rounds that led there.
  std::vector<RoutePart> traced(const std::vector<std::vector<int>>& rounds,
                                const std::vector<std::vector<int>>& origins, int end) const {
    std::vector<RoutePart> parts;
    for (std::size_t round = origins.size();; --round) {
      int layer = end / graph_.columns, column = end % graph_.columns;
      std::vector<int> columns{column};
      for (int before; (before = rounds[round][std::size_t(node(layer, column))]) >= 0; --layer) {
        columns.push_back(column = before);
      }
      std::ranges::reverse(columns);
      parts.push_back({layer, std::move(columns)});
      if (round == 0) break;
      end = origins[round - 1][std::size_t(node(layer, column))];
    }
    std::ranges::reverse(parts);
    return parts;
  }

  const RouteGraph graph_;
  const std::size_t size_;
};

}  // namespace supple
