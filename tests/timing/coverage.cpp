#include "tests/timing/coverage.h"

#include <algorithm>

#include <fmt/format.h>

#include "isa/fields.h"

namespace atalla {

namespace {

// What the random programs must meet, by rule of section 17.
const std::vector<std::string> &wanted_situations() {
    static const std::vector<std::string> all = {
        "3: an instruction line is replaced",
        "6: k reads of a bank, k = 2",
        "6: k reads of a bank, k = 3",
        "6: k reads of a bank, k = 4",
        "14: two results in one cycle",
        "24: weights right behind weights",
        "28: a pad reads and writes in one cycle",
        "30: a transfer with x0 as its base",
        "31: two transfers at once",
        "31: four transfers at once",
        "32: a load ends",
        "33: a store ends",
        "34: a beat for instructions",
        "34: a beat for scalar data",
        "34: a beat for a transfer",
        "35: another row is opened",
        "38: work beyond a refresh",
        "39: a scalar hit",
        "39: a scalar miss",
        "39: a dirty line is written back",
        "40: a branch is taken",
        "40: a branch is not taken",
        "40: a misprediction",
        "41: a drain",
    };
    return all;
}

const std::vector<std::string> wanted_rules = {"50", "51", "52", "53"};

}  // namespace

Coverage::Watcher::Watcher(Coverage &coverage, const Machine &machine, const Program &program)
    : coverage_(coverage), machine_(machine), program_(program) {
    std::fill_n(last_read_, 4, -1);
    std::fill_n(last_write_, 4, -1);
}

void Coverage::Watcher::waits(int32_t, Stall cause, int64_t from, int64_t to) {
    bank_wait_ += cause == Stall::Bank ? to - from : 0;
}

void Coverage::Watcher::issues(int32_t packet, int64_t at, const MachineState &) {
    if (last_packet_ >= 0 && is_branch(program_.packets[static_cast<size_t>(last_packet_)].packet[0].op)) {
        coverage_.met(packet == last_packet_ + 1 ? "40: a branch is not taken" : "40: a branch is taken");
    }
    if (bank_wait_ > 0) {
        coverage_.met(fmt::format("6: k reads of a bank, k = {}", bank_wait_));
    }
    bank_wait_ = 0;
    last_packet_ = packet;
    if (machine_.dram.refresh > 0 && at > machine_.dram.refresh_interval + machine_.dram.refresh) {
        coverage_.met("38: work beyond a refresh");
    }
}

void Coverage::Watcher::operation(const timing::Issued &issued) {
    const Instruction &instruction = *issued.instruction;
    coverage_.instructions_[instruction.op]++;
    coverage_.units_[static_cast<size_t>(info(instruction.op).unit)]++;
    if (instruction.op == Opcode::lw_vi) {
        if (issued.cycle == last_row_ + 1) {
            coverage_.met("24: weights right behind weights");
        }
        last_row_ = issued.cycle;
    }
    if (info(instruction.op).unit == Unit::Sdma) {
        transfers_++;
        if (transfers_ == 2) {
            coverage_.met("31: two transfers at once");
        }
        if (transfers_ == 4) {
            coverage_.met("31: four transfers at once");
        }
        if (instruction.d == 0) {
            coverage_.met("30: a transfer with x0 as its base");
        }
    }
}

void Coverage::Watcher::result(timing::Source, int64_t at) {
    if (at == last_result_) {
        coverage_.met("14: two results in one cycle");
    }
    last_result_ = at;
}

void Coverage::Watcher::access(int64_t, int64_t, bool, bool missed) {
    coverage_.met(missed ? "39: a scalar miss" : "39: a scalar hit");
}

void Coverage::Watcher::pad_starts(uint32_t pad, bool write, bool, uint32_t, int32_t, int64_t at, int64_t, int64_t) {
    (write ? last_write_ : last_read_)[pad] = at;
    if (last_write_[pad] == last_read_[pad]) {
        coverage_.met("28: a pad reads and writes in one cycle");
    }
}

void Coverage::Watcher::transfer_ends(uint32_t, int32_t packet, int64_t, int64_t) {
    transfers_--;
    const Packet &slots = program_.packets[static_cast<size_t>(packet)].packet;
    const bool load = std::ranges::any_of(slots, [](const Instruction &slot) { return slot.op == Opcode::scpad_ld; });
    coverage_.met(load ? "32: a load ends" : "33: a store ends");
}

void Coverage::Watcher::opens_row(uint32_t bank, int64_t row, int64_t, int64_t) {
    const auto [open, is_new] = open_rows_.emplace(bank, row);
    if (!is_new && open->second != row) {
        coverage_.met("35: another row is opened");
    }
    open->second = row;
}

void Coverage::Watcher::serves_beat(uint32_t, uint32_t, bool write, int master, int64_t, int64_t) {
    coverage_.met(master == 0   ? "34: a beat for instructions"
                  : master == 1 ? "34: a beat for scalar data"
                                : "34: a beat for a transfer");
    if (master == 1 && write) {
        coverage_.met("39: a dirty line is written back");
    }
}

void Coverage::Watcher::halted(int64_t halt, int64_t last) {
    if (last > halt) {
        coverage_.met("41: a drain");
    }
}

void Coverage::add(const RunResult &result) {
    runs_++;
    finished_ += result.ok;
    cycles_ += result.counters.cycles;
    if (!result.ok) {
        rules_[result.rule]++;
    }
    for (size_t cause = 0; cause < stall_causes; cause++) {
        stalls_[cause] += result.counters.stalls[cause];
    }
    situations_["3: an instruction line is replaced"] += result.counters.icache_misses;
    situations_["40: a misprediction"] += result.counters.branch_mispredicts;
}

std::string Coverage::text() const {
    std::string text = fmt::format("{} runs, {} of them to their end, {} cycles\n", runs_, finished_, cycles_);
    text += fmt::format("instructions: {} of {}\n", instructions_.size(), instruction_table().size());
    text += "units:";
    for (size_t unit = static_cast<size_t>(Unit::Ex1); unit < static_cast<size_t>(Unit::Undefined); unit++) {
        text += fmt::format(" {} {},", unit_name(static_cast<Unit>(unit)), units_[unit]);
    }
    text.back() = '\n';
    text += "stall cycles:";
    for (size_t cause = 0; cause < stall_causes; cause++) {
        text += fmt::format(" {} {},", stall_name(static_cast<Stall>(cause)), stalls_[cause]);
    }
    text.back() = '\n';
    text += "refused by rule:";
    for (const auto &[rule, count] : rules_) {
        text += fmt::format(" {} {},", rule, count);
    }
    text.back() = '\n';
    for (const auto &[situation, count] : situations_) {
        text += fmt::format("rule {}: {}\n", situation, count);
    }
    return text;
}

std::string Coverage::missing() const {
    std::string text;
    const auto need = [&](bool met, std::string_view what) {
        if (!met) {
            text += (text.empty() ? "" : ", ") + std::string(what);
        }
    };
    for (const InstructionInfo &row : instruction_table()) {
        // A nop is no operation, and the transpose unit's are refused.
        need(row.op == Opcode::nop_s || row.unit == Unit::Undefined || instructions_.contains(row.op), row.mnemonic);
    }
    for (size_t cause = 0; cause < stall_causes; cause++) {
        need(stalls_[cause] > 0, stall_name(static_cast<Stall>(cause)));
    }
    for (const std::string &rule : wanted_rules) {
        need(rules_.contains(rule), "a refusal by rule " + rule);
    }
    for (const std::string &situation : wanted_situations()) {
        need(situations_.contains(situation) && situations_.at(situation) > 0, "rule " + situation);
    }
    return text;
}

}  // namespace atalla
