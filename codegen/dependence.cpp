#include "codegen/dependence.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>

namespace atalla::codegen {

namespace {

// A pad write waits behind those queued before it; the distance that is safe for a read of the same row, and the other way
// round.
constexpr int store_to_load = 24, load_to_store = 24;
// A usual transfer of a few rows; the hardware waits for longer ones. Iterations of fewer operations cannot keep transfers
// so far apart.
constexpr int transfer_cycles = 64, short_transfer_cycles = 16;
constexpr size_t operations_between_transfers = 2 * transfer_cycles;
// The same of a transfer that runs ahead, while DRAM serves those of the other pads as well, and the code that has the time for
// a pair of them.
constexpr int shared_transfer_cycles = 2 * transfer_cycles;
constexpr size_t operations_between_shared_transfers = 2 * shared_transfer_cycles;

bool may_share_slot(const PadAccess &a, const PadAccess &b) { return a.turn < 0 || b.turn < 0 || a.turn == b.turn; }
bool is_pad_access(const Op &op) { return op.opcode == Opcode::vreg_ld || op.opcode == Opcode::vreg_st; }
bool is_transfer(const Op &op) { return op.opcode == Opcode::scpad_ld || op.opcode == Opcode::scpad_st; }

// Unless they lie apart. `alike`: have their rows the same terms?
bool may_be_one_row(const PadAccess &a, const PadAccess &b, bool alike) {
    if (a.allocation != b.allocation || !may_share_slot(a, b)) return false;
    return a.row.constant == b.row.constant || a.slot != b.slot || a.earlier != b.earlier || a.iteration != b.iteration ||
           !alike;
}

// The last row of a form, or the first one, whatever those loops around are at that `any` names: inner variables come first,
// whose last values may depend on those of loops around. Nothing if it has other terms than variables of loops.
std::optional<LinearForm> end_of(const Kernel &kernel, LinearForm row, bool last, const std::function<bool(int)> &any) {
    for (;;) {
        int inner = -1, loop = -1;
        for (const auto &[atom, step] : row.terms) {
            const Atom &variable = kernel.atoms[static_cast<size_t>(atom)];
            if (!variable.is_loop) return std::nullopt;
            if (any(variable.loop) && variable.loop > loop) {
                inner = atom;
                loop = variable.loop;
            }
        }
        if (inner < 0) return row;
        const int64_t step = row.terms.at(inner);
        row.terms.erase(inner);
        if ((step > 0) != last) continue;
        const LoopInfo &info = kernel.loops[static_cast<size_t>(loop)];
        const bool known = info.last_value && std::ranges::all_of(info.last_value->terms, [&](const auto &term) {
                               return kernel.atoms[static_cast<size_t>(term.first)].is_loop;
                           });
        row += (known ? *info.last_value : LinearForm{info.extent - 1, {}}).scaled(step);
    }
}

// Do all rows of one access lie behind those of another, while loops that `any` does not name are in the same turn for both?
bool lies_behind(const Kernel &kernel, const LinearForm &a, const LinearForm &b, const std::function<bool(int)> &any) {
    const auto first = end_of(kernel, a, false, any), last = end_of(kernel, b, true, any);
    if (!first || !last) return false;
    LinearForm between = last->scaled(-1);
    between += *first;
    const auto least = end_of(kernel, between, false, [](int) { return true; });
    return least && least->constant > 0;
}

bool lie_apart(const Kernel &kernel, const PadAccess &a, const PadAccess &b, const std::function<bool(int)> &any) {
    if (a.slot != b.slot || a.row.terms == b.row.terms) return false;
    return lies_behind(kernel, a.row, b.row, any) || lies_behind(kernel, b.row, a.row, any);
}
// Are they in different parts of a buffer, whatever the loops around are at?
bool lie_apart(const Kernel &kernel, const PadAccess &a, const PadAccess &b) {
    return lie_apart(kernel, a, b, [](int) { return true; });
}

class Builder {
public:
    Builder(const Kernel &kernel, const std::vector<Op> &ops, int loop, bool masks_in_turn)
        : kernel_(kernel),
          machine_(*kernel.machine),
          ops_(ops),
          loop_(loop),
          masks_in_turn_(masks_in_turn),
          little_code_(loop >= 0 && ops.size() < operations_between_transfers) {}

