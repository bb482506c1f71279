// Names of the kernel's enumerators, from which Python's enums and the GPU source are made. Values
// count from 0; `name_of` returns null after the last one, and the compiler warns of a missing
// name.
#pragma once

#include "supple/collision/model.hpp"
#include "supple/ik/iterate.hpp"
#include "supple/ik/target.hpp"
#include "supple/limits/row_search.hpp"
#include "supple/servo/state.hpp"

namespace supple {

#define SUPPLE_NAME(E, name) \
  case E::name:              \
    return #name;

constexpr const char* name_of(Rule rule) {
  switch (rule) {
    SUPPLE_NAME(Rule, constant)
    SUPPLE_NAME(Rule, manipulability)
    SUPPLE_NAME(Rule, manipulability_rate)
    SUPPLE_NAME(Rule, error)
    SUPPLE_NAME(Rule, speed_bound)
    SUPPLE_NAME(Rule, tracking_bound)
    SUPPLE_NAME(Rule, condition_bound)
    SUPPLE_NAME(Rule, region)
    SUPPLE_NAME(Rule, mayorga_condition)
    SUPPLE_NAME(Rule, mayorga_rank)
    SUPPLE_NAME(Rule, optimal)
    SUPPLE_NAME(Rule, optimal_newton)
    SUPPLE_NAME(Rule, curvature)
    SUPPLE_NAME(Rule, error_norm)
    SUPPLE_NAME(Rule, residual_optimal)
  }
  return nullptr;
}

constexpr const char* name_of(Method method) {
  switch (method) {
    SUPPLE_NAME(Method, transpose)
    SUPPLE_NAME(Method, pseudoinverse)
    SUPPLE_NAME(Method, truncated)
    SUPPLE_NAME(Method, truncated_below)
    SUPPLE_NAME(Method, truncated_rank)
    SUPPLE_NAME(Method, damped_svd)
    SUPPLE_NAME(Method, damped_cholesky)
    SUPPLE_NAME(Method, damped_qr)
    SUPPLE_NAME(Method, selective)
    SUPPLE_NAME(Method, selective_soft)
    SUPPLE_NAME(Method, damped_quick)
  }
  return nullptr;
}

constexpr const char* name_of(Secondary form) {
  switch (form) {
    SUPPLE_NAME(Secondary, null_space)
    SUPPLE_NAME(Secondary, projection)
    SUPPLE_NAME(Secondary, weighted_projection)
    SUPPLE_NAME(Secondary, total_speed)
    SUPPLE_NAME(Secondary, total_speed_switched)
  }
  return nullptr;
}

constexpr const char* name_of(ControlMode mode) {
  switch (mode) {
    SUPPLE_NAME(ControlMode, step)
    SUPPLE_NAME(ControlMode, secondary)
    SUPPLE_NAME(ControlMode, priority)
    SUPPLE_NAME(ControlMode, filtered)
    SUPPLE_NAME(ControlMode, estimated)
  }
  return nullptr;
}

constexpr const char* name_of(Goal goal) { return traits_of(goal).name; }

constexpr const char* name_of(Target target) {
  switch (target) {
    SUPPLE_NAME(Target, other)
    SUPPLE_NAME(Target, pose)
    SUPPLE_NAME(Target, direction)
    SUPPLE_NAME(Target, position)
    SUPPLE_NAME(Target, numbers)
  }
  return nullptr;
}

constexpr const char* name_of(TargetKind kind) {
  switch (kind) {
    SUPPLE_NAME(TargetKind, pose)
    SUPPLE_NAME(TargetKind, position)
    SUPPLE_NAME(TargetKind, direction)
    SUPPLE_NAME(TargetKind, orientation)
    SUPPLE_NAME(TargetKind, numbers)
    SUPPLE_NAME(TargetKind, other)
  }
  return nullptr;
}

constexpr const char* name_of(Measure measure) {
  switch (measure) {
    SUPPLE_NAME(Measure, position)
    SUPPLE_NAME(Measure, rotation)
  }
  return nullptr;
}

constexpr const char* name_of(Motion motion) {
  switch (motion) {
    SUPPLE_NAME(Motion, revolute)
    SUPPLE_NAME(Motion, prismatic)
    SUPPLE_NAME(Motion, ball)
    SUPPLE_NAME(Motion, ball_axis)
  }
  return nullptr;
}

constexpr const char* name_of(Placement placement) {
  switch (placement) {
    SUPPLE_NAME(Placement, root)
    SUPPLE_NAME(Placement, twist)
    SUPPLE_NAME(Placement, general)
  }
  return nullptr;
}

constexpr const char* name_of(ShapeKind kind) {
  switch (kind) {
    SUPPLE_NAME(ShapeKind, sphere)
    SUPPLE_NAME(ShapeKind, capsule)
    SUPPLE_NAME(ShapeKind, box)
    SUPPLE_NAME(ShapeKind, cylinder)
    SUPPLE_NAME(ShapeKind, half_space)
    SUPPLE_NAME(ShapeKind, hull)
  }
  return nullptr;
}

constexpr const char* name_of(RowState state) {
  switch (state) {
    SUPPLE_NAME(RowState, waiting)
    SUPPLE_NAME(RowState, met)
    SUPPLE_NAME(RowState, held)
    SUPPLE_NAME(RowState, given_up)
  }
  return nullptr;
}

constexpr const char* name_of(Outcome outcome) {
  switch (outcome) {
    SUPPLE_NAME(Outcome, solved)
    SUPPLE_NAME(Outcome, unreachable)
    SUPPLE_NAME(Outcome, timeout)
    SUPPLE_NAME(Outcome, nonfinite)
    SUPPLE_NAME(Outcome, not_converged)
    SUPPLE_NAME(Outcome, max_move)
    SUPPLE_NAME(Outcome, blocked)
  }
  return nullptr;
}

constexpr const char* name_of(Cost cost) {
  switch (cost) {
    SUPPLE_NAME(Cost, limits)
    SUPPLE_NAME(Cost, discomfort)
    SUPPLE_NAME(Cost, displacement)
    SUPPLE_NAME(Cost, manipulability)
  }
  return nullptr;
}

#undef SUPPLE_NAME

}  // namespace supple
