// The scalar code of addresses: values of loops' variables, their multiples and sums.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <Halide.h>

#include "codegen/index.h"
#include "codegen/kernel_ir.h"

namespace atalla::codegen {

class ScalarCode {
public:
    ScalarCode(Kernel &kernel, bool optimize) : kernel_(kernel), optimize_(optimize) {}

    static Op make(Opcode opcode, Reg dst, Reg a, Reg b = {}, int32_t imm = 0);
    // dst = a + value
    Op add(Reg dst, Reg a, int64_t value) const;

    // Operations go to the end of `out`. While a `Once` lives, one that was made and is still true is not made again, and what
    // the loops around do not change is made in front of them.
    Reg emit(Opcode opcode, Reg a, Reg b, int32_t imm, Body &out);
    Reg add_constant(Reg a, int64_t value, Body &out);
    Reg multiply(Reg a, int64_t factor, Body &out);
    // An expression of loops' variables, in registers of their own where `values` has them.
    Reg value(const Halide::Expr &e, const std::map<int, Reg> &values, Body &out);
    // An operation that is described by its value.
    void lower_value(const Op &op, Body &out);
    // Operations out of line, some of which are described so: they use nothing that was made in front of them, and nothing
    // behind them uses what they make.
    std::vector<Op> lower_side(const std::vector<Op> &ops);

    class Once {
    public:
        explicit Once(ScalarCode &code, bool on = true) : code_(code) { code_.numbering_ = on; }
        ~Once() { code_.numbering_ = false; }
        Once(const Once &) = delete;
        Once &operator=(const Once &) = delete;

    private:
        ScalarCode &code_;
    };
    // Nothing that was made of this register, or nothing at all, is still true.
    void forget(Reg changed);
    void forget_all() { made_.clear(); }

    // A loop around what follows: the registers that it changes, and the code in front of it.
    void enter_loop(std::set<Reg> changed, Body &before) { loops_.push_back({std::move(changed), &before, {}}); }
    void leave_loop() { loops_.pop_back(); }

    // Of loops that count for themselves: the register that stands for the variable.
    void set_counter(int loop, Reg counter) { counters_[loop] = counter; }
    void remove_counter(int loop) { counters_.erase(loop); }
    bool has_counter(int loop) const { return counters_.contains(loop); }

private:
    static constexpr int32_t smallest_immediate = -2048, largest_immediate = 2047;

    struct Made {
        Opcode opcode;
        Reg a, b;
        int32_t imm;
        auto operator<=>(const Made &) const = default;
    };
    struct Around {
        std::set<Reg> varying;
        Body *before;
        std::map<Made, Reg> made;  // in front of it
    };

    bool varies(Reg r) const { return !loops_.empty() && loops_.back().varying.contains(r); }
    std::optional<Reg> divide_by_product(Reg a, int64_t n, const std::optional<Limits> &limits, bool rest, Body &out);
    Reg loop_value(const std::string &name, const std::map<int, Reg> &values) const;

    Kernel &kernel_;
    const bool optimize_;
    bool numbering_ = false;
    std::vector<Around> loops_;
    std::map<Made, Reg> made_;  // and still true
    std::map<int, Reg> counters_;
};

}  // namespace atalla::codegen
