// The part of the binary interface of XLA's foreign functions that supple reads, so that JAX can
// call the kernel without Python. The structs are declared here because XLA guarantees their layout
// within a major version; tests/gradients/test_xla.py compares them with the header of the
// installed JAX.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace supple::xla {

// Versions 0.1 to 0.3 have the same layout of these structs. XLA accepts functions made for an
// older version, or refuses to register them.
inline constexpr int major_version = 0, least_minor = 1, most_minor = 3;

enum Stage : int { instantiate, prepare, initialize, execute };
enum Type : int { boolean = 1, int64 = 5, float32 = 11, float64 = 12 };
enum Code : int { invalid_argument = 3, failed_precondition = 9, internal = 13 };
inline constexpr int metadata_extension = 1, buffer_value = 1, scalar_attribute = 3;

struct Error;

struct Extension {
  std::size_t size;
  int type;
  Extension* next;
};

struct Version {
  std::size_t size;
  Extension* extensions;
  int major, minor;
};

struct ErrorRequest {
  std::size_t size;
  Extension* extensions;
  const char* message;
  int code;
};

struct Api {
  std::size_t size;
  Extension* extensions;
  Version version;
  const void* internal;
  Error* (*create_error)(ErrorRequest*);  // further functions follow
};

struct Buffer {
  std::size_t size;
  Extension* extensions;
  int type;
  void* data;
  std::int64_t rank;
  std::int64_t* dims;
};

struct Buffers {
  std::size_t size;
  Extension* extensions;
  std::int64_t count;
  int* types;
  void** values;
};

struct Name {
  const char* begin;
  std::size_t length;
};

struct Scalar {
  int type;
  void* value;
};

struct Attributes {
  std::size_t size;
  Extension* extensions;
  std::int64_t count;
  int* types;
  Name** names;
  void** values;
};

struct CallFrame {
  std::size_t size;
  Extension* extensions;
  const Api* api;
  void* context;
  int stage;
  Buffers arguments, results;
  Attributes attributes;  // further fields follow
};

struct Metadata {
  std::size_t size;
  Version version;
  std::uint32_t traits;  // further fields follow
};

struct MetadataExtension {
  Extension base;
  Metadata* metadata;
};

using Handler = Error*(CallFrame*);

// Answers a call in which XLA asks for which version a function is made. Returns false for other
// calls.
inline bool answer_metadata(CallFrame& frame) {
  for (Extension* each = frame.extensions; each; each = each->next) {
    if (each->type != metadata_extension) continue;
    Version& version = reinterpret_cast<MetadataExtension*>(each)->metadata->version;
    const int minor = frame.api ? frame.api->version.minor : most_minor;
    version.major = major_version;
    version.minor = std::clamp(minor, least_minor, most_minor);
    return true;
  }
  return false;
}

// Returns the value of a scalar attribute, or null if there is none of this type.
template <class T>
const T* attribute(const CallFrame& frame, const char* name, Type type) {
  const Attributes& all = frame.attributes;
  for (std::int64_t i = 0; i < all.count; ++i) {
    const Name& given = *all.names[i];
    const char* const end = given.begin + given.length;
    const char* wanted = name;
    const char* at = given.begin;
    while (at != end && *wanted && *at == *wanted) ++at, ++wanted;
    if (at != end || *wanted || all.types[i] != scalar_attribute) continue;
    const Scalar& scalar = *static_cast<const Scalar*>(all.values[i]);
    if (scalar.type == type) return static_cast<const T*>(scalar.value);
  }
  return nullptr;
}

// Returns argument or result i, or null if there is none.
inline const Buffer* buffer(const Buffers& all, std::int64_t i) {
  return i < all.count && all.types[i] == buffer_value ? static_cast<const Buffer*>(all.values[i])
                                                       : nullptr;
}

inline Error* error(const CallFrame& frame, const char* message, Code code) {
  ErrorRequest request{sizeof(ErrorRequest), nullptr, message, code};
  return frame.api->create_error(&request);
}

}  // namespace supple::xla
