// The matcher's state while it walks lowered IR: what every name means and which operations were emitted where.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <Halide.h>

#include "codegen/index.h"
#include "codegen/kernel_ir.h"

namespace atalla::codegen {

// What an expression of 32 lanes or of one evaluates to; a single value is one that all lanes hold.
struct Value {
    enum Kind {
        Constant,  // the same float in every lane
        Vector,    // a vector register: always bfloat16 values, whatever the type in the IR
        Splat,     // a scalar register (float32 pattern) in every lane
        Dot,       // float32: a row (reg) times the weight buffer
        Sum,       // float32, not yet rounded in the IR: the sum of a row's lanes; the vector register holds it rounded
        Mask       // a condition: lanes that are known, or else a mask register, or else bits
    };
    Kind kind = Constant;
    float constant = 0;
    Reg reg;
    Reg bits = {};                       // Mask: a scalar register with a bit a lane
    std::optional<uint32_t> lanes = {};  // Mask: where it holds, if the loops around have decided that
    // Splat and Dot: the IR has rounded the value to bfloat16. The machine does so in the operation that takes it, unless the
    // register of a Splat is `exact`, which is what it holds.
    bool rounded = false;
    bool exact = false;
    int fill = 0;         // Dot: the filling of the weight buffer it means
    bool number = false;  // Vector: no lane is NaN

    bool is_in_scalar() const { return kind == Splat && (!rounded || exact); }  // the register holds the very value
    bool names_vector() const { return kind == Vector || kind == Dot || kind == Sum; }

    static Value of_constant(float value) { return {Constant, value, {}}; }
    static Value of_vector(Reg r) { return {Vector, 0, r}; }
    static Value of_mask(Reg r) { return {Mask, 0, r}; }
    static Value of_bits(Reg r) {
        Value value;
        value.kind = Mask;
        value.bits = r;
        return value;
    }
    static Value of_lanes(uint32_t lanes) {
        Value value;
        value.kind = Mask;
        value.lanes = lanes;
        return value;
    }
    static Value of_scalar(Reg r) { return {Splat, 0, r}; }
};

// Thrown when the constant around a copied tile cannot be written once for all.
struct FillInPlace {
    std::string name;  // of the allocation
};
// Allocations where rows are filled before a copy if another one has brought more lanes of them: the most lanes of each row.
using FillsInPlace = std::map<std::string, std::vector<int8_t>>;

class Matcher {
public:
    Matcher(Kernel &kernel, const Halide::Internal::LoweredFunc &function, bool optimize, FillsInPlace fill_in_place);
    void run(const Halide::Internal::Stmt &body);
    // Adds what the copies of this run brought. True if that is more than was known.
    bool learn(FillsInPlace &fills) const;

private:
    static constexpr int8_t not_copied = -1;

    // A Halide allocation in Register: the weight buffer, or variables of 32 lanes or of one.
    struct RegisterArray {
        std::string name;
        Halide::Type type;
        bool weights = false;
        int width = 0;                      // lanes of each variable, 0 before the first store
        std::map<int64_t, Value> elements;  // first element of the variable -> current value
    };
    using Homes = std::map<std::pair<std::string, int64_t>, Reg>;  // array and element -> the register it lives in

    // statements (match.cpp)
    void visit(const Halide::Internal::Stmt &s);
    void dispatch(const Halide::Internal::Stmt &s);
    void visit_let(const Halide::Internal::LetStmt *let);
    void visit_allocate(const Halide::Internal::Allocate *allocate);
    void scratch_in_result(const Halide::Internal::Allocate *allocate, int64_t elements);
    int first_result() const;
    void visit_branch(const Halide::Internal::IfThenElse *branch);
    void visit_store(const Halide::Internal::Store *store);
    void store_to_registers(const Halide::Internal::Store *store, RegisterArray &array);
    int32_t source_of(const SourceLocation &location);

    // loops and what they carry (match_loop.cpp)
    void visit_loop(const Halide::Internal::For *loop);
    void unroll(const Halide::Internal::For *loop, int64_t first, int64_t extent, bool descending);
    void counted_loop(const Halide::Internal::For *loop, int64_t first, int64_t extent, bool descending);
    void varying_loop(const Halide::Internal::For *loop, LinearForm first, LinearForm extent);
    bool varying_branch(const Halide::Internal::IfThenElse *branch);
    Loop begin_loop(const Halide::Internal::For *loop, int64_t extent);
    void run_loop(const Halide::Internal::For *loop, Loop result, const LinearForm &variable, Body *destination);
    struct Range {
        int64_t first = 0, count = 0;  // values of a loop's variable
    };
    bool has_constant_bounds(const Halide::Internal::For *loop, const Range &range, bool conditions_may_vary);
    std::vector<Range> alike(const Halide::Internal::For *loop, const Range &all);
    bool must_unroll(const Halide::Internal::For *loop) const;
    bool worth_peeling(const Halide::Internal::For *loop) const;
    Homes settle(const std::set<std::string> &arrays, const std::set<std::string> &in_scalars);
    void keep_apart(const std::set<std::string> &arrays, const Homes &homes);
    void carry(const Homes &homes, Body &body);

    // the weight buffer (match_weights.cpp)
    bool fills_weights(const Halide::Internal::For *loop) const;
    void check_filling(const Halide::Internal::For *loop);

    // copies (match_copy.cpp)
    bool match_copy(const Halide::Internal::Stmt &s);
    void note_result(const Copy &copy);
    bool match_first_iteration(const Halide::Internal::IfThenElse *branch, const LinearForm &condition);