    std::vector<Edge> run() {
        if (masks_in_turn_)
            for (size_t i = 0; i < ops_.size(); i++) {
                if (ops_[i].dst.defined()) last_reader_.try_emplace(ops_[i].dst.id, static_cast<int>(i));
                for_each_read(ops_[i], [&](Reg r) { last_reader_[r.id] = static_cast<int>(i); });
            }
        for (int iteration = 0; iteration < (loop_ >= 0 ? 2 : 1); iteration++)
            for (int i = 0; i < static_cast<int>(ops_.size()); i++) visit(i, iteration);
        return std::move(edges_);
    }

private:
    struct Site {
        int op = 0, iteration = 0;
    };
    // Terms of rows by number, since most accesses have those of others, and all are compared with all.
    struct Terms {
        int number = 0;
        int64_t step = 0;         // rows that an iteration of this loop goes on by
        bool plain_steps = true;  // is it that many in each of them?
    };
    struct Touch {
        Site site;
        const PadAccess *access = nullptr;
        int terms = 0;
    };

    void edge(Site from, int to, int iteration, int latency, bool hard = false) {
        // An edge inside the second round repeats one of the first.
        if (iteration == 1 && from.iteration == 1) return;
        const int distance = iteration - from.iteration;
        edges_.push_back({from.op, to, latency, distance, hard});
    }

    void visit(int i, int iteration) {
        const Op &op = ops_[i];
        behind_routine(op, i, iteration);
        registers(op, i, iteration);
        array(op, i, iteration);
        memory(op, i, iteration);
    }

    void registers(const Op &op, int i, int iteration) {
        for_each_read(op, [&](Reg r) {
            if (r.id <= all_lanes.id) return;
            if (const auto w = writer_.find(r.id); w != writer_.end())
                edge(w->second, i, iteration, latency_of(ops_[w->second.op]));
            readers_[r.id].push_back({i, iteration});
        });
        if (!op.dst.defined() || op.dst.id <= all_lanes.id) return;
        for (Site reader : readers_[op.dst.id])
            if (reader.op != i || reader.iteration != iteration) edge(reader, i, iteration, 1);
        if (const auto w = writer_.find(op.dst.id); w != writer_.end())
            edge(w->second, i, iteration,
                 is_transfer(ops_[w->second.op]) && !machine_.timed() ? 1 : latency_of(ops_[w->second.op]));
        writer_[op.dst.id] = {i, iteration};
        readers_[op.dst.id].clear();
        if (masks_in_turn_ && kernel_.cls(op.dst) == RegisterClass::Mask) few_masks(op.dst, i, iteration);
    }

    // Masks are made in the order that they have, each once few enough others are between their making and their last reader.
    void few_masks(Reg mask, int i, int iteration) {
        constexpr size_t most_at_once = 6;
        if (last_mask_) edge(*last_mask_, i, iteration, 1);
        last_mask_ = Site{i, iteration};
        for (size_t m = 0; m < open_masks_.size();) {
            if (last_reader_.at(open_masks_[m].id) >= i) {
                m++;
                continue;
            }
            ended_masks_.push_back(open_masks_[m]);
            open_masks_.erase(open_masks_.begin() + static_cast<ptrdiff_t>(m));
        }
        std::stable_sort(ended_masks_.begin(), ended_masks_.end(),
                         [&](Reg a, Reg b) { return last_reader_.at(a.id) < last_reader_.at(b.id); });
        const size_t free = most_at_once - std::min(most_at_once, open_masks_.size() + 1);
        while (ended_masks_.size() > free) {
            for (Site reader : readers_[ended_masks_.front().id])
                if (reader.op != i || reader.iteration != iteration) edge(reader, i, iteration, 1);
            ended_masks_.erase(ended_masks_.begin());
        }
        if (std::find(open_masks_.begin(), open_masks_.end(), mask) == open_masks_.end()) open_masks_.push_back(mask);
    }

