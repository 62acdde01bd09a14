#include "codegen/match.h"

#include <algorithm>
#include <sstream>

#include <fmt/format.h>

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

std::string shown(const Stmt &s) {
    std::ostringstream text;
    text << s;
    std::string result = text.str();
    constexpr size_t limit = 1500;
    if (result.size() > limit) result = result.substr(0, limit) + " ...";
    return result;
}

// Does any store inside go to one of the names?
class StoresTo : public IRVisitor {
public:
    std::set<std::string> names;
    using IRVisitor::visit;
    void visit(const Store *op) override {
        names.insert(op->name);
        IRVisitor::visit(op);
    }
};

// Does an index of an access to one of the given arrays use the variable?
class IndexesArray : public IRVisitor {
public:
    IndexesArray(const std::set<std::string> &arrays, std::string variable) : arrays_(arrays) { tainted_.insert(std::move(variable)); }
    bool found = false;
    using IRVisitor::visit;
    void visit(const LetStmt *op) override {
        taint(op->name, op->value);
        IRVisitor::visit(op);
    }
    void visit(const Let *op) override {
        taint(op->name, op->value);
        IRVisitor::visit(op);
    }
    void visit(const Load *op) override {
        check(op->name, op->index);
        IRVisitor::visit(op);
    }
    void visit(const Store *op) override {
        check(op->name, op->index);
        IRVisitor::visit(op);
    }

private:
    bool uses(const Expr &e) {
        struct Uses : IRVisitor {
            const std::set<std::string> &names;
            bool found = false;
            explicit Uses(const std::set<std::string> &n) : names(n) {}
            using IRVisitor::visit;
            void visit(const Variable *v) override { found |= names.count(v->name) > 0; }
        } visitor(tainted_);
        e.accept(&visitor);
        return visitor.found;
    }
    void taint(const std::string &name, const Expr &value) {
        if (uses(value)) tainted_.insert(name);
    }
    void check(const std::string &name, const Expr &index) {
        if (arrays_.count(name) && uses(index)) found = true;
    }
    const std::set<std::string> &arrays_;
    std::set<std::string> tainted_;
};

}  // namespace

void Matcher::fail(const std::string &reason, const Stmt &s) const {
    throw Error("cannot generate code: " + reason + ", in\n" + shown(s));
}
void Matcher::fail(const std::string &reason, const Expr &e) const {
    std::ostringstream text;
    text << e;
    throw Error("cannot generate code: " + reason + ", in " + text.str().substr(0, 600));
}

Matcher::Matcher(Kernel &kernel, const LoweredFunc &function, bool optimize)
    : kernel_(kernel), optimize_(optimize), scope_(kernel) {
    for (const LoweredArgument &argument : function.args) {
        if (!argument.is_buffer()) throw Error("cannot generate code: scalar argument '" + argument.name + "' is not supported");
        tensors_[argument.name] = static_cast<int>(kernel_.tensors.size());
        kernel_.tensors.push_back({argument.name, {}, argument.kind == Argument::OutputBuffer, kernel_.scalar(argument.name)});
    }
}

void Matcher::run(const Stmt &body) {
    Body rest;
    body_ = &rest;
    visit(body);
    kernel_.body = std::move(entry_);
    for (Node &node : rest) kernel_.body.push_back(std::move(node));
}

void Matcher::visit(const Stmt &s) {
    if (!s.defined()) return;
    if (const auto *block = s.as<Block>()) {
        if (match_filled_copy(block)) return;
        visit(block->first);
        visit(block->rest);
    } else if (const auto *let = s.as<LetStmt>()) {
        if (let->value.type().is_handle()) {
            visit(let->body);
        } else if (let->value.type().is_bool() && let->value.type().is_scalar()) {
            scope_.bind_condition(let->name, let->value);
            visit(let->body);
        } else if (let->value.type().is_scalar() && (let->value.type().is_int() || let->value.type().is_uint())) {
            scope_.bind(let->name, scope_.linear(let->value));
            visit(let->body);
            scope_.unbind(let->name);
        } else {
            vector_lets_[let->name] = let->value;
            visit(let->body);
            vector_lets_.erase(let->name);
        }
    } else if (const auto *node = s.as<ProducerConsumer>()) {
        visit(node->body);
    } else if (const auto *allocate = s.as<Allocate>()) {
        visit_allocate(allocate);
    } else if (s.as<Free>() != nullptr) {
    } else if (const auto *loop = s.as<For>()) {
        if (!match_copy(s)) visit_loop(loop);
    } else if (const auto *store = s.as<Store>()) {
        if (!match_copy(s)) visit_store(store);
    } else {
        fail("this kind of statement has no translation", s);
    }
}

