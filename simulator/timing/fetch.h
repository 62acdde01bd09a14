// Instruction fetch: the instruction cache with its sectors (rules 2 and 3) and the branch target buffer (rule 40).
#pragma once

#include <bit>
#include <vector>

#include "isa/machine.h"
#include "simulator/timing/bus.h"
#include "simulator/timing/cycle.h"

namespace atalla::timing {

// Sectors are numbered by address / sector size.
class InstructionCache {
public:
    InstructionCache(const Machine &machine, Bus &bus)
        : sector_shift_(std::countr_zero(static_cast<uint64_t>(machine.icache.sector))),
          sectors_per_line_shift_(std::countr_zero(static_cast<uint64_t>(machine.icache.line / machine.icache.sector))),
          line_mask_(static_cast<uint32_t>(machine.icache.bytes / machine.icache.line - 1)),
          bus_(bus),
          tags_(line_mask_ + 1, -1),
          usable_from_((size_t{line_mask_} + 1) << sectors_per_line_shift_, never) {}

    // Replaces the absent lines of these sectors; their sectors are requested from the next cycle on (rule 3).
    void look_up(uint32_t first_sector, uint32_t last_sector, Cycle now) {
        const uint32_t last_line = last_sector >> sectors_per_line_shift_;
        for (uint32_t line = first_sector >> sectors_per_line_shift_; line <= last_line; line++) {
            if (tags_[line & line_mask_] != line) {
                replace(line, now);
            }
        }
    }
    // From which cycle on all of these sectors are there; `never` while one has not arrived. They were looked up before.
    Cycle usable_from(uint32_t first_sector, uint32_t last_sector) const {
        Cycle latest = 0;
        for (uint32_t sector = first_sector; sector <= last_sector; sector++) {
            latest = std::max(latest, usable_from_[place(sector)]);
        }
        return latest;
    }

    Beat launch(Cycle now) {
        const Request request = requests_.front();
        requests_.pop();
        bus_.set_next_launch(instruction_master, requests_.empty() ? never : std::max(requests_.front().from, now + 1));
        return {request.sector << sector_shift_, 0, instruction_master, false};
    }
    // The sector at an address, which arrives, is usable from the next cycle on if its line is still the one in the cache.
    void arrive(uint32_t address, Cycle now) {
        const uint32_t sector = address >> sector_shift_;
        const uint32_t line = sector >> sectors_per_line_shift_;
        if (tags_[line & line_mask_] == line) {
            Cycle &usable = usable_from_[place(sector)];
            usable = std::min(usable, now + 1);
        }
    }

    // A number that another set of lines has not; never 0.
    uint64_t state() const { return misses_ + 1; }
    uint64_t misses() const { return misses_; }

private:
    struct Request {
        Cycle from;
        uint32_t sector;
    };
    size_t place(uint32_t sector) const {
        return sector & ((line_mask_ << sectors_per_line_shift_) | ((1u << sectors_per_line_shift_) - 1));
    }
    [[gnu::noinline]] void replace(uint32_t line, Cycle now) {
        tags_[line & line_mask_] = line;
        misses_++;
        for (uint32_t index = 0; index < 1u << sectors_per_line_shift_; index++) {
            const uint32_t sector = (line << sectors_per_line_shift_) + index;
            usable_from_[place(sector)] = never;
            if (requests_.empty()) {
                bus_.set_next_launch(instruction_master, now + 1);
            }
            requests_.push(now + 1, sector);
        }
    }

    const int sector_shift_, sectors_per_line_shift_;
    const uint32_t line_mask_;
    Bus &bus_;
    std::vector<int64_t> tags_;
    std::vector<Cycle> usable_from_;
    Queue<Request> requests_;
    uint64_t misses_ = 0;
};

class BranchTargetBuffer {
public:
    explicit BranchTargetBuffer(const Machine &machine) : entries_(static_cast<size_t>(machine.branch.btb)) {}

    // Where fetch goes on after the control packet at `pc`.
    int64_t predict(uint32_t pc, bool is_jump, int64_t next_packet) const {
        const Entry &entry = entries_[index(pc)];
        const bool use = entry.pc == pc && (is_jump || entry.target <= pc);
        return use ? entry.target : next_packet;
    }
    void taken(uint32_t pc, int64_t target) { entries_[index(pc)] = {pc, target}; }

private:
    struct Entry {
        int64_t pc = -1, target = 0;
    };
    size_t index(uint32_t pc) const { return pc / 4 % entries_.size(); }
    std::vector<Entry> entries_;
};

}  // namespace atalla::timing
