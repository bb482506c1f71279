#include "drivers/seed_table.hpp"

#include <algorithm>
#include <cmath>

#include "drivers/clock.hpp"
#include "supple/ik/restarts.hpp"

namespace supple {
namespace {

// Writes rows of k numbers, each followed by half its squared norm and, with `extra`, by this
// number increased by a penalty, interleaved for SIMD lanes: (blocks, k + 1 + extra, lanes).
struct Blocks {
  float* to;
  int k, lanes, extra;

  // Writes a row. A padding row (not `real`) is a copy of the row before it, but its last numbers
  // are so large that the row is never the nearest.
  void put(int place, const float* row, bool real, float penalty = 0) const {
    const int size = k + 1 + extra;
    float* const at = to + std::ptrdiff_t(place / lanes) * size * lanes + place % lanes;
    float half = 0;
    for (int i = 0; i < k; ++i) {
      at[i * lanes] = row[i];
      half += 0.5f * row[i] * row[i];
    }
    at[k * lanes] = real ? half : huge_cost;
    if (extra) at[(k + 1) * lanes] = real ? half + penalty : huge_cost;
  }
};

// A seed: its configuration, the target that it reaches, and the gains of the first step from this
// configuration toward another target.
class Seed {
 public:
  Seed(const IkProblem<double>& ik, const std::vector<double>& wrap)
      : ik_(ik),
        wrap_(wrap),
        q_(ik.chain.nq),
        target_(ik.targets),
        J_(ik.rows * ik.chain.nv),
        A_(ik.rows * ik.rows),
        e_(ik.rows),
        poses_(12 * ik.chain.joints) {}

  void evaluate(int number) {
    const int n = ik_.chain.nv;
    for (int j = 0; j < ik_.chain.nq; ++j) {
      const double u = 2 * sequence_value(number, ik_.seed_stride[j]) - 1;
      const double spacing = number % even_seeds == 1 || wrap_[j] > 0 ? 1 : middle_spacing;
      const double x = u * (spacing + (1 - spacing) * u * u);
      q_[j] = ik_.seed_lower[j] + 0.5 * (1 + x) * ik_.seed_range[j];
    }
    forward(ik_.chain, q_.data(), poses());
    double *target = target_.data(), *J = J_.data();
    std::fill(target_.begin(), target_.end(), 0);
    for (int t = 0; t < ik_.tasks; ++t) {
      const Task<double>& task = ik_.task[t];
      task_reached(ik_.chain, task, poses(), target);
      task_jacobian(ik_.chain, task, poses(), J);
      target += target_size(task);
      J += task.rows * n;
    }
    for (std::size_t i = 0; ik_.joint_scale && i < J_.size(); ++i) J_[i] *= scale(int(i) % n);
  }

  const std::vector<double>& target() const { return target_; }

  // Writes a record of `Table`: q (padded,), the damped inverse of J (6 tasks, padded), and the
  // target that is reached.
  void write(double lambda2, int padded, float* record) {
    std::copy(q_.begin(), q_.end(), record);
    gains(lambda2, padded, record + padded);
    std::copy(target_.begin(), target_.end(), record + padded * (1 + 6 * ik_.tasks));
  }

 private:
  // Computes the gains (6 * tasks, padded) of the first step toward a target displaced by d, dq = Σ
  // gain_c d_c. The gains are the columns of the linear map d -> Jᵀ(JJᵀ + λ²)⁻¹ e(d).
  void gains(double lambda2, int padded, float* gain) {
    const int m = ik_.rows, n = ik_.chain.nv;
    gram(m, n, J_.data(), A_.data());
    for (int i = 0; i < m; ++i) A_[i * m + i] += lambda2;
    cholesky(m, A_.data());
    for (int t = 0, first = 0; t < ik_.tasks; first += ik_.task[t].rows, ++t) {
      for (int c = 0; c < 6; ++c, gain += padded) {
        double d[6] = {};
        d[c] = 1;
        std::fill(e_.begin(), e_.end(), 0);
        task_from_base(ik_.chain, ik_.task[t], poses(), d, e_.data() + first);
        cholesky_solve(m, A_.data(), e_.data());
        for (int j = 0; j < n; ++j) {
          double sum = 0;
          for (int i = 0; i < m; ++i) sum += J_[i * n + j] * e_[i];
          gain[j] = float(scale(j) * sum);
        }
      }
    }
  }

