// Where results come from.
#pragma once

#include <cstddef>
#include <cstdint>

namespace atalla::timing {

// In the order of priority of rule 14. The scalar, vector and mask orders are all part of this one.
enum class Source : uint8_t { Ex5, Ex1, Ex4, Ex3, Ex2, MoveToScalar, Vlsu0, Vlsu1, Vlsu2, Vlsu3, Array, Reduce, Alu, Mul, Exp };
constexpr size_t source_count = 15;

inline Source vlsu_source(int pad) { return static_cast<Source>(static_cast<int>(Source::Vlsu0) + pad); }

}  // namespace atalla::timing