    int latency_of(const Op &op) const { return is_transfer(op) ? cycles_of_transfer() : result_latency(machine_, op.opcode); }

    int cycles_of_transfer() const { return kernel_.takes(Choice::TransfersNear) ? short_transfer_cycles : transfer_cycles; }

    // Cycles between transfers of a pad.
    int apart() const { return little_code_ ? 1 : cycles_of_transfer(); }

    void array(const Op &op, int i, int iteration) {
        if (op.opcode == Opcode::gemm_vv) {
            if (push_) edge(*push_, i, iteration, 1);
            rows_.push_back({i, iteration});
        } else if (op.opcode == Opcode::lw_vi) {
            const int spacing = machine_.timed() ? static_cast<int>(machine_.sa.switch_spacing) : 1;
            for (Site row : rows_) edge(row, i, iteration, std::max(1, spacing), spacing > 1);
            rows_.clear();
            if (push_) edge(*push_, i, iteration, 1);
            push_ = Site{i, iteration};
        }
    }

    // A wait that names no allocation is one for what the routine before left under way, which may be anywhere, or for what is
    // written to the place of a result and read again.
    void behind_routine(const Op &op, int i, int iteration) {
        if (op.opcode == Opcode::or_s && op.dst == zero_scalar && op.orders < 0)
            waits_for_all_.push_back({i, iteration});
        else if (is_transfer(op) || is_pad_access(op))
            for (const Site wait : waits_for_all_) edge(wait, i, iteration, 1);
    }

