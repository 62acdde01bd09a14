// Thrown where the machine would go wrong in silence: the simulator stops and names the rule.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "isa/program.h"

namespace atalla {

// `rule` is the number of the rule in the microarchitecture reference ("51"), the section of the isa reference ("isa 4.3")
// where the former has none, or a word: "memory" and "pad" for addresses outside, "step limit", "cycle limit", "lanes" for what
// was not computed (LaneValues). `sentence` has no packet address: whoever catches the refusal knows that.
struct Refusal {
    std::string rule;
    std::string sentence;
};

[[noreturn, gnu::cold]] void refuse(std::string rule, std::string sentence);
[[noreturn]] void refuse_missing_packet(int64_t pc);
[[noreturn]] void refuse_step_limit(uint64_t limit);
[[noreturn]] void refuse_cycle_limit(uint64_t limit);

// RunResult::error: "packet 0x00000014 (line 2): division by zero (rule 50)". `origin` is what the parentheses hold.
std::string refusal_message(const Refusal &refusal, int64_t pc, const std::string &origin);
// The same with what is known of the packet: its line, or the Halide Func, loop and ATen node it was generated for.
std::string refusal_message(const Refusal &refusal, int64_t pc, const Program &program);

}  // namespace atalla
