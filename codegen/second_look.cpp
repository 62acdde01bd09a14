#include "codegen/second_look.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "isa/error.h"
#include "isa/vectors.h"

namespace atalla::codegen {

namespace {

Op operation(Opcode opcode, Reg dst, std::array<Reg, 3> src, int32_t source, int32_t imm = 0) {
    Op op;
    op.opcode = opcode;
    op.dst = dst;
    op.src = src;
    op.source = source;
    op.imm = imm;
    return op;
}

void for_each_op(Body &body, const std::function<void(Op &)> &visit) {
    for (Node &node : body) {
        if (node.op) visit(*node.op);
        if (node.loop) for_each_op(node.loop->body, visit);
        if (node.branch) for_each_op(node.branch->body, visit);
    }
}

bool reads(const Op &op, Reg r) { return op.mask == r || std::ranges::find(op.src, r) != op.src.end(); }

// Copies of code, whose loops and registers are its own.
class Copied {
public:
    // `shared`: registers that others read, too.
    Copied(Kernel &kernel, const std::set<Reg> &shared) : kernel_(kernel), shared_(shared) {}

    Body operator()(const Body &body) {
        Body copy;
        for (const Node &node : body) {
            if (node.loop)
                copy.emplace_back((*this)(*node.loop));
            else
                copy.emplace_back(copied(*node.op));
        }
        return copy;
    }

private:
    Loop operator()(const Loop &loop) {
        const LoopInfo info = kernel_.loops[static_cast<size_t>(loop.id)];
        const int id = static_cast<int>(kernel_.loops.size());
        kernel_.loops.push_back(info);
        LoopInfo &own = kernel_.loops.back();
        own.name += "#again";
        own.index = kernel_.register_like(info.index);
        if (const auto parent = loops_.find(info.parent); parent != loops_.end()) own.parent = parent->second;
        loops_[loop.id] = id;
        return {id, loop.extent, loop.begin, loop.name, (*this)(loop.body), loop.fill, loop.in_nest};
    }
    Op copied(Op op) {
        for (Reg *r : {&op.dst, &op.mask, &op.src[0], &op.src[1], &op.src[2]}) *r = own(*r);
        if (op.access) op.access->row = own(op.access->row);
        if (op.value) op.value = own(*op.value);
        return op;
    }
    Reg own(Reg r) {
        if (!r.defined() || shared_.contains(r)) return r;
        const auto [entry, inserted] = registers_.try_emplace(r);
        if (inserted) entry->second = kernel_.register_like(r);
        return entry->second;
    }
    LinearForm own(const LinearForm &form) {
        LinearForm result;
        result.constant = form.constant;
        for (const auto &[atom, coefficient] : form.terms) result.terms[own_atom(atom)] = coefficient;
        return result;
    }
    int own_atom(int atom) {
        const Atom known = kernel_.atoms[static_cast<size_t>(atom)];
        const auto loop = loops_.find(known.loop);
        if (loop == loops_.end()) return atom;
        const auto [entry, inserted] = atoms_.try_emplace(atom, static_cast<int>(kernel_.atoms.size()));
        if (inserted) {
            const auto name = [&](int id) { return kernel_.loops[static_cast<size_t>(id)].name; };
            Halide::Expr expr = known.expr;
            for (const auto &[from, to] : loops_)
                expr =
                    Halide::Internal::substitute(name(from), Halide::Internal::Variable::make(Halide::Int(32), name(to)), expr);
            std::ostringstream text;
            text << expr;
            kernel_.atoms.push_back({expr, text.str(), loop->second, known.is_loop});
        }
        return entry->second;
    }

    Kernel &kernel_;
    const std::set<Reg> &shared_;
    std::map<int, int> loops_, atoms_;
    std::map<Reg, Reg> registers_;
};

class Unchecked {
public:
    // `code` is a part of the body of the loop called `name`, without transfers.
    Unchecked(Kernel &kernel, const std::string &name, Body code) : kernel_(kernel), name_(name), code_(std::move(code)) {}

