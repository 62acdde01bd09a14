#include "codegen/match.h"

#include <algorithm>
#include <regex>
#include <sstream>

#include "codegen/halide_loops.h"
#include "codegen/matcher.h"
#include "isa/error.h"

namespace atalla::codegen {

using namespace Halide;
using namespace Halide::Internal;

namespace {

std::string strip_unique(std::string name) {
    if (const size_t dollar = name.find('$'); dollar != std::string::npos) name.resize(dollar);
    return name;
}

// Halide's text of a statement or an expression, without the numbers that make names unique in the process.
template <class Node>
std::string shown(const Node &node) {
    std::ostringstream text;
    text << node;
    static const std::regex number("\\$[0-9]+");
    std::string result = std::regex_replace(text.str(), number, "");
    constexpr size_t limit = 1500;
    if (result.size() > limit) result = result.substr(0, limit) + " ...";
    return result;
}

// Does an expression compute with floating-point values?
bool is_about_floats(const Expr &e) {
    struct Floats : IRVisitor {
        bool found = false;
        using IRVisitor::visit;
        void visit(const FloatImm *) override { found = true; }
        void visit(const Variable *v) override { found |= v->type.is_float(); }
        void visit(const Load *load) override { found |= load->type.is_float(); }
    } visitor;
    e.accept(&visitor);
    return visitor.found;
}

// Only the weight buffer is ever read 1024 lanes wide.
std::set<std::string> weight_tiles(const Stmt &body) {
    struct Wide : IRVisitor {
        std::set<std::string> names;
        using IRVisitor::visit;
        void visit(const Load *load) override {
            if (load->type.lanes() == 1024) names.insert(load->name);
            IRVisitor::visit(load);
        }
    } visitor;
    body.accept(&visitor);
    return std::move(visitor.names);
}

std::set<std::string> stored_constants(const Stmt &body) {
    struct Constants : IRVisitor {
        std::set<std::string> names;
        using IRVisitor::visit;
        void visit(const Store *store) override {
            const auto *splat = store->value.as<Broadcast>();
            if (splat != nullptr && splat->value.as<FloatImm>() != nullptr) names.insert(store->name);
        }
    } visitor;
    body.accept(&visitor);
    return std::move(visitor.names);
}

}  // namespace

void Matcher::fail(const std::string &reason, const Stmt &s) const {
    throw Error(shown("cannot generate code: " + reason) + ", in\n" + shown(s));
}
void Matcher::fail(const std::string &reason, const Expr &e) const { throw Mismatch{reason + ": " + shown(e)}; }

Matcher::Matcher(Kernel &kernel, const LoweredFunc &function, bool optimize, FillsInPlace fill_in_place)
    : kernel_(kernel),
      optimize_(optimize),
      scope_(kernel),
      weight_names_(weight_tiles(function.body)),
      filled_names_(stored_constants(function.body)),
      fill_in_place_(std::move(fill_in_place)) {
    for (const LoweredArgument &argument : function.args) {
        if (!argument.is_buffer())
            throw Error("cannot generate code: scalar argument '" + argument.name + "' is not supported");
        if (argument.type != BFloat(16)) throw Error("cannot generate code: tensor '" + argument.name + "' is not bfloat16");
        tensors_[argument.name] = static_cast<int>(kernel_.tensors.size());
        kernel_.tensors.push_back({argument.name, {}, argument.kind == Argument::OutputBuffer, kernel_.scalar(argument.name)});
    }
}

void Matcher::run(const Stmt &body) {
    Body rest;
    body_ = &rest;
    visit(body);
    if (scratch_elements_ > result_elements_)
        throw Error("cannot generate code: scratch in memory is larger than the result in whose place it lies");
    if (fill_ > 0 && !kernel_.machine->timed()) {
        // Upstream's functional simulator takes the first 32 weight vectors in the opposite order: they are spent here.
        Op push;
        push.opcode = Opcode::lw_vi;
        push.src = {zero_vector};
        for (int column = 0; column < 32; column++) kernel_.body.push_back(push);
    }
    for (Body *part : {&entry_, &rest})
        for (Node &node : *part) kernel_.body.push_back(std::move(node));
}

// What does not match is shown with the innermost statement around it.
void Matcher::visit(const Stmt &s) {
    try {
        dispatch(s);
    } catch (const Mismatch &mismatch) {
        fail(mismatch.reason, s);
    }
}

void Matcher::dispatch(const Stmt &s) {
    if (!s.defined()) return;
    if (const auto *block = s.as<Block>()) {
        if (match_filled_copy(block)) return;
        visit(block->first);
        visit(block->rest);
    } else if (const auto *let = s.as<LetStmt>()) {
        visit_let(let);
    } else if (const auto *node = s.as<ProducerConsumer>()) {
        visit(node->body);
    } else if (const auto *allocate = s.as<Allocate>()) {
        visit_allocate(allocate);
    } else if (s.as<Free>() != nullptr) {
    } else if (const auto *evaluated = s.as<Evaluate>(); evaluated != nullptr && is_const(evaluated->value)) {
    } else if (const auto *loop = s.as<For>()) {
        if (!match_copy(s)) visit_loop(loop);
    } else if (const auto *store = s.as<Store>()) {
        if (!match_copy(s)) visit_store(store);
    } else if (const auto *branch = s.as<IfThenElse>()) {
        visit_branch(branch);
    } else {
        fail("this kind of statement has no translation", s);
    }
}

void Matcher::visit_let(const LetStmt *let) {
    const Type type = let->value.type();
    if (type.is_handle()) {
        visit(let->body);
    } else if (type.is_bool() ? is_about_floats(let->value) : type.is_float()) {
        named_[let->name] = evaluate(let->value);
        visit(let->body);
        named_.erase(let->name);
    } else if (type.is_bool() && type.is_scalar()) {
        scope_.bind_condition(let->name, let->value);
        visit(let->body);
    } else if (type.is_scalar()) {
        scope_.bind(let->name, scope_.linear(let->value));
        visit(let->body);
        scope_.unbind(let->name);
    } else {
        visit(substitute(let->name, let->value, let->body));  // indices of lanes
    }
}

void Matcher::visit_branch(const IfThenElse *branch) {
    const auto unknown = [&](const std::string &why) {
        fail("there is no code for a statement under a condition (split with ShiftInwards, or bound the tile)" + why,
             Stmt(branch));
    };
    try {
        const LinearForm condition = scope_.linear(select(branch->condition, 1, 0));
        if (condition.is_constant())
            visit(condition.constant != 0 ? branch->then_case : branch->else_case);
        else if (!match_first_iteration(branch, condition) && !varying_branch(branch))
            unknown("");
    } catch (const Mismatch &mismatch) {
        unknown("; " + mismatch.reason);
    }
}

void Matcher::visit_allocate(const Allocate *allocate) {
    int64_t elements = 1;
    for (const Expr &extent : allocate->extents) {
        const LinearForm size = scope_.linear(extent);
        if (!size.is_constant())
            fail("the size of '" + allocate->name + "' is not a constant (use bound_storage)", Stmt(allocate));
        elements *= size.constant;
    }
    if (allocate->memory_type == MemoryType::VTCM) {
        if (allocate->type != BFloat(16)) fail("'" + allocate->name + "' in the pads is not bfloat16", Stmt(allocate));
        if (elements % 32 != 0)
            fail("rows of '" + allocate->name + "' in the pads are not whole vectors of 32 lanes", Stmt(allocate));
        // A peeled or unrolled loop allocates the same buffer several times, one after the other and not always as large.
        const auto [it, inserted] = allocations_.try_emplace(allocate->name, static_cast<int>(kernel_.allocations.size()));
        if (inserted) {
            Allocation allocation;
            allocation.name = strip_unique(allocate->name);
            kernel_.allocations.push_back(std::move(allocation));
        }
        int64_t &rows = kernel_.allocations[static_cast<size_t>(it->second)].rows;
        rows = std::max(rows, elements / 32);
    } else if (allocate->memory_type == MemoryType::Register) {
        RegisterArray array{strip_unique(allocate->name), allocate->type, weight_names_.count(allocate->name) > 0, 0, {}};
        if (array.type != BFloat(16) && array.type != Float(32))
            fail("'" + allocate->name + "' in registers is neither bfloat16 nor float32", Stmt(allocate));
        if (array.weights && (elements != 1024 || array.type != BFloat(16)))
            fail("the weight tile '" + allocate->name + "' is not 32 x 32 elements of bfloat16", Stmt(allocate));
        arrays_[allocate->name] = std::move(array);
    } else if (allocate->memory_type == MemoryType::Heap) {
        scratch_in_result(allocate, elements);
    } else {
        fail("'" + allocate->name +
                 "' has no placement: store_in(VTCM) for the pads, store_in(Register), or store_in(Heap) "
                 "for scratch in memory",
             Stmt(allocate));
    }
    visit(allocate->body);
    arrays_.erase(allocate->name);
}

// Scratch in memory lies where a result will be, which nothing has been written to yet.
void Matcher::scratch_in_result(const Allocate *allocate, int64_t elements) {
    if (allocate->type != BFloat(16)) fail("'" + allocate->name + "' in memory is not bfloat16", Stmt(allocate));
    tensors_[allocate->name] = first_result();
    if (scratch_.try_emplace(allocate->name, scratch_elements_).second) scratch_elements_ += elements;
}

int Matcher::first_result() const {
    return static_cast<int>(std::ranges::find_if(kernel_.tensors, &Tensor::output) - kernel_.tensors.begin());
}

int32_t Matcher::source_of(const SourceLocation &location) {
    const auto found = std::find(kernel_.sources.begin(), kernel_.sources.end(), location);
    const auto index = static_cast<int32_t>(found - kernel_.sources.begin());
    if (found == kernel_.sources.end()) kernel_.sources.push_back(location);
    return index;
}

void Matcher::visit_store(const Store *store) {
    source_ = source_of({strip_unique(store->name), loop_ < 0 ? "" : split_loop_name(kernel_.loops[loop_].name).variable, ""});
    if (!is_const_one(store->predicate)) fail("a store has a predicate", Stmt(store));
    if (const auto array = arrays_.find(store->name); array != arrays_.end()) {
        store_to_registers(store, array->second);
        return;
    }
    const auto found = allocations_.find(store->name);
    if (found == allocations_.end())
        fail("'" + store->name + "' is written by computation; outputs are written by copies from the pads", Stmt(store));
    const int allocation = found->second;
    if (store->value.type().is_scalar())
        fail("a single value is stored to '" + store->name +
                 "' in the pads, which hold whole vectors; keep it in Register, or "
                 "replicate it over 32 lanes",
             Stmt(store));
    if (brought_.count(allocation)) fill_in_place(allocation);
    computed_.insert(allocation);
    if (fill_in_place_.count(store->name)) {
        const auto *splat = store->value.as<Broadcast>();
        if (splat == nullptr || splat->value.as<FloatImm>() == nullptr)
            brought_in_place_[store->name].assign(static_cast<size_t>(kernel_.allocations[allocation].rows), 32);
    }
    Op op;
    op.opcode = Opcode::vreg_st;
    op.access = PadAccess{allocation, pad_row(store->index, store->value.type().lanes(), store->name), {}};
    op.src = {Reg{}, Reg{}, as_vector(evaluate(store->value))};
    op.imm = 31;
    op.source = source_;
    forget_loads(allocation, op.access->row);
    body_->push_back(op);
}

void Matcher::store_to_registers(const Store *store, RegisterArray &array) {
    const Ramp *ramp = store->index.as<Ramp>();
    const int width = store->value.type().lanes();
    if (width != 1 && (ramp == nullptr || width != 32 || !is_const_one(ramp->stride)))
        fail("a register array is written other than one value or 32 neighbouring lanes at a time", Stmt(store));
    if (array.weights) {
        if (!filling_) fail("the weight tile '" + store->name + "' is not filled by one loop over its 32 vectors", Stmt(store));
        Op push;
        push.opcode = Opcode::lw_vi;
        push.src = {as_vector(evaluate(store->value))};
        push.source = source_;
        body_->push_back(push);
        return;
    }
    const LinearForm index = scope_.linear(width == 1 ? store->index : ramp->base);
    if (!index.is_constant()) fail("a register array is indexed by a loop that was not unrolled", Stmt(store));
    if (index.constant % width != 0) fail("lanes of two registers are written at once", Stmt(store));
    if (array.width != 0 && array.width != width)
        fail("'" + store->name + "' in Register is written both as vectors and as single values", Stmt(store));
    Value value = evaluate(store->value);
    if (value.kind == Value::Mask) fail("a comparison is used as a number", Stmt(store));
    // A rounded dot product leaves the array at once, before the weights change.
    if (value.kind == Value::Dot && array.type == BFloat(16)) value = round_dot(value);
    array.width = width;
    array.elements[index.constant] = value;
}

Kernel match(const LoweredFunc &function, const Machine &machine, bool optimize) {
    FillsInPlace fills;
    for (;;) {
        Kernel kernel;
        kernel.machine = &machine;
        Matcher matcher(kernel, function, optimize, fills);
        try {
            matcher.run(function.body);
            if (!matcher.learn(fills)) return kernel;
        } catch (const FillInPlace &again) {
            fills.try_emplace(again.name);
        }
    }
}

}  // namespace atalla::codegen
