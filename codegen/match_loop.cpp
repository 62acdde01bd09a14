// The matcher's loops, and the register variables that they carry from one iteration to the next.
#include <algorithm>

#include <fmt/format.h>

#include "codegen/halide_loops.h"
#include "codegen/matcher.h"

namespace atalla::codegen {

using namespace Halide;
using namespace Halide::Internal;

namespace {

std::set<std::string> stored_names(const Stmt &s) {
    struct StoresTo : IRVisitor {
        std::set<std::string> names;
        using IRVisitor::visit;
        void visit(const Store *op) override {
            names.insert(op->name);
            IRVisitor::visit(op);
        }
    } visitor;
    s.accept(&visitor);
    return std::move(visitor.names);
}

// Register arrays of single float32 values that a loop computes in float32: the scalar unit does.
std::set<std::string> scalar_names(const Stmt &s) {
    struct Scalars : IRVisitor {
        std::set<std::string> names;
        using IRVisitor::visit;
        void visit(const Store *op) override {
            if (op->value.type() != Float(32)) return;
            const auto *call = op->value.as<Call>();
            const bool strict =
                call != nullptr && (call->is_intrinsic(Call::strict_add) || call->is_intrinsic(Call::strict_sub) ||
                                    call->is_intrinsic(Call::strict_mul));
            if (strict || op->value.as<Add>() != nullptr || op->value.as<Sub>() != nullptr || op->value.as<Mul>() != nullptr)
                names.insert(op->name);
        }
    } visitor;
    s.accept(&visitor);
    return std::move(visitor.names);
}

// Does an index of an access to one of the given arrays use the variable?
class IndexesArray : public IRVisitor {
public:
    IndexesArray(const std::set<std::string> &arrays, std::string variable) : arrays_(arrays) {
        tainted_.insert(std::move(variable));
    }
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

static bool is_over_domain(const For *loop, const char *ending) {
    const std::string &name = split_loop_name(loop->name).variable;
    return name.substr(0, name.find('$')).ends_with(ending);
}
// A loop over an RDom whose name ends in "_varying" may run a different number of times in each turn of the loops around it.
static bool may_vary(const For *loop) { return is_over_domain(loop, "_varying"); }
// A loop over a single element of such a domain is lowered to a condition: the first loop inside over another dimension of it,
// or a part of one. Null for other conditions.
static const For *inside_varying_condition(const IfThenElse *branch) {
    if (branch->else_case.defined() || branch->condition.as<LT>() == nullptr) return nullptr;
    struct Finder : IRVisitor {
        const For *found = nullptr;
        using IRVisitor::visit;
        void visit(const For *loop) override {
            if (found == nullptr && loop->name.find("_varying$") != std::string::npos) found = loop;
            IRVisitor::visit(loop);
        }
    } finder;
    branch->then_case.accept(&finder);
    return finder.found;
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

void Matcher::visit_loop(const For *loop) {
    if (loop->for_type != ForType::Serial) fail("only serial loops can be executed", Stmt(loop));
    const LoopShape shape = loop_shape(loop);
    const LinearForm first = scope_.linear(shape.first), extent = scope_.linear(shape.extent);
    if (may_vary(loop) && !extent.is_constant()) return varying_loop(loop, first, extent);
    if (!extent.is_constant() || !first.is_constant())
        fail("the bounds of loop '" + loop->name + "' are not constants (bound the tile, or split with ShiftInwards)",
             Stmt(loop));
    if (extent.constant <= 0) return;
    const bool descending = fills_weights(loop), outermost = descending && !filling_;
    if (outermost) {
        check_filling(loop);
        filling_ = true;
    }
    if (must_unroll(loop)) {
        unroll(loop, first.constant, extent.constant, descending);
    } else {
        std::vector<Range> ranges = {{first.constant, extent.constant}};
        if (!descending) ranges = alike(loop, ranges[0]);
        if (optimize_ && !descending && ranges[0].count > 1 && worth_peeling(loop)) {
            ranges.insert(ranges.begin(), {ranges[0].first, 1});
            ranges[1] = {ranges[1].first + 1, ranges[1].count - 1};
        }
        for (const Range &range : ranges) {
            if (range.count == 1)
                unroll(loop, range.first, 1, false);
            else
                counted_loop(loop, range.first, range.count, descending);
        }
    }
    if (outermost) filling_ = false;
}

// ---- iterations that differ

// Are the bounds of all loops inside, and all conditions, or those that varying_branch() has no code for, constant as far as
// they depend on this loop, while it runs through the range?
bool Matcher::has_constant_bounds(const For *loop, const Range &range, bool conditions_may_vary) {
    if (range.count == 1) return true;
    const size_t loops = kernel_.loops.size(), atoms = kernel_.atoms.size(), registers = kernel_.registers.size();
    IndexScope scope = scope_;
    const auto enter = [&](const For *l, int64_t first, int64_t count) {
        const int id = static_cast<int>(kernel_.loops.size());
        kernel_.loops.push_back({fmt::format("{}#{}", l->name, id), count, -1, Reg{}});
        LinearForm variable = scope.loop_variable(id);
        variable.constant = first;
        scope.bind(l->name, variable);
        return id;
    };
    const int id = enter(loop, range.first, range.count);
    const std::string name = kernel_.loops[id].name;
    const auto depends = [&](const LinearForm &form) {
        return std::any_of(form.terms.begin(), form.terms.end(),
                           [&](const auto &term) { return expr_uses_var(kernel_.atoms[term.first].expr, name); });
    };
    bool constant = true;
    struct Bounds : IRVisitor {
        std::function<bool(const LetStmt *)> let;
        std::function<bool(const For *)> loop;
        std::function<bool(const IfThenElse *)> branch;
        using IRVisitor::visit;
        void visit(const LetStmt *op) override {
            if (let(op)) op->body.accept(this);
        }
        void visit(const For *op) override {
            if (loop(op)) op->body.accept(this);
        }
        void visit(const IfThenElse *op) override {
            if (branch(op)) IRVisitor::visit(op);
        }
        void visit(const Store *) override {}
    } bounds;
    bounds.let = [&](const LetStmt *op) {
        if (op->value.type().is_bool() && op->value.type().is_scalar()) scope.bind_condition(op->name, op->value);
        if (!op->value.type().is_scalar() || !op->value.type().is_int()) return true;
        try {
            scope.bind(op->name, scope.linear(op->value));
        } catch (const Mismatch &) {
            // Of no use in a bound; where it is, that does not match either.
        }
        return true;
    };
    bounds.loop = [&](const For *op) {
        try {
            const LoopShape shape = loop_shape(op);
            const LinearForm first = scope.linear(shape.first), extent = scope.linear(shape.extent);
            if (!may_vary(op) && (depends(first) || depends(extent)) && scope.first_iteration_only(extent) < 0)
                constant = false;
            enter(op, first.is_constant() ? first.constant : 0, extent.is_constant() ? extent.constant : 0);
        } catch (const Mismatch &) {
            return false;
        }
        return constant;
    };
    bounds.branch = [&](const IfThenElse *op) {
        if (conditions_may_vary && inside_varying_condition(op) != nullptr) return true;
        try {
            for (const Expr &part : conjuncts(op->condition)) {
                const LinearForm condition = scope.linear(select(part, 1, 0));
                if (depends(condition) && scope.first_iteration_only(condition) < 0) constant = false;
            }
        } catch (const Mismatch &) {
            return false;
        }
        return constant;
    };
    loop->body.accept(&bounds);
    kernel_.loops.resize(loops);
    kernel_.atoms.resize(atoms);
    kernel_.registers.resize(registers);
    return constant;
}

// Cuts a loop so that the bounds of the loops inside are the same in all iterations of a range. Tails differ at the end,
// borders also at the start.
std::vector<Matcher::Range> Matcher::alike(const For *loop, const Range &all) {
    struct UsesInBounds : IRVisitor {
        std::set<std::string> tainted;
        bool of_loops = false, of_branches = false;
        using IRVisitor::visit;
        bool uses(const Expr &e) const {
            return std::any_of(tainted.begin(), tainted.end(), [&](const std::string &name) { return expr_uses_var(e, name); });
        }
        void visit(const LetStmt *op) override {
            if (uses(op->value)) tainted.insert(op->name);
            op->body.accept(this);
        }
        void visit(const For *op) override {
            const LoopShape shape = loop_shape(op);
            of_loops |= uses(shape.first) || uses(shape.extent);
            op->body.accept(this);
        }
        void visit(const IfThenElse *op) override {
            of_branches |= uses(op->condition);
            IRVisitor::visit(op);
        }
        void visit(const Store *) override {}
    } bounds;
    bounds.tainted.insert(loop->name);
    loop->body.accept(&bounds);
    if (!(bounds.of_loops || bounds.of_branches) || all.count == 1 || has_constant_bounds(loop, all, false)) return {all};
    const auto [first, count] = all;
    // Few iterations at either end, as few as possible; those at the end rather than those at the start.
    constexpr int64_t most_apart = 8;
    for (const bool conditions_may_vary : {false, true})
        for (int64_t apart = conditions_may_vary ? 0 : 1; apart <= std::min(most_apart, count - 1); apart++)
            for (int64_t at_start = 0; at_start <= apart; at_start++) {
                const Range middle{first + at_start, count - apart};
                if (!has_constant_bounds(loop, middle, conditions_may_vary)) continue;
                std::vector<Range> ranges;
                for (int64_t i = 0; i < at_start; i++) ranges.push_back({first + i, 1});
                ranges.push_back(middle);
                for (int64_t i = middle.first + middle.count; i < first + count; i++) ranges.push_back({i, 1});
                return ranges;
            }
    // Conditions that differ all along: each iteration by itself is long code, where there would be none.
    constexpr int64_t most_single = 64;
    if (bounds.of_loops || count > most_single) return {all};
    std::vector<Range> single;
    for (int64_t i = first; i < first + count; i++) single.push_back({i, 1});
    return single;
}

// A first iteration apart is worth it where it starts accumulators that are still known constants: the additions go; and where
// several start as one vector, of which each would need a copy. Those of the scalar unit do not pay for code that is twice as
// long, and a loop over an RDom whose name ends in "_alike" does without.
bool Matcher::worth_peeling(const For *loop) const {
    if (is_over_domain(loop, "_alike")) return false;
    const std::set<std::string> scalars = scalar_names(loop->body);
    for (const std::string &name : stored_names(loop->body)) {
        const auto it = arrays_.find(name);
        if (it == arrays_.end() || it->second.weights || scalars.count(name) > 0) continue;
        std::set<Reg> starts;
        for (const auto &[element, value] : it->second.elements)
            if (value.kind == Value::Constant || (value.kind == Value::Vector && !starts.insert(value.reg).second)) return true;
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
    Loop result = begin_loop(loop, extent);
    LinearForm variable = scope_.loop_variable(result.id);  // counts 0 .. extent-1
    if (descending) variable = variable.scaled(-1);
    variable.constant = descending ? first + extent - 1 : first;
    run_loop(loop, std::move(result), variable, body_);
}

// How often it runs is computed in front of it; a branch around it is for the turns in which it does not run at all. A first
// iteration that is worth peeling is where another is sure to follow.
void Matcher::varying_loop(const For *loop, LinearForm first, LinearForm extent) {
    std::optional<Limits> limits = scope_.range(extent);
    if (!limits) fail("how often loop '" + loop->name + "' runs has no bounds", Stmt(loop));
    if (limits->high <= 0) return;
    // Behind many iterations it matters more that the nest is short.
    constexpr int64_t few_iterations = 16;
    if (optimize_ && limits->low > 1 && limits->high <= few_iterations && worth_peeling(loop)) {
        scope_.bind(loop->name, first);
        visit(loop->body);
        scope_.unbind(loop->name);
        first.constant++;
        extent.constant--;
        limits->low--;
        limits->high--;
    }
    Loop result = begin_loop(loop, limits->high);
    LoopInfo &info = kernel_.loops[static_cast<size_t>(result.id)];
    info.last = kernel_.scalar("last");
    info.least = std::max<int64_t>(1, limits->low);
    info.last_value = extent;
    info.last_value->constant -= 1;
    Op last;
    last.opcode = Opcode::addi_s;
    last.dst = info.last;
    last.value = info.last_value;
    last.source = source_;
    body_->push_back(last);
    LinearForm variable = scope_.loop_variable(result.id);
    variable += first;
    if (limits->low > 0) return run_loop(loop, std::move(result), variable, body_);
    Op any;
    any.opcode = Opcode::slt_s;
    any.dst = kernel_.scalar("any");
    any.src = {kernel_.constant(-1), info.last};
    any.source = source_;
    body_->push_back(any);
    If sometimes{any.dst, {}};
    run_loop(loop, std::move(result), variable, &sometimes.body);
    body_->push_back(std::move(sometimes));
}

// One turn or none.
bool Matcher::varying_branch(const IfThenElse *branch) {
    const For *inside = inside_varying_condition(branch);
    if (inside == nullptr) return false;
    const auto *less = branch->condition.as<LT>();
    const Stmt once = For::make(inside->name + "_once", 0, max(min(less->b - less->a, 1), 0), ForType::Serial, Partition::Auto,
                                DeviceAPI::None, branch->then_case);
    const auto *loop = once.as<For>();
    varying_loop(loop, {0, {}}, scope_.linear(loop_shape(loop).extent));
    return true;
}

// A loop of the lowered code can be several here (peeled, or in an unrolled one): each has its own name and variable.
Loop Matcher::begin_loop(const For *loop, int64_t extent) {
    const int id = static_cast<int>(kernel_.loops.size());
    const LoopName name = split_loop_name(loop->name);
    kernel_.loops.push_back({fmt::format("{}#{}", loop->name, id), extent, loop_, kernel_.scalar(name.variable), {}, 0});
    return {id, extent, 0, name.func + "." + name.variable, {}, false, loop_ >= 0};
}

void Matcher::run_loop(const For *loop, Loop result, const LinearForm &variable, Body *destination) {
    std::set<std::string> carried;
    bool loads_weights = false;
    for (const std::string &name : stored_names(loop->body)) {
        const auto it = arrays_.find(name);
        if (it != arrays_.end() && !it->second.weights) carried.insert(name);
        loads_weights |= weight_names_.count(name) > 0;
    }
    if (loads_weights && !filling_) {
        // The second iteration finds in the weight buffer what the first one left there.
        loaded_weights_.clear();
        fill_++;
    }
    const Homes homes = settle(carried, scalar_names(loop->body));
    forget_values();
    scope_.bind(loop->name, variable);
    Body *outer_body = std::exchange(body_, &result.body);
    const int outer_loop = std::exchange(loop_, result.id);
    visit(loop->body);
    keep_apart(carried, homes);
    carry(homes, result.body);
    body_ = outer_body;
    loop_ = outer_loop;
    scope_.unbind(loop->name);
    forget_values();
    destination->push_back(std::move(result));
}

// Before a loop: every carried variable that has a value gets a register of its own that holds it.
Matcher::Homes Matcher::settle(const std::set<std::string> &arrays, const std::set<std::string> &in_scalars) {
    std::set<Reg> taken = {zero_vector};
    const auto take = [&](const Value &value) {
        if (value.names_vector()) taken.insert(value.reg);
    };
    for (const auto &[name, value] : named_) take(value);
    for (const auto &[bits, reg] : constant_vectors_) taken.insert(reg);
    for (const auto &[name, array] : arrays_)
        if (!arrays.count(name))
            for (const auto &[element, value] : array.elements) take(value);
    Homes homes;
    for (const std::string &name : arrays) {
        RegisterArray &array = arrays_.at(name);
        // A float32 sum is in no register: it ends here.
        std::erase_if(array.elements,
                      [](const auto &entry) { return entry.second.kind == Value::Dot || entry.second.kind == Value::Sum; });
        for (auto &[element, value] : array.elements) {
            if (array.type == Float(32) && array.width == 1 && in_scalars.count(name)) {
                value = Value::of_scalar(copy_scalar(as_scalar(value), kernel_.scalar(array.name)));
                homes[{name, element}] = value.reg;
                continue;
            }
            if (value.kind != Value::Vector || !taken.insert(value.reg).second) {
                Reg home = kernel_.vector(array.name);
                if (value.kind == Value::Constant && value.constant == 0 && std::signbit(value.constant)) {
                    // -0 from 0 times -1.
                    Op zero;
                    zero.opcode = Opcode::mul_vs;
                    zero.src = {zero_vector, kernel_.constant(static_cast<int32_t>(0xBF800000))};
                    zero.dst = home;
                    zero.source = source_;
                    body_->push_back(zero);
                } else {
                    copy_vector(as_vector(value), home);
                }
                value = Value::of_vector(home);
                taken.insert(home);
            }
            homes[{name, element}] = value.reg;
        }
    }
    return homes;
}

// At the end of a loop body: a variable that took over another one's value keeps it, though that one's register changes now.
void Matcher::keep_apart(const std::set<std::string> &arrays, const Homes &homes) {
    std::map<Reg, Reg> kept;
    std::set<Reg> registers;
    for (const auto &[key, home] : homes) registers.insert(home);
    for (const std::string &name : arrays)
        for (auto &[element, value] : arrays_.at(name).elements) {
            const auto own = homes.find({name, element});
            if ((own != homes.end() && own->second == value.reg) || !registers.count(value.reg)) continue;
            if (value.kind == Value::Dot) value.fill = -1;  // its row is gone
            if (value.kind == Value::Splat) value.reg = copy_scalar(value.reg, kernel_.scalar(arrays_.at(name).name));
            if (value.kind != Value::Vector && value.kind != Value::Sum) continue;
            auto [it, inserted] = kept.try_emplace(value.reg);
            if (inserted) it->second = copy_vector(value.reg, kernel_.vector(arrays_.at(name).name));
            value.reg = it->second;
        }
}

// After a loop body: every carried variable is back in the register it came in with. Where the operation that made the new
// value can write that register itself, it does.
void Matcher::carry(const Homes &homes, Body &body) {
    std::set<Reg> finished;  // homes that hold their new value
    for (const auto &[key, home] : homes) {
        const auto found = arrays_.at(key.first).elements.find(key.second);
        if (found == arrays_.at(key.first).elements.end())
            throw Mismatch{"'" + key.first + "' carries a float32 sum into the next iteration, which no register holds"};
        Value &value = found->second;
        const bool scalar = kernel_.cls(home) == RegisterClass::Scalar;
        const bool fits = scalar ? value.is_in_scalar() : value.kind == Value::Vector;
        if (fits && value.reg == home) continue;
        const Reg made = fits && !finished.count(value.reg) ? value.reg : Reg{};
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
            // Another variable with the same register moves with it.
            if (renamed)
                for (auto &[name, array] : arrays_)
                    for (auto &[element, other] : array.elements)
                        if ((scalar ? other.kind == Value::Splat : other.names_vector()) && other.reg == made) other.reg = home;
        }
        if (!renamed && scalar)
            copy_scalar(as_scalar(value), home);
        else if (!renamed)
            copy_vector(as_vector(value), home);
        value = scalar ? Value::of_scalar(home) : Value::of_vector(home);
        finished.insert(home);
    }
}

}  // namespace atalla::codegen