    // Transfers of two buffers that run ahead, in code that has the time to keep them apart.
    bool shares_dram(const Op &a, const Op &b) const {
        return a.ahead && b.ahead && a.orders != b.orders && ops_.size() >= operations_between_shared_transfers;
    }
    void memory(const Op &op, int i, int iteration) {
        if (is_pad_access(op) && op.access) {
            const bool store = op.opcode == Opcode::vreg_st;
            const Terms &terms = terms_of(*op.access);
            std::vector<Touch> &touched = accesses_[op.access->allocation];
            for (const auto &[site, other, its_terms] : touched) {
                const Op &before = ops_[site.op];
                const bool other_store = before.opcode == Opcode::vreg_st;
                if (!store && !other_store) continue;
                // Most rows are different ones at one distance, which is soon known.
                const bool alike = its_terms == terms.number;
                const int distance =
                    iteration != site.iteration
                        ? iterations_between(*other, *op.access, alike ? &terms : nullptr, before.pad == op.pad)
                        : may_be_one_row(*other, *op.access, alike);
                if (distance == 0 || lie_apart(kernel_, *other, *op.access) || lie_apart_in_each_turn(*other, *op.access))
                    continue;
                const int latency = !machine_.timed() ? 1 : store == other_store ? 1 : store ? load_to_store : store_to_load;
                const bool hard = machine_.timed() && store != other_store;
                if (iteration != site.iteration)
                    edges_.push_back({site.op, i, latency, distance, hard});
                else
                    edge(site, i, iteration, latency, hard);
            }
            touched.push_back({{i, iteration}, &*op.access, terms.number});
            if (const auto w = barrier_.find(op.access->allocation); w != barrier_.end())
                edge(w->second, i, iteration, machine_.timed() ? 0 : 1);
        }
        if (op.side) {
            // The transfers it may start share the engines with the others: best in the middle between them.
            for (const Op &inner : *op.side) {
                if (!is_transfer(inner)) continue;
                behind_barrier(inner, i, iteration);
                if (const auto last = engine_.find(inner.pad); last != engine_.end() && !ops_[last->second.op].side)
                    edge(last->second, i, iteration, apart());
                const auto before = side_engine_.find(inner.pad);
                if (before != side_engine_.end() && before->second.op != i && ops_[before->second.op].src[0] == op.src[0])
                    edge(before->second, i, iteration, apart());
                side_engine_[inner.pad] = {i, iteration};
            }
            return;
        }
        if (op.orders < 0) return;
        if (op.fence) {
            for (const auto &[site, other, terms] : accesses_[op.orders])
                if (ops_[site.op].opcode == Opcode::vreg_st)
                    edge(site, i, iteration, machine_.timed() ? store_to_load : 1, machine_.timed());
            // What stays behind this stays behind a wait for other transfers, too.
            if (held_.contains(op.orders)) edge(barrier_.at(op.orders), i, iteration, 0);
            barrier_[op.orders] = {i, iteration};
        } else if (is_transfer(op)) {
            for (const auto &[site, other, terms] : accesses_[op.orders]) {
                // A transfer ahead goes to the slot that accesses before the change of slots used.
                const auto changed = writer_.find(other->slot.id);
                const bool before_change =
                    changed != writer_.end() && changed->second.iteration == site.iteration && changed->second.op > site.op;
                if (!op.ahead || !machine_.timed())
                    edge(site, i, iteration, machine_.timed() ? load_to_store : 1, machine_.timed());
                else if (before_change || other->earlier)
                    edge(site, i, iteration, 1);
            }
            behind_barrier(op, i, iteration);
            if (const auto last = engine_.find(op.pad);
                last != engine_.end() && (last->second.op != i || last->second.iteration != iteration))
                edge(last->second, i, iteration, shares_dram(ops_[last->second.op], op) ? shared_transfer_cycles : 1);
            if (const auto last = side_engine_.find(op.pad); last != side_engine_.end())
                edge(last->second, i, iteration, apart());
            engine_[op.pad] = {i, iteration};
            if (!machine_.timed()) synchronous(op, i, iteration);
        } else {
            // What takes time between transfers takes it behind those in front.
            if (op.opcode != Opcode::or_s)
                for (const auto &[pad, transfer] : engine_) edge(transfer, i, iteration, 1);
            // Accesses wait for the last of several barriers, and so for all.
            if (const auto w = barrier_.find(op.orders); w != barrier_.end())
                edge(w->second, i, iteration, machine_.timed() ? 0 : 1);
            barrier_[op.orders] = {i, iteration};
            if (op.holds) held_.insert(op.orders);
        }
    }

    // What leaves the pads has been stored there: operation i starts the transfer, itself or out of line.
    void behind_barrier(const Op &transfer, int i, int iteration) {
        if (transfer.opcode != Opcode::scpad_st) return;
        if (const auto w = barrier_.find(transfer.orders); w != barrier_.end()) edge(w->second, i, iteration, 1);
    }

    // A transfer without a wait: it is over when the next packet begins, and what another direction moves may be the same
    // bytes.
    void synchronous(const Op &op, int i, int iteration) {
        if (const auto w = barrier_.find(op.orders); w != barrier_.end()) edge(w->second, i, iteration, 1);
        barrier_[op.orders] = {i, iteration};
        const bool load = op.opcode == Opcode::scpad_ld;
        for (Site other : transfers_[load ? 1 : 0])
            if (other.op != i || other.iteration != iteration) edge(other, i, iteration, 1);
        transfers_[load ? 0 : 1].push_back({i, iteration});
    }

