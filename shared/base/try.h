// Early return on a failed Result. Two statements, never a statement expression: GCC 12 fails on
// the latter in coroutines.
//
//   SKEP_ASSIGN(const auto layout, ParseLayout(text));   // binds the value, or returns the error
//   SKEP_TRY(Write(layout));                             // continues, or returns the error
//   SKEP_CO_ASSIGN, SKEP_CO_TRY                          // the same inside a coroutine
#pragma once

#include <utility>

#include "shared/base/result.h"

#define SKEP_CONCAT_INNER(a, b) a##b
#define SKEP_CONCAT(a, b) SKEP_CONCAT_INNER(a, b)

#define SKEP_ASSIGN_INNER(temporary, declaration, return_word, ...)     \
  auto temporary = (__VA_ARGS__);                                       \
  if (!temporary.has_value()) return_word std::move(temporary).error(); \
  declaration = std::move(temporary).value()

#define SKEP_ASSIGN(declaration, ...) \
  SKEP_ASSIGN_INNER(SKEP_CONCAT(skep_result_, __LINE__), declaration, return, __VA_ARGS__)
#define SKEP_CO_ASSIGN(declaration, ...) \
  SKEP_ASSIGN_INNER(SKEP_CONCAT(skep_result_, __LINE__), declaration, co_return, __VA_ARGS__)

#define SKEP_TRY_INNER(temporary, return_word, ...)           \
  if (auto temporary = (__VA_ARGS__); !temporary.has_value()) \
  return_word std::move(temporary).error()

#define SKEP_TRY(...) SKEP_TRY_INNER(SKEP_CONCAT(skep_result_, __LINE__), return, __VA_ARGS__)
#define SKEP_CO_TRY(...) SKEP_TRY_INNER(SKEP_CONCAT(skep_result_, __LINE__), co_return, __VA_ARGS__)
