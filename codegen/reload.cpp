// Rows of the pads that are read early and late in an iteration are loaded twice: a value that waits in a register keeps the
// iterations of a loop from overlapping, and a load costs less than a copy. Rows that are squared or compared with themselves
// come twice, too, into registers of two banks: one register read twice is a bank conflict. So do sums and differences that are
// squared, where the adder has less to do than the multiplier.
#include <algorithm>
#include <map>

#include "codegen/dependence.h"
#include "codegen/loop_tree.h"
#include "codegen/passes.h"

namespace atalla::codegen {

namespace {

// x - 0, in all lanes.
bool is_copy(const Op &op) {
    return op.opcode == Opcode::sub_vv && op.src[1] == zero_vector && !op.mask.defined() && !op.keeps_dst;
}

// A sum or difference that can be made a second time.
bool is_sum(const Op &op) {
    return info(op.opcode).unit == Unit::Alu && !op.mask.defined() && !op.keeps_dst && !reads(op, op.dst) && !is_copy(op);
}

class Reloader {
public:
    Reloader(Kernel &kernel, Body &body, bool late_readers) : kernel_(kernel), body_(body), late_readers_(late_readers) {}

    void run() {
        for (size_t first = 0; first < body_.size(); first++) {
            if (!body_[first].op) continue;
            size_t end = first;
            while (end < body_.size() && body_[end].op) end++;
            if (late_readers_) line(first, end);
            copies(first, end);
            if (kernel_.machine->regs.vector_conflict) squares(first, end);
            first = end;
        }
        Body made;
        for (size_t i = 0; i < body_.size(); i++) {
            for (const Op &again : before_[i]) made.push_back(again);
            made.push_back(std::move(body_[i]));
        }
        body_ = std::move(made);
    }

private:
    // Readers of one value, in order, with the cycles from its load until they can issue.
    struct Reader {
        size_t at = 0;
        int depth = 0;
    };

    void line(size_t first, size_t end) {
        for (size_t i = first; i < end; i++) {
            const Op &load = *body_[i].op;
            if (load.opcode != Opcode::vreg_ld || !load.access) continue;
            const std::vector<Reader> readers = readers_of(i, end);
            // Where nothing waits long, the pads are as busy as the lanes.
            if (readers.empty() || readers.back().depth < readers.front().depth + most_waiting ||
                kernel_.takes(Choice::LoadOnce))
                continue;
            // A copy is another load.
            if (readers.size() > 1)
                for (const Reader &reader : readers) {
                    Op &copy = *body_[reader.at].op;
                    if (!is_copy(copy) || copy.src[0] != load.dst) continue;
                    const Reg target = copy.dst;
                    copy = load;
                    copy.dst = target;
                }
            int since = readers.front().depth;
            Reg now = load.dst;
            for (const Reader &reader : readers) {
                Op &op = *body_[reader.at].op;
                if (op.opcode == Opcode::vreg_ld) continue;  // it was a copy
                if (reader.depth >= since + most_waiting) {
                    Op again = load;
                    now = again.dst = kernel_.vector(kernel_.registers[load.dst.id].name);
                    before_[i + 1].push_back(again);
                    since = reader.depth;
                }
                for (Reg &source : op.src)
                    if (source == load.dst) source = now;
            }
        }
    }

    // A copy of a row that others read, too, is another load where the lanes have far more to do than the pads.
    void copies(size_t first, size_t end) {
        const Machine &machine = *kernel_.machine;
        constexpr int64_t lane_units = 2, far_more = 3;
        int64_t lanes = 0, accesses = 0;
        for (size_t i = first; i < end; i++) {
            const Unit unit = info(body_[i].op->opcode).unit;
            lanes += unit == Unit::Alu || unit == Unit::Mul ? 1 : 0;
            accesses += unit == Unit::Vlsu ? 1 : 0;
        }
        const auto lanes_have_more = [&](int64_t times) {
            return lanes * machine.vec.ii * machine.pad.count > times * accesses * machine.pad.read_ii * lane_units;
        };
        if (!lanes_have_more(far_more)) return;
        for (size_t i = first; i < end; i++) {
            const Op load = *body_[i].op;
            if (load.opcode != Opcode::vreg_ld || !load.access) continue;
            for (size_t at = i + 1; at < end && !changes(*body_[at].op, load) && body_[at].op->dst != load.dst; at++) {
                Op &copy = *body_[at].op;
                if (!is_copy(copy) || copy.src[0] != load.dst || !lanes_have_more(1)) continue;
                const Reg target = copy.dst;
                copy = load;
                copy.dst = target;
                lanes--;
                accesses++;
            }
        }
    }