  double scale(int j) const { return ik_.joint_scale ? ik_.joint_scale[j] : 1; }

  Pose<double>* poses() { return reinterpret_cast<Pose<double>*>(poses_.data()); }

  const IkProblem<double>& ik_;
  const std::vector<double>& wrap_;
  std::vector<double> q_, target_, J_, A_, e_, poses_;
};

int rounded_up(int count, int step) { return (count + step - 1) / step * step; }

// Returns the sum of the variances of the columns of a matrix (rows, columns).
double variance(const std::vector<float>& values, int columns) {
  const std::ptrdiff_t rows = std::ptrdiff_t(values.size()) / columns;
  double sum = 0;
  for (int i = 0; i < columns; ++i) {
    double mean = 0, square = 0;
    for (std::ptrdiff_t r = 0; r < rows; ++r) mean += values[r * columns + i];
    mean /= double(rows);
    for (std::ptrdiff_t r = 0; r < rows; ++r) {
      const double off = values[r * columns + i] - mean;
      square += off * off;
    }
    sum += square / double(rows);
  }
  return sum;
}

}  // namespace

// The state of a table under construction.
struct SeedTable::Draft {
  Draft(const IkProblem<double>& ik, const std::vector<double>& wrap, int entries, int size)
      : seed(ik, wrap),
        reached(std::size_t(entries) * ik.targets),
        records(std::size_t(entries) * size),
        owner(entries) {}

