// Result<T>: a value or the reason why there is none.
//
// The project reports expected failures this way; exceptions stay inside calls into third-party
// code. Member names are those of std::expected, so that the type can be replaced by it one day. An
// Error's number is an entry of the catalogue (error_catalogue.h). Not thread-safe; a Result is a
// plain value.
#pragma once

#include <cstdlib>
#include <string>
#include <utility>
#include <variant>

namespace skep {

// What went wrong, for people and programs.
struct Error {
  int code = 9001;      // SKEP-nnnn
  std::string message;  // one sentence: what happened, with the place (file, line, key, peer) where
                        // there is one
  std::string hint;     // what to do about it, or empty

  // The same error with "context: " before its message.
  [[nodiscard]] Error Within(const std::string& context) && {
    message = context + ": " + message;
    return std::move(*this);
  }
};

template <class T>
class [[nodiscard]] Result {
 public:
  using value_type = T;

  Result(T value)
      : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT(google-explicit-constructor)
  Result(Error error)
      : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }

  // Precondition of value(), operator* and operator->: has_value(). Of error(): !has_value(). A
  // breach is a bug: abort.
  [[nodiscard]] T& value() & { return Checked(); }
  [[nodiscard]] const T& value() const& { return const_cast<Result*>(this)->Checked(); }
  [[nodiscard]] T&& value() && { return std::move(Checked()); }
  T& operator*() & { return Checked(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(Checked()); }
  T* operator->() { return &Checked(); }
  const T* operator->() const { return &value(); }

  [[nodiscard]] const Error& error() const& {
    if (has_value()) std::abort();
    return *std::get_if<1>(&state_);
  }
  [[nodiscard]] Error&& error() && {
    if (has_value()) std::abort();
    return std::move(*std::get_if<1>(&state_));
  }

  template <class U>
  [[nodiscard]] T value_or(U&& fallback) const& {
    return has_value() ? value() : static_cast<T>(std::forward<U>(fallback));
  }

  // f(T) -> Result<U>, called when there is a value.
  template <class F>
  auto and_then(F&& f) && -> decltype(f(std::declval<T&&>())) {
    if (!has_value()) return std::move(*this).error();
    return std::forward<F>(f)(std::move(*this).value());
  }

  // f(T) -> U, called when there is a value.
  template <class F>
  auto transform(F&& f) && -> Result<decltype(f(std::declval<T&&>()))> {
    if (!has_value()) return std::move(*this).error();
    return std::forward<F>(f)(std::move(*this).value());
  }

 private:
  T& Checked() {
    if (!has_value()) std::abort();
    return *std::get_if<0>(&state_);
  }

  std::variant<T, Error> state_;
};

// Success without a value, or an error. `return Ok();`
struct Done {};
using Status = Result<Done>;
inline Status Ok() {
  return Done{};
}

}  // namespace skep