void Matcher::visit_allocate(const Allocate *allocate) {
    int64_t elements = 1;
    for (const Expr &extent : allocate->extents) {
        const LinearForm size = scope_.linear(extent);
        if (!size.is_constant()) fail("the size of '" + allocate->name + "' is not a constant (use bound_storage)", Stmt(allocate));
        elements *= size.constant;
    }
    if (allocate->memory_type == MemoryType::VTCM) {
        if (allocate->type != BFloat(16)) fail("'" + allocate->name + "' in the pads is not bfloat16", Stmt(allocate));
        if (elements % 32 != 0) fail("rows of '" + allocate->name + "' in the pads are not whole vectors of 32 lanes", Stmt(allocate));
        allocations_[allocate->name] = static_cast<int>(kernel_.allocations.size());
        Allocation allocation;
        allocation.name = strip_unique(allocate->name);
        allocation.rows = elements / 32;
        kernel_.allocations.push_back(std::move(allocation));
    } else if (allocate->memory_type == MemoryType::Register) {
        RegisterArray array{strip_unique(allocate->name), allocate->type, elements, false, {}};
        array.weights = allocate->type == BFloat(16) && elements == 1024 && [&] {
            // Only the weight buffer is ever loaded 1024 lanes wide.
            struct Wide : IRVisitor {
                std::string name;
                bool found = false;
                using IRVisitor::visit;
                void visit(const Load *op) override {
                    found |= op->name == name && op->type.lanes() == 1024;
                    IRVisitor::visit(op);
                }
            } wide;
            wide.name = allocate->name;
            allocate->body.accept(&wide);
            return wide.found;
        }();
        arrays_[allocate->name] = std::move(array);
    } else {
        fail("'" + allocate->name + "' has no placement: store_in(VTCM) for the pads or store_in(Register)", Stmt(allocate));
    }
    visit(allocate->body);
    arrays_.erase(allocate->name);
}

bool Matcher::must_unroll(const For *loop) const {
    if (split_loop_name(loop->name).variable.ends_with("_unroll")) return true;
    std::set<std::string> names;
    for (const auto &[name, array] : arrays_)
        if (!array.weights) names.insert(name);
    IndexesArray visitor(names, loop->name);
    loop->body.accept(&visitor);
    return visitor.found;
}

bool Matcher::fills_weights(const For *loop) const {
    StoresTo stores;
    loop->body.accept(&stores);
    if (stores.names.empty()) return false;
    return std::all_of(stores.names.begin(), stores.names.end(), [&](const std::string &name) {
        const auto it = arrays_.find(name);
        return it != arrays_.end() && it->second.weights;
    });
}

void Matcher::visit_loop(const For *loop) {
    if (loop->for_type != ForType::Serial) fail("only serial loops can be executed", Stmt(loop));
    const LoopShape shape = loop_shape(loop);
    const LinearForm first = scope_.linear(shape.first), extent = scope_.linear(shape.extent);
    if (!extent.is_constant() || !first.is_constant())
        fail("the bounds of loop '" + loop->name + "' are not constants (bound the tile, or split with ShiftInwards)", Stmt(loop));
    if (extent.constant <= 0) return;
    // The weight buffer shifts: the last vector goes in first.
    const bool descending = fills_weights(loop);
    if (extent.constant == 1 || must_unroll(loop)) {
        unroll(loop, first.constant, extent.constant, descending);
    } else if (optimize_ && !descending && worth_peeling(loop)) {
        unroll(loop, first.constant, 1, false);
        if (extent.constant == 2)
            unroll(loop, first.constant + 1, 1, false);
        else
            counted_loop(loop, first.constant + 1, extent.constant - 1, false);
    } else {
        counted_loop(loop, first.constant, extent.constant, descending);
    }
}

