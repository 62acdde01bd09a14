// The matcher's state while it walks lowered IR: what every name means and which operations were emitted where.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <Halide.h>

#include "codegen/index.h"
#include "codegen/kernel_ir.h"

namespace atalla::codegen {

// What a 32-lane expression evaluates to.
struct Value {
    enum Kind {
        Constant,   // the same float in every lane
        Vector,     // a vector register
        Splat,      // a scalar register (float32 pattern) in every lane
        Dot,        // float32: a row (reg) times the weight buffer, not yet rounded
        Mask        // a mask register
    };
    Kind kind = Constant;
    float constant = 0;
    Reg reg;

    static Value of_constant(float value) { return {Constant, value, {}}; }
    static Value of_vector(Reg r) { return {Vector, 0, r}; }
};

class Matcher {
public:
    Matcher(Kernel &kernel, const Halide::Internal::LoweredFunc &function, bool optimize);
    void run(const Halide::Internal::Stmt &body);

private:
    // A Halide allocation in Register: one variable per 32 lanes, or the weight buffer.
    struct RegisterArray {
        std::string name;
        Halide::Type type;
        int64_t elements = 0;
        bool weights = false;
        std::map<int64_t, Value> lanes;     // 32-lane group -> current value
    };

    // statements
    void visit(const Halide::Internal::Stmt &s);
    void visit_loop(const Halide::Internal::For *loop);
    void visit_store(const Halide::Internal::Store *store);
    void visit_allocate(const Halide::Internal::Allocate *allocate);
    void unroll(const Halide::Internal::For *loop, int64_t first, int64_t extent, bool descending);
    void counted_loop(const Halide::Internal::For *loop, int64_t first, int64_t extent, bool descending);
    bool must_unroll(const Halide::Internal::For *loop) const;
    bool fills_weights(const Halide::Internal::For *loop) const;
    bool worth_peeling(const Halide::Internal::For *loop) const;

    // copies (match_copy.cpp)
    bool match_copy(const Halide::Internal::Stmt &s);
    bool match_filled_copy(const Halide::Internal::Block *block);

    // 32-lane expressions (match_vector.cpp)
    Value evaluate(const Halide::Expr &e);
    Value evaluate_load(const Halide::Internal::Load *load);
    Value evaluate_call(const Halide::Internal::Call *call);
    Value evaluate_reduce(const Halide::Internal::VectorReduce *reduce);
    Value evaluate_select(const Halide::Internal::Select *select);
    Value binary(Opcode vv, Opcode vs, Value a, Value b, bool commutes);
    Value compare(Opcode vv, Opcode vs, Opcode swapped_vs, Value a, Value b);
    Value round_dot(Value dot);
    Reg as_vector(const Value &value);
    Reg constant_vector(float value);
    Reg emit(Op op, RegisterClass cls, const std::string &name);
    LinearForm pad_row(const Halide::Expr &index, int lanes, const std::string &what);
    void forget_loads(int allocation);

    [[noreturn]] void fail(const std::string &reason, const Halide::Expr &e) const;
    [[noreturn]] void fail(const std::string &reason, const Halide::Internal::Stmt &s) const;

    // loop-carried register variables
    void settle(const std::set<std::string> &arrays);
    void carry(const std::map<std::pair<std::string, int64_t>, Reg> &homes, Body &body);

    Kernel &kernel_;
    bool optimize_;
    IndexScope scope_;
    std::map<std::string, Halide::Expr> vector_lets_;
    std::map<std::string, RegisterArray> arrays_;
    std::map<std::string, int> allocations_, tensors_;
    std::map<std::string, Value> numbered_;     // value numbering inside a straight line
    std::map<uint32_t, Reg> constant_vectors_;
    Body *body_ = nullptr;
    Body entry_;                                // runs once, before everything
    int loop_ = -1;                             // innermost enclosing loop of the kernel
    int32_t source_ = -1;
};

}  // namespace atalla::codegen
