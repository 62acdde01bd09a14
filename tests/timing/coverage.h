// What a set of runs has met: instructions, units, stall causes, refusals, and the situations that the rules speak of.
#pragma once

#include <array>
#include <map>
#include <string>

#include "isa/program.h"
#include "simulator/timing/observer.h"

namespace atalla {

class Coverage {
public:
    // Counts while one program runs.
    class Watcher : public timing::Observer {
    public:
        Watcher(Coverage &coverage, const Machine &machine, const Program &program);

        void waits(int32_t packet, Stall cause, int64_t from, int64_t to) override;
        void issues(int32_t packet, int64_t at, const MachineState &state) override;
        void operation(const timing::Issued &issued) override;
        void result(timing::Source source, int64_t at) override;
        void access(int64_t issued, int64_t end, bool store, bool missed) override;
        void pad_starts(uint32_t pad, bool write, bool of_transfer, uint32_t row, int32_t packet, int64_t at, int64_t busy,
                        int64_t lands) override;
        void transfer_ends(uint32_t pad, int32_t packet, int64_t issued, int64_t end) override;
        void opens_row(uint32_t bank, int64_t row, int64_t at, int64_t ready) override;
        void serves_beat(uint32_t bank, uint32_t address, bool write, int master, int64_t at, int64_t busy) override;
        void halted(int64_t halt, int64_t last) override;

    private:
        Coverage &coverage_;
        const Machine &machine_;
        const Program &program_;
        int32_t last_packet_ = -1;
        int64_t bank_wait_ = 0, last_result_ = -1, last_read_[4], last_write_[4];
        int64_t last_row_ = INT64_MIN / 2;
        int transfers_ = 0;
        std::map<uint32_t, int64_t> open_rows_;
    };

    void add(const RunResult &result);
    // A line each: instructions, units, stalls, refusals, situations with how often.
    std::string text() const;
    // What must be met and was not, "" if all was.
    std::string missing() const;

private:
    void met(const std::string &situation) { situations_[situation]++; }

    std::map<Opcode, uint64_t> instructions_;
    std::array<uint64_t, 16> units_{};
    StallCycles stalls_{};
    std::map<std::string, uint64_t> rules_, situations_;
    uint64_t runs_ = 0, finished_ = 0, cycles_ = 0;
};

}  // namespace atalla