    // constants around copies (match_fill.cpp)
    bool match_filled_copy(const Halide::Internal::Block *block);
    std::optional<std::set<int64_t>> all_places(const LinearForm &form);
    void note_rows(const Copy &copy, const std::set<int64_t> &filled);
    void fill_rows(const Copy &copy, const std::vector<int64_t> &rows, Reg value);
    [[noreturn]] void fill_in_place(int allocation) const;
    void note_lanes(const std::string &name, const Copy &copy);
    bool match_fill_in_place(const Halide::Internal::Store *fill, const std::set<int64_t> &rows, const LinearForm &base);

    // expressions (match_vector.cpp)
    Value evaluate(const Halide::Expr &e);
    Value evaluate_cast(const Halide::Internal::Cast *cast);
    Value evaluate_load(const Halide::Internal::Load *load);
    Value read_register(const Halide::Internal::Load *load, const RegisterArray &array);
    Value evaluate_call(const Halide::Internal::Call *call);
    Value evaluate_product(const Halide::Internal::VectorReduce *reduce);
    Value arithmetic(const Halide::Expr &e, bool rounded_next);
    Value comparison(const Halide::Expr &e);
    Value evaluate_select(const Halide::Internal::Select *select);
    std::optional<Value> first_of_row(const Value &lanes, const Halide::Expr &on, const Halide::Expr &off);
    std::optional<bool> known_here(const Halide::Expr &condition);
    Value divide(const Halide::Expr &e, const Value &a, const Value &b);
    Value binary(Opcode vv, Opcode vs, Value a, Value b, bool commutes);
    Value compare(Opcode vv, Opcode vs, Opcode swapped_vs, const Value &a, const Value &b);
    Value choose(const Value &condition, const Value &on, const Value &off);
    Value round_dot(const Value &dot);
    Reg as_vector(const Value &value);
    Reg constant_vector(float value);
    bool is_bfloat(const Value &value) const;
    LinearForm pad_row(const Halide::Expr &index, int lanes, const std::string &what);

    // single values and masks (match_scalar.cpp)
    Value reduce_lanes(const Halide::Internal::VectorReduce *reduce);
    Value scalar_arithmetic(const Halide::Expr &e, const Value &a, const Value &b);
    Reg copy_scalar(Reg from, Reg to);
    Value scalar_function(Opcode opcode, const Halide::Internal::Call *call);
    Reg as_scalar(const Value &value);
    Value lane_of(Reg vector, int64_t lane);
    Value integer_comparison(const Halide::Expr &e);
    Value integer_equality(const Halide::Expr &a, const Halide::Expr &b, const Halide::Expr &e);
    static std::optional<uint32_t> constant_lanes(const Halide::Expr &condition);
    Value first_lanes(const Halide::Expr &count);
    Value lanes_from(const Halide::Expr &count);
    Reg shifted(int32_t value, LinearForm count);
    Reg constant_mask(uint32_t lanes);
    // A condition as a mask register, and as a scalar register with a bit a lane.
    Reg mask_of(const Value &condition);
    Reg bits_of(const Value &condition);
    Value combine_masks(Opcode opcode, const Value &a, const Value &b);
    Value invert_mask(const Value &mask);
    Reg integer_value(const LinearForm &form);

    // emission
    Reg emit(Op op, RegisterClass cls, const std::string &name);
    Reg copy_vector(Reg from, Reg to);
    void forget_loads(int allocation);
    void forget_loads(int allocation, const LinearForm &row);
    void forget_values();

    [[noreturn]] void fail(const std::string &reason, const Halide::Expr &e) const;
    [[noreturn]] void fail(const std::string &reason, const Halide::Internal::Stmt &s) const;

    Kernel &kernel_;
    bool optimize_;
    IndexScope scope_;
    std::set<std::string> weight_names_;  // allocations that are read as a 32 x 32 weight tile
    std::map<std::string, RegisterArray> arrays_;
    std::map<std::string, Value> named_;  // lets
    std::map<std::string, int> allocations_, tensors_;
    // What lies in memory where the first result will be, and the element it begins at.
    std::map<std::string, int64_t> scratch_;
    int64_t scratch_elements_ = 0, result_elements_ = 0;                   // how far both reach
    std::map<std::string, Reg> numbered_;                                  // value numbering inside a straight line
    std::map<std::pair<int, LinearForm>, std::map<int32_t, Reg>> loaded_;  // the same for rows of allocations, by columns
    std::map<uint32_t, Reg> constant_vectors_, constant_masks_;
    std::set<std::string> filled_names_;  // allocations that a constant is stored to
    FillsInPlace fill_in_place_, brought_in_place_;
    std::set<std::pair<int, int64_t>> filled_rows_;  // allocation and row, filled at the start of the kernel
    std::map<int, std::vector<int8_t>> brought_;     // lanes of each row that copies bring, not_copied before the first
    std::set<int> computed_;                         // allocations written by computation
    int first_of_ = -1;                              // copies here run in the first iteration of this loop only
    std::string loaded_weights_;                     // which tile the weight buffer holds, empty: not known
    int fill_ = 0;                                   // counts fillings of the weight buffer
    bool filling_ = false;
    Body *body_ = nullptr;
    Body entry_;     // runs once, before everything
    int loop_ = -1;  // innermost enclosing loop of the kernel
    int32_t source_ = -1;
};

}  // namespace atalla::codegen
