// What roundings in float32 add to Reference::peaks, which count in units of bf16.
#pragma once

namespace atalla {

// The array adds the products of a block in float32. Where they cancel, its roundings are large beside the result: the error of
// 32 additions is about that of one rounding to bf16 of this share of the largest partial sum.
constexpr double float32_share = 0x1p-13;

}  // namespace atalla