    Body rewrite() {
        check();
        const std::set<Reg> shared = shared_registers();
        If again{kernel_.scalar("unknown"), Copied(kernel_, shared)(code_), true};
        take_for_numbers(code_);
        forward_copies(code_, shared);
        mark_loads(code_);
        Body result;
        result.emplace_back(operation(Opcode::sub_vv, marks_, {zero_vector, zero_vector}, source_));
        result.emplace_back(
            operation(Opcode::add_vs, ones_, {zero_vector, kernel_.constant(std::bit_cast<int32_t>(1.0f))}, source_));
        for (Node &node : code_) result.push_back(std::move(node));
        constexpr int32_t into_every_lane = 64;
        const Reg sum = kernel_.vector("mark"), mask = kernel_.new_register(RegisterClass::Mask, "mark");
        result.emplace_back(operation(Opcode::rsum_vi, sum, {marks_}, source_, into_every_lane));
        result.emplace_back(operation(Opcode::mneq_mvv, mask, {sum, sum}, source_));
        result.emplace_back(operation(Opcode::mv_mts, again.condition, {mask}, source_));
        result.emplace_back(std::move(again));
        return result;
    }

private:
    // It must be possible to run the code twice, and beside the array.
    void check() {
        std::set<int> loaded, stored;
        std::set<Reg> read, written;
        check(code_, loaded, stored, read, written);
        for (const int allocation : stored)
            if (loaded.contains(allocation))
                fail(fmt::format("it loads '{}', which it stores to",
                                 kernel_.allocations[static_cast<size_t>(allocation)].name));
    }
    void check(const Body &body, std::set<int> &loaded, std::set<int> &stored, std::set<Reg> &read, std::set<Reg> &written) {
        for (const Node &node : body) {
            if (node.loop) {
                if (kernel_.loops[static_cast<size_t>(node.loop->id)].varies()) fail("its loops do not always run as often");
                check(node.loop->body, loaded, stored, read, written);
                continue;
            }
            if (!node.op) fail("there are branches in it");
            const Op &op = *node.op;
            if (source_ < 0) source_ = op.source;
            if (op.opcode == Opcode::gemm_vv || op.opcode == Opcode::lw_vi) fail("it uses the array");
            if (op.access) (op.opcode == Opcode::vreg_ld ? loaded : stored).insert(op.access->allocation);
            for (const Reg r : op.src)
                if (r.defined() && !written.contains(r)) read.insert(r);
            if (op.keeps_dst && !written.contains(op.dst)) read.insert(op.dst);
            if (!op.dst.defined()) continue;
            if (read.contains(op.dst)) fail("it changes a value that it begins with");
            written.insert(op.dst);
        }
    }
    [[noreturn]] void fail(const std::string &why) const {
        throw Error(fmt::format("cannot generate code: loop '{}' cannot run unchecked: {}", name_, why));
    }

    // What the nest does not make, or others read.
    std::set<Reg> shared_registers() {
        std::map<Reg, int> inside, outside;  // the code has been taken out of the kernel
        std::set<Reg> made;
        const auto count = [](std::map<Reg, int> &counts) {
            return [&counts](Op &op) {
                for (const Reg r : {op.dst, op.mask, op.src[0], op.src[1], op.src[2]})
                    if (r.defined()) counts[r]++;
            };
        };
        for_each_op(code_, count(inside));
        for_each_op(code_, [&](Op &op) { made.insert(op.dst); });
        for_each_op(kernel_.body, count(outside));
        std::set<Reg> shared;
        for (const auto &[r, times] : inside)
            if (!made.contains(r) || outside.contains(r)) shared.insert(r);
        return shared;
    }

    // Where all values are numbers, one equals itself in all lanes.
    void take_for_numbers(Body &body) {
        for (size_t at = 0; at < body.size(); at++) {
            if (body[at].loop) take_for_numbers(body[at].loop->body);
            if (!body[at].op) continue;
            const Op test = *body[at].op;
            if ((test.opcode != Opcode::meq_mvv && test.opcode != Opcode::mneq_mvv) || test.src[0] != test.src[1]) continue;
            const bool holds = test.opcode == Opcode::meq_mvv;
            if (!std::ranges::all_of(body, [&](const Node &node) {
                    return !node.op || !reads(*node.op, test.dst) || (node.op->mask == test.dst && node.op->keeps_dst);
                }))
                continue;
            for (size_t user = at + 1; user < body.size(); user++) {
                if (!body[user].op || body[user].op->mask != test.dst) continue;
                if (holds) {
                    body[user].op->mask = Reg{};
                    body[user].op->keeps_dst = false;
                    if (const auto before = overwritten(body, user)) body[*before].op.reset();
                } else {
                    body[user].op.reset();
                }
            }
            body[at].op.reset();
        }
        std::erase_if(body, [](const Node &node) { return !node.op && !node.loop; });
    }
    // What makes a value that nothing reads before the operation at `user` makes another.
    static std::optional<size_t> overwritten(const Body &body, size_t user) {
        const Reg dst = body[user].op->dst;
        if (reads(*body[user].op, dst)) return std::nullopt;
        for (size_t at = user; at-- > 0;) {
            if (body[at].loop) return std::nullopt;
            if (!body[at].op) continue;
            const Op &op = *body[at].op;
            if (op.dst == dst && !op.keeps_dst && !op.access) return at;
            if (op.dst == dst || reads(op, dst)) return std::nullopt;
        }
        return std::nullopt;
    }