    // The same for each turn of the loops around the block: of straight code, of those around the loops whose iterations begin
    // or end there.
    bool lie_apart_in_each_turn(const PadAccess &a, const PadAccess &b) const {
        if (a.earlier != b.earlier) return false;
        const auto around = [&](const PadAccess &access, int loop) {
            int inner = -1;
            for (const auto &[atom, step] : access.row.terms)
                inner = std::max(inner, kernel_.atoms[static_cast<size_t>(atom)].loop);
            for (int other = inner < 0 ? -1 : kernel_.loops[static_cast<size_t>(inner)].parent; other >= 0;
                 other = kernel_.loops[static_cast<size_t>(other)].parent)
                if (other == loop) return true;
            return false;
        };
        return lie_apart(kernel_, a, b,
                         [&](int loop) { return loop_ >= 0 ? loop == loop_ : !around(a, loop) || !around(b, loop); }) ||
               keep_apart(a, b);
    }
    // Do both go as many rows on in each iteration of this loop, and are they never a whole number of such steps apart?
    bool keep_apart(const PadAccess &a, const PadAccess &b) const {
        if (loop_ < 0 || a.slot != b.slot) return false;
        LinearForm between = b.row.scaled(-1);
        between += a.row;
        int64_t step = 0;
        for (const auto &[atom, rows] : a.row.terms)
            if (const Atom &variable = kernel_.atoms[static_cast<size_t>(atom)]; variable.is_loop && variable.loop == loop_)
                step = std::abs(rows);
        for (const auto &[atom, rows] : between.terms)
            if (kernel_.atoms[static_cast<size_t>(atom)].loop == loop_) return false;
        const auto every = [](int) { return true; };
        const auto least = end_of(kernel_, between, false, every), most = end_of(kernel_, between, true, every);
        return step > 0 && least && most && floor_div(most->constant, step) == floor_div(least->constant - 1, step);
    }

    const Terms &terms_of(const PadAccess &access) {
        const auto [entry, inserted] = terms_.try_emplace(access.row.terms);
        Terms &terms = entry->second;
        if (!inserted) return terms;
        terms.number = static_cast<int>(terms_.size());
        for (const auto &[atom, rows] : access.row.terms) {
            const Atom &variable = kernel_.atoms[static_cast<size_t>(atom)];
            if (variable.loop != loop_) continue;
            terms.plain_steps = terms.plain_steps && variable.is_loop;
            terms.step += rows;
        }
        return terms;
    }

    // After how many iterations of this loop (at least one) `later` touches the row of `earlier`; 0: never. What is not a
    // plain step a loop may be the same row in the next iteration. `of_both`: terms that they have both.
    static int iterations_between(const PadAccess &earlier, const PadAccess &later, const Terms *of_both, bool in_one_pad) {
        if (earlier.allocation != later.allocation) return 0;
        if (!may_share_slot(earlier, later)) return 0;
        if (earlier.slot != later.slot || of_both == nullptr) return 1;
        if (!of_both->plain_steps) return in_one_pad ? 1 : 0;
        const int64_t step = of_both->step, apart = earlier.row.constant - later.row.constant;
        if (step == 0) return apart == 0 ? 1 : 0;
        return apart % step == 0 && apart / step >= 1 ? static_cast<int>(apart / step) : 0;
    }