// A first iteration apart is worth it where it starts accumulators that are still known constants: the additions go.
bool Matcher::worth_peeling(const For *loop) const {
    StoresTo stores;
    loop->body.accept(&stores);
    for (const std::string &name : stores.names) {
        const auto it = arrays_.find(name);
        if (it == arrays_.end() || it->second.weights) continue;
        for (const auto &[lane, value] : it->second.lanes)
            if (value.kind == Value::Constant) return true;
    }
    return false;
}

void Matcher::unroll(const For *loop, int64_t first, int64_t extent, bool descending) {
    for (int64_t i = 0; i < extent; i++) {
        scope_.bind(loop->name, {first + (descending ? extent - 1 - i : i), {}});
        visit(loop->body);
    }
    scope_.unbind(loop->name);
}

void Matcher::counted_loop(const For *loop, int64_t first, int64_t extent, bool descending) {
    StoresTo stores;
    loop->body.accept(&stores);
    std::set<std::string> carried;
    for (const std::string &name : stores.names) {
        const auto it = arrays_.find(name);
        if (it != arrays_.end() && !it->second.weights) carried.insert(name);
    }
    settle(carried);
    std::map<std::pair<std::string, int64_t>, Reg> homes;
    for (const std::string &name : carried)
        for (const auto &[lane, value] : arrays_[name].lanes) homes[{name, lane}] = value.reg;
    numbered_.clear();

    const int id = static_cast<int>(kernel_.loops.size());
    const LoopName name = split_loop_name(loop->name);
    kernel_.loops.push_back({loop->name, extent, loop_, kernel_.scalar(name.variable)});
    LinearForm variable = scope_.loop_variable(id);   // counts 0 .. extent-1
    if (descending) {
        variable = variable.scaled(-1);
        variable.constant = first + extent - 1;
    } else {
        variable.constant = first;
    }
    scope_.bind(loop->name, variable);

    Loop result{id, extent, 0, name.func + "." + name.variable, {}};
    Body *outer_body = std::exchange(body_, &result.body);
    const int outer_loop = std::exchange(loop_, id);
    visit(loop->body);
    carry(homes, result.body);
    body_ = outer_body;
    loop_ = outer_loop;
    scope_.unbind(loop->name);
    numbered_.clear();
    body_->push_back(std::move(result));
}

// Before a loop: every carried variable that has a value gets a register of its own that holds it.
void Matcher::settle(const std::set<std::string> &arrays) {
    std::set<Reg> taken;
    for (auto &[name, array] : arrays_)
        for (auto &[lane, value] : array.lanes)
            if (!arrays.count(name) && value.kind == Value::Vector) taken.insert(value.reg);
    for (const std::string &name : arrays) {
        for (auto &[lane, value] : arrays_[name].lanes) {
            if (value.kind == Value::Dot || value.kind == Value::Mask)
                throw Error("cannot generate code: '" + name + "' carries a value that no register can hold into a loop");
            const bool own = value.kind == Value::Vector && value.reg != zero_vector && taken.insert(value.reg).second &&
                             std::none_of(constant_vectors_.begin(), constant_vectors_.end(),
                                          [&](const auto &entry) { return entry.second == value.reg; });
            if (own) continue;
            Op move;
            move.opcode = Opcode::mul_vs;
            if (value.kind == Value::Constant && value.constant == 0) {
                // +0 or -0 from 0 times +1 or -1.
                move.src = {zero_vector, kernel_.constant(std::signbit(value.constant) ? 0xBF800000 : 0x3F800000)};
            } else {
                move.opcode = Opcode::sub_vv;
                move.src = {as_vector(value), zero_vector};
            }
            const Reg home = kernel_.vector(strip_unique(name));
            move.dst = home;
            move.source = source_;
            body_->push_back(move);
            value = Value::of_vector(home);
            taken.insert(home);
        }
    }
}

