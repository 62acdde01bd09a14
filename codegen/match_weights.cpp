// The weight buffer: 32 vectors that shift in, the last one first.
#include <algorithm>

#include "codegen/halide_loops.h"
#include "codegen/matcher.h"

namespace atalla::codegen {

using namespace Halide;
using namespace Halide::Internal;

bool Matcher::fills_weights(const For *loop) const {
    struct Stores : IRVisitor {
        const std::set<std::string> &weights;
        bool any = false, others = false;
        explicit Stores(const std::set<std::string> &names) : weights(names) {}
        using IRVisitor::visit;
        void visit(const Store *op) override { (weights.count(op->name) > 0 ? any : others) = true; }
    } stores(weight_names_);
    loop->body.accept(&stores);
    return stores.any && !stores.others;
}

// Walks the loops that fill a tile in the order in which they will run, each from its last iteration to its first: the
// vectors must come as n-1, n-2, ... 0. Where n is not 32, the other columns of a product mean nothing.
void Matcher::check_filling(const For *outermost) {
    constexpr int64_t lanes = 32;
    int64_t next = 0;
    std::string name;
    const std::function<void(const Stmt &)> walk = [&](const Stmt &s) {
        if (const auto *loop = s.as<For>()) {
            const LoopShape shape = loop_shape(loop);
            const LinearForm first = scope_.linear(shape.first), extent = scope_.linear(shape.extent);
            if (!first.is_constant() || !extent.is_constant())
                fail("the bounds of loop '" + loop->name + "' are not constants", Stmt(loop));
            for (int64_t i = extent.constant; i-- > 0;) {
                scope_.bind(loop->name, {first.constant + i, {}});
                walk(loop->body);
            }
            scope_.unbind(loop->name);
        } else if (const auto *let = s.as<LetStmt>();
                   let != nullptr && let->value.type().is_scalar() && let->value.type().is_int()) {
            scope_.bind(let->name, scope_.linear(let->value));
            walk(let->body);
            scope_.unbind(let->name);
        } else if (let != nullptr) {
            walk(let->body);  // part of a value
        } else if (const auto *block = s.as<Block>()) {
            walk(block->first);
            walk(block->rest);
        } else if (const auto *store = s.as<Store>()) {
            const auto *ramp = store->index.as<Ramp>();
            const LinearForm index = ramp != nullptr ? scope_.linear(ramp->base) : LinearForm{};
            if (name.empty()) next = floor_div(index.constant, lanes) + 1;
            const bool in_order = ramp != nullptr && ramp->lanes == lanes && is_const_one(ramp->stride) &&
                                  index.is_constant() && index.constant == --next * lanes &&
                                  (name.empty() || name == store->name);
            if (!in_order || next >= lanes)
                fail("the loop does not fill the vectors of one weight tile in order", Stmt(outermost));
            name = store->name;
        } else {
            fail("a loop that fills a weight tile does something else too", s);
        }
    };
    walk(outermost);
    if (next != 0) fail("the loop does not fill the first vectors of the weight tile '" + name + "'", Stmt(outermost));
    loaded_weights_ = name;
    fill_++;
}

}  // namespace atalla::codegen
