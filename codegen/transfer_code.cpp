#include "codegen/transfer_code.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>

#include "codegen/dependence.h"
#include "isa/error.h"
#include "isa/vectors.h"

namespace atalla::codegen {

namespace {

bool same_shape(const Tile &a, const Tile &b) {
    return a.pad == b.pad && a.rows == b.rows && a.cols == b.cols && a.pitch == b.pitch;
}

Run longest_run(const std::vector<Tile> &tiles, size_t first, size_t period) {
    Run run;
    run.group.assign(tiles.begin() + first, tiles.begin() + first + period);
    for (size_t at = first + period; at + period <= tiles.size(); at += period) {
        const int64_t row_step = tiles[at].row - tiles[at - period].row, mem_step = tiles[at].mem - tiles[at - period].mem;
        if (run.count > 1 && (row_step != run.row_step || mem_step != run.mem_step)) break;
        bool fits = true;
        for (size_t i = 0; i < period && fits; i++) {
            const Tile &now = tiles[at + i], &before = tiles[at + i - period];
            fits = same_shape(now, before) && now.row - before.row == row_step && now.mem - before.mem == mem_step;
        }
        if (!fits) break;
        run.row_step = row_step;
        run.mem_step = mem_step;
        run.count++;
    }
    return run;
}

bool jumps(const Run &run, size_t tile) {
    return std::ranges::any_of(run.jumps, [&](const Run::Jump &jump) { return (jump.tiles >> tile & 1u) != 0; });
}

}  // namespace

std::vector<Run> split_runs(const std::vector<Tile> &tiles) {
    constexpr size_t longest_period = 16;
    std::vector<Run> runs;
    for (size_t first = 0; first < tiles.size();) {
        Run best = longest_run(tiles, first, 1);
        for (size_t period = 2; period <= longest_period && first + period <= tiles.size(); period++) {
            Run run = longest_run(tiles, first, period);
            if (run.count > 1 && run.count * run.group.size() > best.count * best.group.size()) best = std::move(run);
        }
        first += best.count * best.group.size();
        runs.push_back(std::move(best));
    }
    return runs;
}

std::vector<Run> split_rounds(const std::vector<Tile> &tiles) {
    const auto uses_pad = [](const Run &run, int pad) {
        return std::any_of(run.group.begin(), run.group.end(), [&](const Tile &t) { return t.pad == pad; });
    };
    std::vector<Run> rounds;
    for (Run &run : split_runs(tiles)) {
        const bool lone = run.count == 1 && run.group.size() == 1;
        if (lone && !rounds.empty() && rounds.back().count == 1 && !uses_pad(rounds.back(), run.group[0].pad))
            rounds.back().group.push_back(run.group[0]);
        else
            rounds.push_back(std::move(run));
    }
    return rounds;
}

std::vector<Run> join_runs(std::vector<Run> runs) {
    const auto join = [](Run &run, const Run &next) {
        if (!run.jumps.empty() || run.count < 2 || next.row_step != run.row_step || next.mem_step != run.mem_step ||
            next.group.size() != run.group.size())
            return false;
        Run::Jump jump{0, run.count + next.count, run.count - 1, 0, 0};
        for (size_t i = 0; i < run.group.size(); i++) {
            const Tile &from = run.group[i], &to = next.group[i];
            const int64_t mem = to.mem - from.mem - run.count * run.mem_step,
                          rows = to.row - from.row - run.count * run.row_step;
            if (!same_shape(from, to) || (jump.tiles != 0 && (mem != 0 || rows != 0) && (mem != jump.mem || rows != jump.rows)))
                return false;
            if (mem == 0 && rows == 0) continue;
            jump.mem = mem;
            jump.rows = rows;
            jump.tiles |= 1u << i;
        }
        run.jumps.push_back(jump);
        run.count += next.count;
        return true;
    };
    std::vector<Run> joined;
    for (Run &run : runs)
        if (joined.empty() || !join(joined.back(), run)) joined.push_back(std::move(run));
    return joined;
}

std::vector<Run> join_runs_of_some_pads(const std::vector<Run> &runs) {
    const std::vector<Run> joined = join_runs(runs);
    const auto all_jump = [](const Run &run) {
        return std::ranges::any_of(run.jumps, [&](const Run::Jump &jump) {
            return static_cast<size_t>(std::popcount(jump.tiles)) == run.group.size();
        });
    };
    return std::ranges::none_of(joined, all_jump) ? joined : runs;
}

std::vector<Run> one_tile_a_pad(const std::vector<Run> &runs) {
    std::vector<Run> split;
    for (const Run &run : runs) {
        const size_t first = split.size();
        for (const Tile &tile : run.group) {
            const auto is_free = [&](const Run &other) {
                return std::none_of(other.group.begin(), other.group.end(), [&](const Tile &t) { return t.pad == tile.pad; });
            };
            const auto found = std::find_if(split.begin() + static_cast<std::ptrdiff_t>(first), split.end(), is_free);
            if (found != split.end())
                found->group.push_back(tile);
            else
                split.push_back({{tile}, run.count, run.row_step, run.mem_step});
        }
    }
    return split;
}

int64_t beats_of(const std::vector<Tile> &tiles, const Machine &machine) {
    constexpr int64_t element_bytes = 2;
    int64_t beats = 0;
    for (const Tile &tile : tiles)
        for (int64_t row = 0; row < tile.rows; row++) {
            const int64_t first = (tile.mem + row * tile.pitch) * element_bytes, end = first + tile.cols * element_bytes;
            beats += ceil_div(end, machine.sdma.beat) - floor_div(first, machine.sdma.beat);
        }
    return beats;
}

std::vector<size_t> halves_of(const std::vector<Tile> &tiles, const Machine &machine) {
    const int64_t page = machine.dram.row_bytes / 2, groups = machine.dram.groups;
    std::map<int64_t, std::vector<size_t>> by_bank_group;
    for (size_t i = 0; i < tiles.size(); i++)
        by_bank_group[page > 0 ? floor_mod(floor_div(tiles[i].mem, page), groups) : 0].push_back(i);
    std::vector<size_t> halves(tiles.size());
    size_t next = 0;
    for (const auto &[group, of_group] : by_bank_group)
        for (const size_t i : of_group) halves[i] = next++ % 2;
    return halves;
}

void append(Body from, Body &to) {
    for (Node &node : from) to.push_back(std::move(node));
}

Op value_op(Reg dst, LinearForm value, std::array<Reg, 3> plus) {
    Op op;
    op.opcode = Opcode::addi_s;
    op.dst = dst;
    op.value = std::move(value);
    op.src = plus;
    return op;
}

Op binary(Opcode opcode, Reg dst, Reg a, Reg b) {
    Op op;
    op.opcode = opcode;
    op.dst = dst;
    op.src = {a, b};
    return op;
}

Op side(Reg condition, const Body &ops) {
    Op branch;
    branch.opcode = Opcode::bne_s;
    branch.src = {condition, zero_scalar};
    branch.dst = condition;
    branch.side = std::make_shared<std::vector<Op>>();
    for (const Node &node : ops) branch.side->push_back(*node.op);
    return branch;
}

LinearForm TransferCode::pad_bytes(const Copy &copy, const Tile &tile) const {
    const Allocation &allocation = kernel_.allocations[copy.allocation];
    LinearForm form = copy.pad_row;
    const Ring *ring = rings_.of(copy.allocation);
    if (ring != nullptr) form.terms.erase(ring->atom);
    for (auto &[atom, step] : form.terms) {
        const std::optional<int64_t> in_pad = allocation.step_in_pad(step);
        if (!in_pad)
            throw Error("cannot generate code: a copy of '" + allocation.name + "' changes pads from iteration to iteration");
        step = *in_pad;
    }
    form.constant += (ring != nullptr ? 0 : allocation.base_row) + tile.row;
    return form.scaled(kernel_.machine->pad.row_bytes);
}

LinearForm TransferCode::mem_bytes(const Copy &copy, int64_t offset) const {
    LinearForm form = copy.mem;
    form.constant += offset;
    return form.scaled(2);
}

int32_t TransferCode::control_word(const Tile &tile) const {
    const uint32_t pitch = tile.rows == 1 ? tile.cols : tile.pitch;
    return static_cast<int32_t>(uint32_t(tile.pad) << 30 | uint32_t(tile.rows - 1) << 25 | uint32_t(tile.cols - 1) << 20 |
                                (pitch - 1));
}

Channel TransferCode::channel(const Copy &copy, const Run &run) {
    Channel result{&copy, run, {}, {}, {}};
    const std::string &name = kernel_.allocations[copy.allocation].name;
    for (const Tile &tile : run.group) {
        result.pad.push_back(kernel_.scalar(name + "_dma"));
        result.mem.push_back(kernel_.scalar(name + "_mem"));
        result.control.push_back(kernel_.constant(control_word(tile)));
    }
    if (run.other_mem_step != 0) result.mem_step = kernel_.scalar(name + "_step");
    for (const Run::Jump &jump : run.jumps) {
        result.left.push_back(kernel_.scalar(name + "_until"));
        if (jump.rows != 0 && !result.row_jump.defined()) result.row_jump = kernel_.scalar(name + "_row_jump");
    }
    return result;
}

std::vector<Channel> TransferCode::channels(const Copy &copy, const std::vector<Run> &runs) {
    std::vector<Channel> list;
    for (const Run &run : runs) list.push_back(channel(copy, run));
    return list;
}

Op TransferCode::transfer(const Channel &c, size_t i, bool ahead) const {
    Op op;
    op.opcode = c.copy->load ? Opcode::scpad_ld : Opcode::scpad_st;
    if (kernel_.machine->timed()) op.dst = c.pad[i];
    op.src = {c.pad[i], c.mem[i], c.control[i]};
    op.pad = c.run.group[i].pad;
    op.orders = c.copy->allocation;
    op.ahead = ahead;
    op.source = c.copy->source;
    return op;
}

void TransferCode::aim(const Channel &c, bool pads_before, Reg slot_register, Reg memory, const std::map<int, Reg> &loop_values,
                       Body &out) const {
    for (size_t i = 0; i < c.run.group.size(); i++) {
        const Tile &tile = c.run.group[i];
        Tile at = tile;
        at.row -= pads_before ? c.run.row_step : 0;
        Op pad = value_op(c.pad[i], pad_bytes(*c.copy, at), {slot_register});
        pad.loop_values = loop_values;
        out.push_back(std::move(pad));
        if (i > 0) {
            // As far from the first tile as it is.
            out.push_back(value_op(c.mem[i], {(tile.mem - c.run.group[0].mem) * 2, {}}, {c.mem[0]}));
            continue;
        }
        Op mem = memory.defined() ? value_op(c.mem[i], LinearForm{tile.mem * 2, {}}, {memory})
                                  : value_op(c.mem[i], mem_bytes(*c.copy, tile.mem), {kernel_.tensors[c.copy->tensor].base});
        mem.loop_values = loop_values;
        out.push_back(std::move(mem));
    }
    if (c.mem_step.defined()) out.push_back(value_op(c.mem_step, {c.run.mem_step * 2, {}}));
    for (size_t i = 0; i < c.left.size(); i++) out.push_back(value_op(c.left[i], {c.run.jumps[i].left, {}}));
    if (c.row_jump.defined()) out.push_back(value_op(c.row_jump, {0, {}}));
}

void TransferCode::step_pads(const Channel &c, Body &out) const {
    for (size_t i = 0; i < c.run.group.size() && c.run.row_step != 0; i++)
        out.push_back(value_op(c.pad[i], {c.run.row_step * kernel_.machine->pad.row_bytes, {}},
                               {c.pad[i], jumps(c.run, i) ? c.row_jump : Reg{}}));
}

void TransferCode::step_memory(const Channel &c, Body &out) const {
    if (c.mem_step.defined()) {
        for (Reg mem : c.mem) out.push_back(binary(Opcode::add_s, mem, mem, c.mem_step));
        out.push_back(binary(Opcode::sub_s, c.mem_step,
                             kernel_.constant(static_cast<int32_t>(2 * (c.run.mem_step + c.run.other_mem_step))), c.mem_step));
        return;
    }
    Reg more, more_rows;
    const auto of_jump = [&](Reg now, int64_t amount, Reg others) {
        const Reg bytes = kernel_.scalar("jump");
        out.push_back(binary(Opcode::and_s, bytes, now, kernel_.constant(static_cast<int32_t>(amount))));
        if (others.defined()) out.push_back(binary(Opcode::add_s, bytes, bytes, others));
        return bytes;
    };
    for (size_t i = 0; i < c.left.size(); i++) {
        // Below zero behind the last step in front of the jump: then all of it, otherwise nothing.
        const Run::Jump &jump = c.run.jumps[i];
        const Reg now = kernel_.scalar("now"), again = kernel_.scalar("again");
        out.push_back(value_op(c.left[i], {-1, {}}, {c.left[i]}));
        Op sign;
        sign.opcode = Opcode::srai_s;
        sign.dst = now;
        sign.src = {c.left[i]};
        sign.imm = 31;
        out.push_back(sign);
        const Reg bytes = of_jump(now, 2 * jump.mem, more);
        if (jump.rows != 0) more_rows = of_jump(now, jump.rows * kernel_.machine->pad.row_bytes, more_rows);
        out.push_back(binary(Opcode::and_s, again, now, kernel_.constant(static_cast<int32_t>(jump.every))));
        out.push_back(value_op(c.left[i], {0, {}}, {c.left[i], again}));
        more = bytes;
    }
    if (more_rows.defined()) out.push_back(value_op(c.row_jump, {0, {}}, {more_rows}));
    for (size_t i = 0; i < c.run.group.size() && (c.run.mem_step != 0 || more.defined()); i++)
        out.push_back(value_op(c.mem[i], {c.run.mem_step * 2, {}}, {c.mem[i], jumps(c.run, i) ? more : Reg{}}));
}

void TransferCode::start_group(const Channel &c, bool ahead, Body &out) const {
    for (size_t i = 0; i < c.run.group.size(); i++) out.push_back(transfer(c, i, ahead));
}

void TransferCode::wait(const std::vector<Channel> &channels, Body &out, bool late) const { wait(channels, {}, late, out); }

void TransferCode::hold(int allocation, const std::vector<Channel> &channels, Body &out) const {
    wait(channels, allocation, false, out);
}

void TransferCode::wait(const std::vector<Channel> &channels, std::optional<int> allocation, bool late, Body &out) const {
    if (!kernel_.machine->timed()) return;
    for (const Channel &c : channels) {
        // A pad has one transfer at a time: the last of a group ends after the others of its pad.
        std::map<int, Reg> last;
        for (size_t i = 0; i < c.pad.size(); i++) last[c.run.group[i].pad] = c.pad[i];
        for (auto it = last.begin(); it != last.end();) {
            const Reg first = (it++)->second, second = it != last.end() ? (it++)->second : zero_scalar;
            Op op = binary(Opcode::or_s, zero_scalar, first, second);
            op.orders = c.copy->scratch ? -1 : allocation.value_or(c.copy->allocation);
            op.ahead = late;
            op.holds = allocation.has_value();
            out.push_back(op);
        }
    }
}

Op TransferCode::fence(int allocation) const {
    Op op;
    op.orders = allocation;
    op.fence = true;
    return op;
}

Loop TransferCode::loop_over_groups(const Channel &c, int64_t count) {
    Loop loop;
    loop.id = static_cast<int>(kernel_.loops.size());
    loop.extent = count;
    loop.name = kernel_.allocations[c.copy->allocation].name + ".copy";
    kernel_.loops.push_back({loop.name, loop.extent, -1, kernel_.scalar("copy")});
    return loop;
}

void TransferCode::start_all(const Channel &c, bool ahead, Body &out) {
    if (c.run.count == 1) {
        start_group(c, ahead, out);
        return;
    }
    Loop loop = loop_over_groups(c, c.run.count);
    step_pads(c, loop.body);
    start_group(c, ahead, loop.body);
    step_memory(c, loop.body);
    out.push_back(std::move(loop));
}

namespace {

// From the start of a transfer until it has moved something, and until its end after the last beat.
int64_t restart_cycles(const Machine &machine) { return machine.sdma.setup + machine.pad.read_L + machine.dram.complete; }

}  // namespace

// Has it one tile of each of several pads, those of the second half as far apart from the first tile in each step?
bool TransferCode::comes_in_halves(const Run &run) const {
    std::set<int> pads;
    for (const Tile &tile : run.group) pads.insert(tile.pad);
    // Two delays a round take less than its transfers.
    if (beats_of(run.group, *kernel_.machine) < 3 * result_latency(*kernel_.machine, Opcode::div_s)) return false;
    return kernel_.machine->timed() && run.count > 1 && pads.size() == run.group.size() && pads.size() > 2 &&
           run.mem_step != 0 && run.other_mem_step == 0;
}

// Half of the pads, then the others when the first ones have begun: engines that start at the same time end at the same time,
// and DRAM has nothing to do until all have begun again. What takes the time is a division of zero, to which the base registers
// of the other half are added as they are stepped, or its addresses. That is where code stands still for the transfers before,
// and it does so behind the division.
void TransferCode::start_halves(const Channel &c, Body &out) {
    const Machine &machine = *kernel_.machine;
    const size_t all = c.run.group.size(), half = all / 2;
    // The first half takes its steps behind its start.
    Channel aimed = c;
    for (size_t i = 0; i < half; i++) aimed.run.group[i].row += c.run.row_step;
    aim(aimed, true, Reg{}, Reg{}, {}, out);
    Loop loop = loop_over_groups(c, c.run.count);
    const bool steps = c.run.row_step != 0;
    const auto take_time = [&] {
        Reg late = zero_scalar;
        for (int64_t cycles = restart_cycles(machine); cycles > 0; cycles -= result_latency(machine, Opcode::div_s)) {
            const Reg later = kernel_.scalar("late");
            Op division = binary(Opcode::div_s, later, late, kernel_.constant(1));
            division.orders = c.copy->allocation;
            loop.body.push_back(std::move(division));
            late = later;
        }
        return late;
    };
    const auto add = [&](const std::vector<Reg> &registers, size_t first, size_t end, int64_t bytes, Reg late) {
        for (size_t i = first; i < end; i++) loop.body.push_back(value_op(registers[i], {bytes, {}}, {registers[i], late}));
    };
    const auto start = [&](size_t first, size_t end) {
        for (size_t i = first; i < end; i++) loop.body.push_back(transfer(c, i, true));
    };
    const int64_t pad_step = c.run.row_step * machine.pad.row_bytes, mem_step = c.run.mem_step * 2;
    start(0, half);
    add(steps ? c.pad : c.mem, half, all, steps ? pad_step : 0, take_time());
    add(c.mem, 0, steps ? half : 0, mem_step, {});
    start(half, all);
    add(steps ? c.pad : c.mem, 0, half, steps ? pad_step : mem_step, take_time());
    add(c.mem, half, all, mem_step, {});
    out.push_back(std::move(loop));
}

std::vector<Channel> TransferCode::in_place(const Copy &copy, Body &out) {
    if (!copy.load) out.push_back(fence(copy.allocation));
    return start(copy, false, out);
}

std::vector<Channel> TransferCode::pass_through(const Copy &copy, Body &out) { return start(copy, true, out); }

std::vector<Channel> TransferCode::start(const Copy &copy, bool ahead, Body &out) {
    constexpr size_t most_in_line = 16;
    std::vector<Channel> channels;
    const bool still = copy.pad_row.terms.empty() && copy.tiles.size() <= most_in_line;
    std::vector<Run> runs = still ? std::vector<Run>{{copy.tiles}} : split_runs(copy.tiles);
    for (Run &run : runs) {
        const bool halves = ahead && !still && comes_in_halves(run);
        if (halves) {
            const std::vector<size_t> half = halves_of(run.group, *kernel_.machine);
            std::vector<Tile> tiles;
            for (const size_t wanted : {size_t{0}, size_t{1}})
                for (size_t i = 0; i < half.size(); i++)
                    if (half[i] == wanted) tiles.push_back(run.group[i]);
            run.group = std::move(tiles);
        }
        channels.push_back(channel(copy, run));
        Channel &c = channels.back();
        if (!still) {
            if (halves) {
                start_halves(c, out);
                continue;
            }
            aim(c, c.run.count > 1, Reg{}, Reg{}, {}, out);
            start_all(c, ahead, out);
            continue;
        }
        const LinearForm begin = mem_bytes(copy, 0);
        const Reg base = kernel_.tensors[copy.tensor].base;
        const bool at_base = begin.is_constant() && begin.constant == 0;
        const Reg first = at_base ? base : kernel_.scalar(kernel_.allocations[copy.allocation].name + "_mem");
        if (!at_base) out.push_back(value_op(first, begin, {base}));
        for (size_t i = 0; i < run.group.size(); i++) {
            const Tile &tile = run.group[i];
            const auto bytes = static_cast<int32_t>(pad_bytes(copy, tile).constant);
            // Nothing writes the base registers, which are busy until a transfer ends; what is never waited for needs none for
            // zero.
            c.pad[i] = bytes == 0 && !kernel_.machine->timed() ? zero_scalar
                                                               : kernel_.constant_register(bytes, base_registers + tile.pad);
            if (tile.mem == 0)
                c.mem[i] = first;
            else
                out.push_back(value_op(c.mem[i], {tile.mem * 2, {}}, {first}));
        }
        start_group(c, ahead, out);
    }
    return channels;
}

void TransferCode::issue_step(const Channel &c, Body &out) const {
    step_pads(c, out);
    start_group(c, true, out);
    step_memory(c, out);
}

void TransferCode::issue_steps(const Channel &c, int64_t count, Body &out) {
    if (count <= 2) {
        for (int64_t i = 0; i < count; i++) issue_step(c, out);
        return;
    }
    Loop loop = loop_over_groups(c, count);
    issue_step(c, loop.body);
    out.push_back(std::move(loop));
}

}  // namespace atalla::codegen
