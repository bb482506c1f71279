// Binds enumerations, and structs of settings (specs) as Python classes with keyword-only
// constructors and read-only fields.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>

#include <cctype>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace supple {

namespace nb = nanobind;

// A field of a spec, with its name in Python. An optional field may be omitted in the constructor
// and then keeps the struct's default value.
template <bool optional, class Spec, class Value>
struct Field {
  const char* name;
  Value Spec::* member;

  // The default of a nested spec is None, because a default argument that is an object of the
  // module might outlive the module.
  static constexpr bool nested = nb::detail::is_base_caster_v<nb::detail::make_caster<Value>>;
  using Given = std::conditional_t<optional && nested, std::optional<Value>, Value>;

  auto argument() const {
    if constexpr (optional && nested) {
      return nb::arg(name) = nb::none();
    } else if constexpr (optional) {
      return nb::arg(name) = Spec{}.*member;
    } else {
      return nb::arg(name);
    }
  }
  void assign(Spec& spec, Given given) const {
    if constexpr (optional && nested) {
      if (given) spec.*member = std::move(*given);
    } else {
      spec.*member = std::move(given);
    }
  }
};
template <class Spec, class Value>
Field<false, Spec, Value> required(const char* name, Value Spec::* member) {
  return {name, member};
}
template <class Spec, class Value>
Field<true, Spec, Value> optional(const char* name, Value Spec::* member) {
  return {name, member};
}

// Binds an enumeration with the names that `name_of` returns (drivers/enum_names.hpp), in capitals.
template <class E>
void bind_enum(nb::module_& m, const char* type, const char* doc) {
  nb::enum_<E> made(m, type, doc);
  for (int i = 0; const char* name = name_of(E(i)); ++i) {
    std::string upper(name);
    for (char& letter : upper) letter = char(std::toupper(letter));
    made.value(upper.c_str(), E(i));
  }
}

// Adds the methods of a spec that only need the names of its fields: __repr__, __hash__, replace.
void bind_text_and_replace(nb::handle type, const char* name, std::vector<const char*> fields);

// Binds a spec. Specs are immutable and compare by value, so that they can be keys of a cache.
template <class Spec, bool... optional, class... Values>
void bind_spec(nb::module_& m, const char* name, const char* doc,
               const Field<optional, Spec, Values>&... field) {
  nb::class_<Spec> made(m, name, doc);
  made.def(
      "__init__",
      [field...](Spec* self, typename Field<optional, Spec, Values>::Given... given) {
        new (self) Spec{};
        (field.assign(*self, std::move(given)), ...);
      },
      nb::kw_only(), field.argument()...);
  (made.def_ro(field.name, field.member), ...);
  made.def(
      "__eq__", [](const Spec& self, const Spec& other) { return self == other; },
      nb::is_operator(), nb::sig("def __eq__(self, other: object, /) -> bool"));
  bind_text_and_replace(made, name, {field.name...});
}

}  // namespace supple