// After a loop body: every carried variable is back in the register it came in with. Where the operation that made the new
// value can write that register itself, it does.
void Matcher::carry(const std::map<std::pair<std::string, int64_t>, Reg> &homes, Body &body) {
    for (const auto &[key, home] : homes) {
        Value &value = arrays_[key.first].lanes[key.second];
        if (value.kind == Value::Vector && value.reg == home) continue;
        const Reg made = value.kind == Value::Vector ? value.reg : Reg{};
        // Rename `made` to `home` if it is made in this body and `home` is not read after that.
        bool renamed = false;
        if (made.defined()) {
            for (size_t i = body.size(); i-- > 0;) {
                if (!body[i].op) break;
                Op &op = *body[i].op;
                if (op.dst == made) {
                    if (op.keeps_dst) break;
                    op.dst = home;
                    for (size_t j = i + 1; j < body.size(); j++)
                        for (Reg &r : body[j].op->src)
                            if (r == made) r = home;
                    renamed = true;
                    break;
                }
                if (std::find(op.src.begin(), op.src.end(), home) != op.src.end() || op.dst == home) break;
            }
            // Another variable with the same register would change with it.
            if (renamed)
                for (auto &[name, array] : arrays_)
                    for (auto &[lane, other] : array.lanes)
                        if (other.kind == Value::Vector && other.reg == made) other.reg = home;
        }
        if (!renamed) {
            Op move;
            move.opcode = Opcode::sub_vv;
            move.dst = home;
            move.src = {as_vector(value), zero_vector};
            move.source = source_;
            body.push_back(move);
        }
        value = Value::of_vector(home);
    }
}

void Matcher::visit_store(const Store *store) {
    const LoopName name = split_loop_name(kernel_.loops.empty() || loop_ < 0 ? store->name + "." : kernel_.loops[loop_].name);
    const SourceLocation location{strip_unique(store->name), name.variable, ""};
    const auto found = std::find(kernel_.sources.begin(), kernel_.sources.end(), location);
    source_ = static_cast<int32_t>(found - kernel_.sources.begin());
    if (found == kernel_.sources.end()) kernel_.sources.push_back(location);
    if (!is_const_one(store->predicate)) fail("a store has a predicate", Stmt(store));

    const auto array = arrays_.find(store->name);
    if (array != arrays_.end()) {
        const Ramp *ramp = store->index.as<Ramp>();
        if (ramp == nullptr || ramp->lanes != 32 || !is_const_one(ramp->stride))
            fail("a register array is written other than 32 lanes at a time", Stmt(store));
        const LinearForm index = scope_.linear(ramp->base);
        Value value = evaluate(store->value);
        if (array->second.weights) {
            Op push;
            push.opcode = Opcode::lw_vi;
            push.src = {as_vector(value)};
            push.source = source_;
            body_->push_back(push);
            numbered_.clear();
            return;
        }
        if (!index.is_constant() || index.constant % 32 != 0) fail("a register array is indexed by a loop that was not unrolled", Stmt(store));
        // A dot product leaves the array before the weights change.
        if (value.kind == Value::Dot && array->second.type == BFloat(16)) value = round_dot(value);
        array->second.lanes[index.constant / 32] = value;
        return;
    }
    const auto allocation = allocations_.find(store->name);
    if (allocation == allocations_.end()) fail("'" + store->name + "' is written by computation; outputs are written by copies from the pads", Stmt(store));
    Op op;
    op.opcode = Opcode::vreg_st;
    op.access = PadAccess{allocation->second, pad_row(store->index, store->value.type().lanes(), store->name), {}};
    op.src = {Reg{}, Reg{}, as_vector(evaluate(store->value))};
    op.imm = 31;
    op.source = source_;
    forget_loads(allocation->second);
    body_->push_back(op);
}

Kernel match(const LoweredFunc &function, const Machine &machine, bool optimize) {
    Kernel kernel;
    kernel.machine = &machine;
    Matcher(kernel, function, optimize).run(function.body);
    return kernel;
}

}  // namespace atalla::codegen
