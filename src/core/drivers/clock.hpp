// The clock of time limits [ns]. A deadline of 0 means no deadline.
#pragma once

#include <algorithm>
#include <chrono>

namespace supple {

inline long long now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Converts seconds to nanoseconds, with at most 1e9 s to avoid overflow.
inline long long nanoseconds(double seconds) { return (long long)(std::min(seconds, 1e9) * 1e9); }

// Returns the end of the first of several equal shares of the time from now until a deadline.
inline long long share_of_time(long long deadline, int shares) {
  if (!deadline) return 0;
  const long long time = now();
  return time + std::max(0LL, deadline - time) / shares;
}

// Whether a deadline has passed; used as the `stop` callback of a request.
inline bool past(void* deadline) { return now() >= *static_cast<long long*>(deadline); }

}  // namespace supple