    const Kernel &kernel_;
    const Machine &machine_;
    const std::vector<Op> &ops_;
    int loop_;  // the loop that the block is the body of, -1: none
    bool masks_in_turn_;
    bool little_code_;  // too little to keep transfers apart
    std::vector<Edge> edges_;
    std::unordered_map<int32_t, Site> writer_;
    std::unordered_map<int32_t, std::vector<Site>> readers_;
    // Masks of straight code: the latest, those that are read later, those that are not, by their last reader.
    std::optional<Site> last_mask_;
    std::vector<Reg> open_masks_, ended_masks_;
    std::unordered_map<int32_t, int> last_reader_;
    std::vector<Site> rows_;
    std::optional<Site> push_;
    std::map<std::map<int, int64_t>, Terms> terms_;
    std::map<int, std::vector<Touch>> accesses_;  // by allocation
    std::map<int, Site> barrier_, engine_, side_engine_;
    std::set<int> held_;  // allocations of whose barriers one is a wait for transfers of another
    std::vector<Site> waits_for_all_;
    std::array<std::vector<Site>, 2> transfers_;  // loads, stores
};

}  // namespace

bool may_alias(const Kernel &kernel, const PadAccess &a, const PadAccess &b) {
    return may_be_one_row(a, b, a.row.terms == b.row.terms) && !lie_apart(kernel, a, b);
}

std::vector<Reg> reads_of(const Op &op) {
    std::vector<Reg> reads;
    for_each_read(op, [&](Reg r) { reads.push_back(r); });
    return reads;
}

bool makes_constant(const Kernel &kernel, const Op &op) {
    if (op.access && op.opcode == Opcode::vreg_ld && kernel.allocations[static_cast<size_t>(op.access->allocation)].zeros)
        return true;
    if (!op.dst.defined() || kernel.cls(op.dst) != RegisterClass::Vector || op.access || op.mask.defined() || op.keeps_dst)
        return false;
    const Unit unit = info(op.opcode).unit;
    if (unit != Unit::Alu && unit != Unit::Mul) return false;
    const std::vector<Reg> reads = reads_of(op);
    return std::all_of(reads.begin(), reads.end(),
                       [&](Reg r) { return r.id <= all_lanes.id || kernel.registers[static_cast<size_t>(r.id)].constant; });
}

bool clears_under_mask(const Kernel &kernel, const Op &op) {
    Op whole = op;
    whole.mask = Reg{};
    whole.keeps_dst = false;
    return op.mask.defined() && op.keeps_dst && makes_constant(kernel, whole);
}

bool reads(const Op &op, Reg r) {
    if (!r.defined()) return false;
    if (std::find(op.src.begin(), op.src.end(), r) != op.src.end() || op.mask == r || (op.keeps_dst && op.dst == r))
        return true;
    return op.side && std::any_of(op.side->begin(), op.side->end(), [r](const Op &inner) { return reads(inner, r); });
}

int result_latency(const Machine &machine, Opcode op) {
    if (!machine.timed()) return 1;
    const auto after = [&](int64_t latency) { return static_cast<int>(latency + 1 + machine.wb.offer_to_use); };
    switch (info(op).unit) {
        case Unit::Ex1:
            return after(machine.ex1.L);
        case Unit::Ex2:
            if (op == Opcode::rcp_bf || op == Opcode::sqrt_bf) return after(machine.ex2.rcp_sqrt_L);
            if (op == Opcode::mv_stm || op == Opcode::bfts_s || op == Opcode::stbf_s) return after(machine.ex2.conv_L);
            return after(machine.ex2.divmod_L);
        case Unit::Ex3:
            return after(machine.ex3.L);
        case Unit::Ex4:
            return after(machine.ex4.L);
        case Unit::Ex5:
            return after(machine.ex5.load_hit + machine.dcache.miss_clean);
        case Unit::Alu:
            return after(op == Opcode::add_vv || op == Opcode::sub_vv || op == Opcode::add_vs || op == Opcode::sub_vs
                             ? machine.vec.add_L
                             : machine.vec.cmp_L);
        case Unit::Mul:
            return after(machine.vec.mul_L);
        case Unit::Exp:
            return after(machine.vec.exp_L);
        case Unit::Reduce:
            return after(machine.vec.reduce_L);
        case Unit::Array:
            return op == Opcode::gemm_vv ? after(machine.sa.L) : 1;
        case Unit::MoveToScalar:
            return after(machine.vec.mov_to_scalar_L);
        case Unit::Vlsu:
            return static_cast<int>(machine.vlsu.present + machine.pad.read_L + machine.vlsu.load_extra +
                                    machine.wb.offer_to_use);
        case Unit::Sdma:
            return transfer_cycles;
        default:
            return 1;
    }
}

std::vector<Edge> dependences(const Kernel &kernel, const std::vector<Op> &ops, int loop, bool masks_in_turn) {
    return Builder(kernel, ops, loop, masks_in_turn).run();
}

}  // namespace atalla::codegen