    // What is a copy of another value now is that value, where neither changes any more: several may read it.
    void forward_copies(Body &body, const std::set<Reg> &shared) {
        for (Node &node : body)
            if (node.loop) forward_copies(node.loop->body, shared);
        std::map<Reg, int> everywhere, here, written;
        const auto mentions = [](const Op &op, std::map<Reg, int> &counts) {
            for (const Reg r : {op.dst, op.mask, op.src[0], op.src[1], op.src[2]})
                if (r.defined()) counts[r]++;
        };
        for_each_op(code_, [&](Op &op) { mentions(op, everywhere); });
        for (const Node &node : body)
            if (node.op) {
                mentions(*node.op, here);
                written[node.op->dst]++;
            }
        const auto is_own = [&](Reg r) { return !shared.contains(r) && here[r] == everywhere[r] && written[r] > 0; };
        for (size_t at = 0; at < body.size(); at++) {
            if (!body[at].op) continue;
            const Op copy = *body[at].op;
            const Reg from = copy.src[0], to = copy.dst;
            if (copy.opcode != Opcode::sub_vv || copy.src[1] != zero_vector || copy.mask.defined() || copy.keeps_dst ||
                !is_own(from) || !is_own(to) || written[to] > 1 ||
                std::any_of(body.begin() + static_cast<std::ptrdiff_t>(at), body.end(),
                            [&](const Node &node) { return node.op && node.op->dst == from; }))
                continue;
            for (Node &node : body)
                if (node.op)
                    for (Reg &source : node.op->src)
                        if (source == to) source = from;
            body[at].op.reset();
            here[from] = everywhere[from] = here[from] + here[to];
        }
        std::erase_if(body, [](const Node &node) { return !node.op && !node.loop; });
    }

    // Up to 32 vectors at a time, behind what the body does with them; of fewer the others are zeros. Exponentials are from 0
    // to infinity, so that no infinities cancel each other. Where they would take longer than the other lanes do, the vectors
    // themselves are weights, and come once more for it, since the body may change the registers where they were.
    void mark_loads(Body &body) {
        for (Node &node : body)
            if (node.loop) mark_loads(node.loop->body);
        const bool by_exponentials = exponentials_have_time(body);
        Body marked;
        std::vector<Op> again;
        std::vector<Reg> marks;
        for (Node &node : body) {
            const std::optional<Op> load = node.op && node.op->opcode == Opcode::vreg_ld ? node.op : std::optional<Op>{};
            marked.push_back(std::move(node));
            if (!load) continue;
            marks.push_back(kernel_.vector("mark"));
            if (by_exponentials) {
                marked.emplace_back(operation(Opcode::expi_vi, marks.back(), {load->dst}, source_));
            } else {
                again.push_back(*load);
                again.back().dst = marks.back();
            }
        }
        for (const Op &load : again) marked.emplace_back(load);
        for (size_t first = 0; first < marks.size(); first += lanes) {
            for (size_t w = first; w < first + lanes; w++)
                marked.emplace_back(operation(Opcode::lw_vi, {}, {w < marks.size() ? marks[w] : zero_vector}, source_));
            const Reg sums = kernel_.vector("marks");
            marked.emplace_back(operation(Opcode::gemm_vv, sums, {ones_}, source_));
            marked.emplace_back(operation(Opcode::add_vv, marks_, {marks_, sums}, source_));
        }
        body = std::move(marked);
    }
    // Adder and multiplier share what they have to do. Whole copies mostly need not be (coalesce.cpp).
    // Rows that do not go round the pads come from one, which has no time to bring them twice.
    bool exponentials_have_time(const Body &body) const {
        constexpr int64_t lane_units = 2;
        int64_t lane_operations = 0, loads = 0;
        for (const Node &node : body) {
            if (!node.op) continue;
            const Unit unit = info(node.op->opcode).unit;
            const bool copies = node.op->src[1] == zero_vector && !node.op->mask.defined();
            lane_operations += (unit == Unit::Alu || unit == Unit::Mul) && !copies;
            if (node.op->opcode != Opcode::vreg_ld) continue;
            loads++;
            for (const auto &[atom, rows] : node.op->access->row.terms)
                if (rows % kernel_.machine->pad.count != 0) return true;
        }
        return loads * lane_units <= lane_operations;
    }

    Kernel &kernel_;
    const std::string &name_;
    Body code_;
    int32_t source_ = -1;
    const Reg marks_ = kernel_.vector("marks"), ones_ = kernel_.vector("ones");
};

bool loads(const Body &body) {
    return std::ranges::any_of(body, [](const Node &node) {
        return (node.op && node.op->opcode == Opcode::vreg_ld) || (node.loop && loads(node.loop->body));
    });
}

void look_again(Kernel &kernel, Body &body) {
    for (Node &node : body) {
        if (node.branch) look_again(kernel, node.branch->body);
        if (!node.loop) continue;
        Loop &loop = *node.loop;
        if (!loop.name.ends_with("_unchecked")) {
            look_again(kernel, loop.body);
            continue;
        }
        Body all = std::exchange(loop.body, {}), code;
        const auto finish = [&] {
            if (loads(code)) code = Unchecked(kernel, loop.name, std::exchange(code, {})).rewrite();
            for (Node &inner : std::exchange(code, {})) loop.body.push_back(std::move(inner));
        };
        for (Node &inner : all) {
            if (!inner.copy) {
                code.push_back(std::move(inner));
                continue;
            }
            finish();
            loop.body.push_back(std::move(inner));
        }
        finish();
    }
}

}  // namespace

void look_again(Kernel &kernel) { look_again(kernel, kernel.body); }

}  // namespace atalla::codegen