  Seed seed;
  std::vector<float> reached, records;  // scaled targets (entries, k); records (entries, size)
  std::vector<int> owner;               // (entries,): index of the nearest cluster
  int written = 0, sorted = 0;          // numbers of entries with a record, and with a cluster
};

SeedTable::SeedTable(const IkProblem<double>& ik, const std::vector<float>& scale,
                     const std::vector<double>& wrap, int entries, int lanes, double lambda2)
    : scale_(scale), ik_(ik), entries_(entries), lanes_(lanes), lambda2_(lambda2) {
  const int n = ik.chain.nv, k = ik.targets;
  const int padded = rounded_up(n, Table::row);
  const int size = rounded_up(padded * (1 + 6 * ik.tasks) + k, 16);
  limits_ = std::make_unique<Scratch>(sizeof(float) * 6 * padded);
  auto* const limits = static_cast<float*>(limits_->get());
  std::fill_n(limits, 6 * padded, 0.0f);
  for (int j = 0; j < n; ++j) {
    limits[j] = float(ik.lower[j]);
    limits[padded + j] = float(ik.upper[j]);
    limits[2 * padded + j] = is_long(ik, j) ? huge_cost : float(max_joint_step(ik, j));
    limits[3 * padded + j] = float(1 / joint_unit(ik, j));
    const double half = 0.5 * ik.seed_range[j];
    limits[4 * padded + j] = float(ik.seed_lower[j] + half);
    const bool limited = std::isfinite(ik.lower[j]) || std::isfinite(ik.upper[j]);
    limits[5 * padded + j] =
        limited && half > 1e-18 ? predicted_discomfort / float(half * half) : 0;
  }
  table_ = {0, 0, 0, padded, size, nullptr, nullptr, nullptr, nullptr, scale_.data(), limits};
  draft_ = std::make_unique<Draft>(ik, wrap, entries, size);
}

SeedTable::~SeedTable() = default;

bool SeedTable::build(long long deadline) {
  if (!draft_) return true;
  Draft& draft = *draft_;
  const int k = ik_.targets;
  const auto late = [=] { return deadline && now() >= deadline; };
  for (int& e = draft.written; e < entries_; ++e) {
    if (e % 4 == 0 && late()) return false;
    draft.seed.evaluate(e + 1);
    draft.seed.write(lambda2_, table_.padded, draft.records.data() + std::size_t(e) * table_.size);
    for (int i = 0; i < k; ++i) {
      draft.reached[e * k + i] = float(draft.seed.target()[i]) * scale_[i];
    }
  }
  const int clusters = std::min(entries_, 8 * lanes_ < 64 ? 64 : 8 * lanes_);
  const auto nearest_cluster = [&](const float* row) {
    float least = huge_cost;
    int nearest = 0;
    for (int c = 0; c < clusters; ++c) {
      float far = 0;
      for (int i = 0; i < k; ++i) {
        const float off = row[i] - draft.reached[c * k + i];
        far += off * off;
      }
      if (far < least) least = far, nearest = c;
    }
    return nearest;
  };
  for (int& e = draft.sorted; e < entries_; ++e) {
    if (e % 16 == 0 && late()) return false;
    draft.owner[e] = nearest_cluster(draft.reached.data() + std::size_t(e) * k);
  }
  arrange(clusters);
  draft_.reset();
  return true;
}

// Returns the weighted discomfort of a configuration (padded,).
float SeedTable::discomfort(const float* q) const {
  const float *middle = table_.limits + 4 * table_.padded, *weight = middle + table_.padded;
  float sum = 0;
  for (int j = 0; j < table_.padded; ++j) {
    const float off = coordinate_difference(q[j], middle[j]);
    sum += weight[j] * off * off;
  }
  return sum;
}

// Groups the entries by cluster, in blocks.
void SeedTable::arrange(int clusters) {
  const Draft& draft = *draft_;
  const int k = ik_.targets, size = table_.size, lanes = lanes_;
  std::vector<std::vector<int>> owned(clusters);
  for (int e = 0; e < entries_; ++e) owned[draft.owner[e]].push_back(e);
  begin_.assign(1, 0);
  for (const auto& entries : owned) {
    begin_.push_back(begin_.back() + rounded_up(int(entries.size()), lanes) / lanes);
  }
  const int blocks = begin_.back(), rows = rounded_up(clusters, lanes);
  cluster_ = std::make_unique<Scratch>(sizeof(float) * std::size_t(rows) * (k + 1));
  block_ = std::make_unique<Scratch>(sizeof(float) * std::size_t(blocks) * lanes * (k + 2));
  record_ = std::make_unique<Scratch>(sizeof(float) * std::size_t(blocks) * lanes * size);
  auto* const record = static_cast<float*>(record_->get());
  const Blocks to_cluster{static_cast<float*>(cluster_->get()), k, lanes, 0};
  const Blocks to_block{static_cast<float*>(block_->get()), k, lanes, 1};
  const float weight =
      looked_up_discomfort / predicted_discomfort * float(variance(draft.reached, k));
  for (int c = 0; c < rows; ++c) {
    to_cluster.put(c, draft.reached.data() + std::min(c, clusters - 1) * k, c < clusters);
  }
  for (int c = 0; c < clusters; ++c) {
    for (int place = begin_[c] * lanes, end = begin_[c + 1] * lanes, i = 0; place < end; ++place) {
      const bool real = i < int(owned[c].size());
      const int e = owned[c][real ? i++ : i - 1];
      const float* const from = draft.records.data() + std::size_t(e) * size;
      to_block.put(place, draft.reached.data() + std::ptrdiff_t(e) * k, real,
                   weight * discomfort(from));
      std::copy_n(from, size, record + std::ptrdiff_t(place) * size);
    }
  }
  table_.entries = entries_;
  table_.clusters = rows / lanes;
  table_.blocks = blocks;
  table_.cluster = to_cluster.to;
  table_.block = to_block.to;
  table_.begin = begin_.data();
  table_.record = record;
}

}  // namespace supple