    // May what follows find another row where a load found its own?
    bool changes(const Op &op, const Op &load) const {
        return (op.opcode == Opcode::vreg_st && op.access && may_alias(kernel_, *load.access, *op.access)) ||
               op.orders == load.access->allocation;
    }

    // x * x of a row, or x != x, as x * y, with y loaded from where x was; or of a sum, with y added up as x was: of the sums
    // that are squared as many as the adder has room for, at even distances, so that rows stay alike.
    void squares(size_t first, size_t end) {
        int64_t room = 0;
        for (size_t i = first; i < end; i++) {
            const Unit unit = info(body_[i].op->opcode).unit;
            room += unit == Unit::Mul ? 1 : unit == Unit::Alu ? -1 : 0;
        }
        std::vector<std::pair<size_t, size_t>> sums;  // that are squared, and their squares
        for (size_t i = first; i < end; i++) {
            const Op &op = *body_[i].op;
            if (!op.src[0].defined() || op.src[0] != op.src[1] || kernel_.cls(op.src[0]) != RegisterClass::Vector) continue;
            size_t made = i;
            while (made > first && body_[made - 1].op->dst != op.src[0]) made--;
            if (made-- == first) continue;
            const Op &maker = *body_[made].op;
            if (maker.opcode == Opcode::vreg_ld && maker.access)
                make_twice(made, i);
            else if (is_sum(maker))
                sums.emplace_back(made, i);
        }
        const auto count = static_cast<int64_t>(sums.size());
        room = std::clamp<int64_t>(room, 0, count);
        for (int64_t n = 0; n < count; n++)
            if ((n + 1) * room / count > n * room / count)
                make_twice(sums[static_cast<size_t>(n)].first, sums[static_cast<size_t>(n)].second);
    }
    void make_twice(size_t made, size_t square) {
        Op twin = *body_[made].op;
        twin.dst = kernel_.vector(kernel_.registers[twin.dst.id].name);
        body_[square].op->src[1] = twin.dst;
        before_[made + 1].push_back(twin);
    }

    // Those of a load that is the only one to write its register, up to where its row may change; none if there are others.
    // What is made of it may go through rows of the pads.
    std::vector<Reader> readers_of(size_t at, size_t end) const {
        const Op &load = *body_[at].op;
        std::map<Reg, int> ready = {{load.dst, result_latency(*kernel_.machine, load.opcode)}};
        std::map<std::pair<int, LinearForm>, int> stored;  // rows that are made of it
        std::vector<Reader> readers;
        for (size_t i = at + 1; i < end; i++) {
            const Op &op = *body_[i].op;
            if (op.dst == load.dst) return {};
            if (changes(op, load)) break;
            int depth = 0;
            for (Reg r : reads_of(op))
                if (const auto found = ready.find(r); found != ready.end()) depth = std::max(depth, found->second);
            if (op.access && op.opcode == Opcode::vreg_st && depth > 0)
                stored[{op.access->allocation, op.access->row}] = depth + result_latency(*kernel_.machine, op.opcode);
            if (op.access && op.opcode == Opcode::vreg_ld)
                if (const auto found = stored.find({op.access->allocation, op.access->row}); found != stored.end())
                    depth = std::max(depth, found->second);
            if (op.dst.defined() && (depth > 0 || ready.count(op.dst)))
                ready[op.dst] = depth + result_latency(*kernel_.machine, op.opcode);
            if (reads(op, load.dst)) readers.push_back({i, depth});
        }
        std::stable_sort(readers.begin(), readers.end(), [](const Reader &a, const Reader &b) { return a.depth < b.depth; });
        return readers;
    }

    static constexpr int most_waiting = 32;  // cycles
    Kernel &kernel_;
    Body &body_;
    bool late_readers_;                         // do those that read late get loads of their own?
    std::map<size_t, std::vector<Op>> before_;  // what is made again, to be put in
};

void reload(Kernel &kernel, Body &body, bool innermost) {
    bool weights = false;
    for (Node &node : body) {
        if (node.loop) reload(kernel, node.loop->body, !has_loop(node.loop->body));
        if (node.branch) reload(kernel, node.branch->body, false);
        weights |= node.op && node.op->opcode == Opcode::lw_vi;
    }
    // Where weights are loaded the pads are busy.
    if (innermost) Reloader(kernel, body, !weights).run();
}

}  // namespace

void reload(Kernel &kernel) {
    if (kernel.machine->timed()) reload(kernel, kernel.body, false);
}

}  // namespace atalla::codegen
